"""Int8 beside float32, and what zero points and depthwise layers cost: `python -m tests.accuracy_figures FOLDER`.

FOLDER has the trained models and data of `tests/support/models/shared_quant.py`; without it, only networks with random
weights are timed. Three tables: latency and accuracy on this CPU; cycles of a Cortex-A53 as llvm-mca estimates them, by
the types of data and weights; and multiply-adds a cycle by kinds of layers. `--parts latency|cycles` takes one of them,
`--networks` some networks, `--jobs N` estimates in so many processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import int8tune as it
from int8tune.compiler.network_file import load_network
from int8tune.results.report.format import interval
from int8tune.results.report.schemes import share
from int8tune.results.report.schemes import time as milliseconds
from int8tune.results.schemes import SchemeSummary
from int8tune.schedules.registry import template_for
from int8tune.schedules.workload import Dense, DepthwiseConv2d, Workload, parse_workload
from tests.arm_estimates import CPU, arm_target, cycles, default_kernel
from tests.support.models import shared_quant

# Some are tables of layers: they are estimated, and not timed as a whole.
TABLES = (
    "inception_v1",
    "inception_v2",
    "inception_v3",
    "inception_v4",
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet18",
    "resnet50",
)
MODELS = (
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet18",
    "resnet50",
    "inception_v1",
    "inception_v2",
    "inception_v3",
    "inception_v4",
)
# Types of data and weights, and whether weights have zero points. Those of data are part of the bias.
FORMS = {
    "symmetric (s8 data, s8 weights)": ("s8", "s8", False),
    "asymmetric data (u8, s8)": ("u8", "s8", False),
    "asymmetric data and weights (u8, u8)": ("u8", "u8", True),
}
CALIBRATION, TESTED = 200, 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=shared_quant.FOLDER)
    parser.add_argument("--parts", nargs="+", choices=("latency", "cycles"), default=("latency", "cycles"))
    parser.add_argument("--networks", nargs="+", default=())
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    shared_quant.FOLDER = arguments.folder
    if "latency" in arguments.parts:
        print_latency(arguments.networks)
    if "cycles" in arguments.parts:
        print_cycles([name for name in TABLES if name in (arguments.networks or TABLES)], arguments.jobs)


def print_latency(wanted: Sequence[str]) -> None:
    """Whole models on this CPU, one thread: the compiled library beside the fastest runtime of the float model."""
    print("| network | int8, ms [95 %] | float32, ms [95 %] | times faster [95 %] | top-1 int8 | top-1 float32 |")
    print("|-|-|-|-|-|-|")
    trained = [name for name in shared_quant.NETWORKS if (shared_quant.FOLDER / f"{name}.onnx").exists()]
    for name in [name for name in (*trained, *MODELS) if not wanted or name in wanted]:
        progress(name)
        try:
            with tempfile.TemporaryDirectory() as folder:
                summary = compared_trained(name, folder) if name in trained else compared_random(name, Path(folder))
            print(latency_row(name, summary, name in trained), flush=True)
        except Exception as error:  # the others are still of use
            print(f"| {name} | failed: {error} | | | | |", flush=True)


def compared_trained(name: str, folder: str) -> SchemeSummary:
    labels = shared_quant.labels_of(name)
    return it.compare_schemes(
        shared_quant.float_model(name),
        shared_quant.inputs_of(name, "calibration")[:CALIBRATION],
        test=shared_quant.inputs_of(name, "test")[:TESTED],
        labels=None if labels is None else labels[:TESTED].tolist(),
        schemes="mse",
        results=folder,
    ).summary


def compared_random(name: str, folder: Path) -> SchemeSummary:
    """A network with random weights, whose answers mean nothing."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import make_models
    import numpy as np
    import onnx

    network = make_models.NETWORKS[name]
    onnx.save(network.model(name), folder / f"{name}.onnx")
    pictures = np.random.default_rng(1).standard_normal((2, 3, network.size, network.size)).astype(np.float32)
    return it.compare_schemes(
        folder / f"{name}.onnx",
        pictures,
        schemes="max",
        equalize=False,
        round_weights=False,
        bias_correction=False,
        results=folder,
    ).summary


def latency_row(name: str, summary: SchemeSummary, is_trained: bool) -> str:
    (row,), fastest = summary.rows, summary.floats[0]
    none = "no labels" if is_trained else "no trained weights"
    tops = [share(each.top1) if each.top1 else none for each in (row.answers, summary.answers)]
    doubt = " (others had the cores)" if summary.disturbance else ""
    time_float = f"{fastest.runtime} {milliseconds(fastest.time)}"
    return " | ".join((f"| {name}{doubt}", milliseconds(row.time), time_float, interval(row.speedup), *tops)) + " |"


def print_cycles(networks: Sequence[str], jobs: int) -> None:
    """Sums of all layers of each network, by form; then the layers by kinds."""
    tables = {name: load_network(name).layers for name in networks}
    keys = list(dict.fromkeys(layer.workload.key for layers in tables.values() for layer in layers))
    found: dict[str, dict[str, float]] = {}
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, (key, each) in enumerate(zip(keys, pool.map(layer_cycles, keys), strict=True), 1):
            found[key] = each
            if number % 10 == 0 or number == len(keys):
                progress(f"layer {number} of {len(keys)}")
    print(f"\n| million cycles, {CPU} | {' | '.join(FORMS)} | zero points |\n|-|{'-|' * (len(FORMS) + 1)}")
    for name, layers in tables.items():
        sums = {form: sum(layer.count * found[layer.workload.key][form] for layer in layers) for form in FORMS}
        cells = [f"{each / 1e6:,.1f}" for each in sums.values()]
        symmetric, _, asymmetric = sums.values()
        print(f"| {name} | {' | '.join(cells)} | {asymmetric / symmetric - 1:+.0%} |")
    print(f"\n| multiply-adds a cycle | layers | {' | '.join(FORMS)} |\n|-|-|{'-|' * len(FORMS)}")
    for kind in ("first", "1x1", "larger", "depthwise", "dense"):
        chosen = [(parse_workload(key), each) for key, each in found.items() if kind_of(parse_workload(key)) == kind]
        if chosen:
            print(f"| {kind} | {len(chosen)} | {' | '.join(rates(chosen))} |")


def rates(chosen: Sequence[tuple[Workload, dict[str, float]]]) -> list[str]:
    """Multiply-adds a cycle over some layers, each counted once."""
    macs = sum(workload.macs for workload, _ in chosen)
    return [f"{macs / sum(each[form] for _, each in chosen):.2f}" for form in FORMS]


def kind_of(workload: Workload) -> str:
    if isinstance(workload, DepthwiseConv2d):
        return "depthwise"
    if isinstance(workload, Dense):
        return "dense"
    if workload.in_channels < 8:
        return "first"
    return "1x1" if workload.window.kernel == (1, 1) else "larger"


def layer_cycles(key: str) -> dict[str, float]:
    """Estimated cycles of a layer in each form, by the template's default."""
    workload, target = parse_workload(key), arm_target()
    found = {}
    for form, (data, weight, has_zero_points) in FORMS.items():
        # mypy can't tell that these are types of data.
        numerics = replace(workload.numerics, data=data, weight=weight, weight_zero_point=has_zero_points)  # type: ignore[arg-type]
        layer = replace(workload, numerics=numerics)
        found[form] = cycles(default_kernel(template_for(layer, target), layer, target).function, target)
    return found


def progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
