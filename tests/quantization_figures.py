"""How near quantized models are to their float models: `python -m tests.quantization_figures FOLDER`.

FOLDER has trained models and their data, as `tests/support/models/shared_quant.py` reads them. Each is quantized by 200
calibration inputs, and run on inputs with labels. NNCF has rows where it is installed (`pip install nncf`). The output
stands in `docs/quantization.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import int8tune as it
from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.session import run_session, start_session
from tests.support.models import shared_quant

Array = npt.NDArray[Any]

CALIBRATION = 200
BATCH = 50
PLAIN = {"equalize": False, "round_weights": False, "bias_correction": False}
OTHERS = ("ONNX Runtime", "NNCF")
DEFAULT = "default: mse, equalize, round, bias"
OURS: Mapping[str, Mapping[str, Any]] = {
    "max": PLAIN | {"calibration": "max"},
    "percentile:99.999": PLAIN | {"calibration": "percentile"},
    "kl": PLAIN | {"calibration": "kl"},
    "mse": PLAIN,
    "global": PLAIN | {"calibration": "global"},
    "mse, --per-tensor": PLAIN | {"per_tensor": True},
    "mse, equalize": PLAIN | {"equalize": True},
    "mse, bias": PLAIN | {"bias_correction": True},
    "mse, round, bias": {"equalize": False},
    "mse, equalize, bias": {"round_weights": False},
    DEFAULT: {},
    "default, --calibration global": {"calibration": "global"},
    "default, --share-scales": {"share_scales": True},
    "default, --activations s8 --symmetric": {"activations": "s8", "symmetric": True},
}


class Figures(NamedTuple):
    """Figures of one model on the test inputs: shares, signal to noise in decibels, and the core seconds of its making.

    `p_value` is that of the paired test of its top-1 and the float model's (McNemar's, exact).
    """

    top1: float | None
    p_value: float | None
    agreement: float
    half_interval: float
    sqnr_db: float
    core_s: float

    def __str__(self) -> str:
        top1 = "-" if self.top1 is None else f"{self.top1:.2%}"
        return f"{top1} / {self.agreement:.1%} ± {self.half_interval:.1%} / {self.sqnr_db:.1f}"


def main() -> None:
    """Print a table of all networks, and what the default gains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", nargs="+", default=shared_quant.NETWORKS)
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="rows of the table; all if left out")
    arguments = parser.parse_args()
    shared_quant.FOLDER = arguments.folder
    found = {network: _each(network, arguments.rows) for network in arguments.networks}
    print(f"| top-1 / same answer / SQNR, dB | {' | '.join(found)} |\n|-|{'-|' * len(found)}")
    for name in next(iter(found.values())):
        print(f"| {name} | {' | '.join(str(each[name]) for each in found.values())} |")
    if arguments.rows:
        return
    gains = [_gain(network, each) for network, each in found.items()]
    print(f"mean: {np.mean(gains):.1f} dB")


def _gain(network: str, rows: Mapping[str, Figures]) -> float:
    """Print how far the default is above the best of the others; decibels."""
    own, others = rows[DEFAULT], {name: each for name, each in rows.items() if name.startswith(OTHERS)}
    best = max(others, key=lambda name: others[name].sqnr_db)
    gain_db = own.sqnr_db - others[best].sqnr_db
    nearest = max(others.values(), key=lambda each: each.agreement)
    points = (
        f"{100 * (own.agreement - nearest.agreement):+.1f} points of the same answer beside {nearest.agreement:.1%}"
    )
    test = "" if own.p_value is None else f", p of its top-1 {own.p_value:.2f}"
    print(f"{network}: {gain_db:.1f} dB above `{best}`, {points}, {own.core_s:.1f} s{test}")
    return gain_db


