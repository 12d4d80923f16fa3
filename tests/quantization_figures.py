"""How near quantized models are to their float models: `python -m tests.quantization_figures FOLDER`.

FOLDER has trained models and their data, as `tests/support/models/shared_quant.py` reads them. Each is quantized by 200
calibration inputs, and run on inputs with labels. The output stands in `docs/quantization.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
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
OURS: Mapping[str, Mapping[str, Any]] = {
    "max": PLAIN | {"calibration": "max"},
    "percentile:99.999": PLAIN | {"calibration": "percentile"},
    "kl": PLAIN | {"calibration": "kl"},
    "mse": PLAIN,
    "mse, --per-tensor": PLAIN | {"per_tensor": True},
    "mse, equalize": PLAIN | {"equalize": True},
    "mse, bias": PLAIN | {"bias_correction": True},
    "mse, round, bias": {"equalize": False},
    "mse, equalize, bias": {"round_weights": False},
    "default: mse, equalize, round, bias": {},
    "default, --activations s8 --symmetric": {"activations": "s8", "symmetric": True},
}


class Figures(NamedTuple):
    """Of one model on the test inputs: top-1 and agreement are shares, signal to noise is in decibels."""

    top1: float | None
    agreement: float
    sqnr_db: float
    core_s: float


def main() -> None:
    """Print a table for each network, and what all of them gain."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", nargs="+", default=shared_quant.NETWORKS)
    arguments = parser.parse_args()
    shared_quant.FOLDER = arguments.folder
    gains = []
    for network in arguments.networks:
        found = dict(_each(network))
        best = max(each.sqnr_db for name, each in found.items() if name.startswith("ONNX Runtime"))
        gains.append(found["default: mse, equalize, round, bias"].sqnr_db - best)
    print(f"default above the best of ONNX Runtime's, dB: {', '.join(f'{gain:.1f}' for gain in gains)}")
    print(f"mean: {np.mean(gains):.1f} dB")


def _each(network: str) -> Iterator[tuple[str, Figures]]:
    """Quantize a network by each of the ways, and print a row for each."""
    path = shared_quant.float_model(network)
    calibration = shared_quant.inputs_of(network, "calibration")[:CALIBRATION]
    test, labels = shared_quant.inputs_of(network, "test"), shared_quant.labels_of(network)
    right = _logits(path, None, test)
    top1 = "-" if labels is None else f"{(right.argmax(axis=1) == labels).mean():.2%}"
    print(f"{network}: {len(test):,} test inputs, top-1 of the float model {top1}")
    print("\n| | top-1 | same answer [95 %] | SQNR, dB | core s |\n|-|-|-|-|-|")
    for name, make in (_others(path, calibration) | _ours(path, calibration)).items():
        started_s = time.process_time()
        proto = make()
        core_s = time.process_time() - started_s
        seen = _logits(path, proto, test)
        found = _figures(right, seen, labels, core_s)
        low, high = _interval(found.agreement, len(test))
        answer = f"{found.agreement:.2%} [{low:.1%}, {high:.1%}]"
        share = "-" if found.top1 is None else f"{found.top1:.2%}"
        print(f"| {name} | {share} | {answer} | {found.sqnr_db:.1f} | {found.core_s:.1f} |", flush=True)
        yield name, found
    print()


def _ours(path: Path, calibration: Array) -> dict[str, Callable[[], Any]]:
    return {
        name: lambda options=options: it.quantize(path, calibration, **options).proto  # type: ignore[misc]
        for name, options in OURS.items()
    }


def _others(path: Path, calibration: Array) -> dict[str, Callable[[], Any]]:
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


def _logits(path: Path, proto: Any, inputs: Array) -> Array:
    model = read_float_model(path)
    session = start_session(path, model.proto if proto is None else proto)
    (output,), (given,) = session.get_outputs(), model.inputs
    parts = [inputs[first : first + BATCH] for first in range(0, len(inputs), BATCH)]
    return np.concatenate([run_session(path, session, [output.name], {given.name: part})[0] for part in parts])


def _figures(right: Array, seen: Array, labels: Array | None, core_s: float) -> Figures:
    answers = seen.argmax(axis=1)
    top1 = None if labels is None else float((answers == labels).mean())
    agreement = float((answers == right.argmax(axis=1)).mean())
    noise = ((right - seen).astype(np.float64) ** 2).sum()
    return Figures(top1, agreement, float(10 * np.log10((right.astype(np.float64) ** 2).sum() / noise)), core_s)


def _interval(share: float, count: int, deviations: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share."""
    middle = share + deviations**2 / (2 * count)
    half = deviations * math.sqrt(share * (1 - share) / count + deviations**2 / (4 * count**2))
    return (middle - half) / (1 + deviations**2 / count), (middle + half) / (1 + deviations**2 / count)


if __name__ == "__main__":
    main()