def _each(network: str, rows: Sequence[str] | None = None) -> dict[str, Figures]:
    """Quantize a network by each of the ways, or by those of some names."""
    path = shared_quant.float_model(network)
    calibration = shared_quant.inputs_of(network, "calibration")[:CALIBRATION]
    test, labels = shared_quant.inputs_of(network, "test"), shared_quant.labels_of(network)
    right = _logits(path, None, test)
    top1 = None if labels is None else float((right.argmax(axis=1) == labels).mean())
    found = {"float": Figures(top1, 1.0 if top1 else None, 1.0, 0.0, math.inf, 0.0)}
    for name, make in (_others(path, calibration) | _ours(path, calibration)).items():
        if rows and name not in rows:
            continue
        started_s = time.process_time()
        proto = make()
        core_s = time.process_time() - started_s
        found[name] = _figures(right, _logits(path, proto, test), labels, core_s)
        print(f"{network}, {name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def _ours(path: Path, calibration: Array) -> dict[str, Callable[[], Any]]:
    return {
        name: lambda options=options: it.quantize(path, calibration, **options).proto  # type: ignore[misc]
        for name, options in OURS.items()
    }


def _others(path: Path, calibration: Array) -> dict[str, Callable[[], Any]]:
    of_nncf: dict[str, Callable[[], Any]] = {
        "NNCF": lambda: _nncf(path, calibration),
        "NNCF, mixed preset": lambda: _nncf(path, calibration, preset="mixed"),
    }
    return _onnxruntimes(path, calibration) | (of_nncf if importlib.util.find_spec("nncf") else {})


def _onnxruntimes(path: Path, calibration: Array) -> dict[str, Callable[[], Any]]:
    return {
        "ONNX Runtime, MinMax, per tensor": lambda: _onnxruntime(path, calibration, "MinMax", False),
        "ONNX Runtime, MinMax, per channel": lambda: _onnxruntime(path, calibration, "MinMax", True),
        "ONNX Runtime, Percentile, per channel": lambda: _onnxruntime(path, calibration, "Percentile", True),
    }


def _onnxruntime(path: Path, calibration: Array, method: str, per_channel: bool) -> Any:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType
    from onnxruntime.quantization.quantize import quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            name = read_float_model(path).inputs[0].name
            self._batches = iter([{name: calibration[n : n + BATCH]} for n in range(0, len(calibration), BATCH)])

        def get_next(self) -> dict[str, Array] | None:
            return next(self._batches, None)

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
        output = Path(folder) / "q.onnx"
        quantize_static(
            path,
            output,
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod[method],
        )
        return onnx.load(output)


def _nncf(path: Path, calibration: Array, preset: str | None = None) -> Any:
    """NNCF's, with what it takes for itself where a parameter is left out; one sample is one item of its data set."""
    import nncf
    import onnx

    logging.disable(logging.CRITICAL)
    name = read_float_model(path).inputs[0].name
    items = [{name: calibration[number : number + 1]} for number in range(len(calibration))]
    chosen = None if preset is None else nncf.QuantizationPreset(preset)
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
        return nncf.quantize(onnx.load(path), nncf.Dataset(items), subset_size=len(items), preset=chosen)


def _logits(path: Path, proto: Any, inputs: Array) -> Array:
    model = read_float_model(path)
    session = start_session(path, model.proto if proto is None else proto)
    (output,), (given,) = session.get_outputs(), model.inputs
    parts = [inputs[first : first + BATCH] for first in range(0, len(inputs), BATCH)]
    return np.concatenate([run_session(path, session, [output.name], {given.name: part})[0] for part in parts])


def _figures(right: Array, seen: Array, labels: Array | None, core_s: float) -> Figures:
    answers, exact = seen.argmax(axis=1), right.argmax(axis=1)
    agreement = float((answers == exact).mean())
    noise = ((right - seen).astype(np.float64) ** 2).sum()
    sqnr_db = float(10 * np.log10((right.astype(np.float64) ** 2).sum() / noise))
    top1 = p_value = None
    if labels is not None:
        top1 = float((answers == labels).mean())
        p_value = _mcnemar(exact == labels, answers == labels)
    return Figures(top1, p_value, agreement, _half_interval(agreement, len(right)), sqnr_db, core_s)


def _half_interval(share: float, count: int, deviations: float = 1.96) -> float:
    """Half of Wilson's interval of a share."""
    half = deviations * math.sqrt(share * (1 - share) / count + deviations**2 / (4 * count**2))
    return half / (1 + deviations**2 / count)


def _mcnemar(one: Array, other: Array) -> float:
    """How likely at least so uneven a split of the samples is that only one of two gets right."""
    fewer, more = sorted((int((one & ~other).sum()), int((other & ~one).sum())))
    count = fewer + more
    return min(1.0, float(2 * sum(math.comb(count, k) for k in range(fewer + 1)) / 2**count))


if __name__ == "__main__":
    main()
