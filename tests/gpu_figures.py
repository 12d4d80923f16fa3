"""Whether kernels reach what they are to reach on a GPU of this machine: `python -m tests.gpu_figures --device h100`.

Each figure is a comparison (`int8tune bench --device`) of a few layers, of records' best configs where there are any,
else of defaults. The table has the geometric mean of each one's layers, the lowest, and the goal; the exit code is 1 if
one is missed. Before it begins it says how long all take; figures that would end after `--limit-s` are left out.

Where there is no TVM, `--bundle` makes a bundle of those layers that are small enough to be sent, and `--merge RESULTS`
prints what came of it: how fast each kernel was, and which share of the peak loop's speed that is.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any

from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.layers import choose_layers, class_named
from int8tune.tuner.cli.program import run

HOPPER = "cuda-sm90"
CUBES = tuple(f"dense-u8s8-{size}x{size}-o{size}-float.c-u8" for size in (4096, 8192))
# With their goals, of the fastest library's speed.
LARGE = (
    ("bert_base", 16, "dense-large", 0.9),
    ("resnet50", 64, "pointwise-large", 1.0),
    ("resnet50", 64, "spatial-large", 1.0),
)
SMALL = (("resnet50", 1, ""), ("mobilenet_v2", 1, ""))
MOST_LAYERS = 3
LIMIT_S = 570.0
# What a comparison takes, as far as that is known without a GPU. The oracle computes a suite: about so many products
# of matrices by BLAS, and so many outputs rounded by a core; a layer is built, loaded by each process and timed.
ORACLE_PRODUCTS, CORE_MACS_PER_S = 12, 20e9
ORACLE_VALUES, VALUE_S = 25, 12e-9
LAYER_S, START_S = 9.0, 12.0
# Of a bundle: what its cases may take, so that it can be sent.
MOST_BUNDLED_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Figure:
    """One goal.

    Attributes:
        bench: arguments of `int8tune bench`, workloads first.
        measure: `ratio`, of the fastest peer's time to this library's; `peak_share`, of a loop that only multiplies.
        elsewhere: measure and goal on GPUs other than Hopper, where they differ.
    """

    text: str
    bench: tuple[str, ...]
    measure: str
    goal: float
    elsewhere: tuple[str, float] | None = None

    @property
    def layers(self) -> tuple[str, ...]:
        """Keys of its workloads, before the options."""
        return tuple(takewhile(lambda word: not word.startswith("--"), self.bench))

    def on(self, target: str) -> Figure:
        """The goal on a target: Hopper's `wgmma` is held against cuBLASLt, `mma.sync` against a loop of it."""
        if target == HOPPER or self.elsewhere is None:
            return self
        measure, goal = self.elsewhere
        return replace(self, measure=measure, goal=goal, elsewhere=None)


def figures(most_layers: int = MOST_LAYERS) -> list[Figure]:
    """All goals."""
    cubes = [Figure(f"dense {key.partition('-o')[2].partition('-')[0]}^3", (key,), "ratio", 0.9) for key in CUBES]
    large = [
        _figure(network, batch, only, most_layers, measure="ratio", goal=goal) for network, batch, only, goal in LARGE
    ]
    small = [_figure(*layers, most_layers, measure="ratio", goal=1.3) for layers in SMALL]
    words = replace(large[0], measure="peak_share", goal=0.85)
    by_words = replace(words, text=f"{words.text}, DP4A", bench=(*words.bench, "--template", "cuda.dp4a"))
    return [*(replace(figure, elsewhere=("peak_share", 0.9)) for figure in (*cubes, *large)), *small, by_words]


def _figure(network: str, batch: int, only: str, most_layers: int, *, measure: str, goal: float) -> Figure:
    text = ", ".join(filter(None, (network, f"batch {batch}", only)))
    layers = choose_layers([network], batch=batch) if not only else large_layers(network, batch, only)
    return Figure(text, tuple(layer.key for layer in spread(layers, most_layers)), measure, goal)


def large_layers(network: str, batch: int, only: str) -> tuple[Workload, ...]:
    """Those of a class of a GPU's comparison."""
    from int8tune.tuner.bench.gpu.layers import GpuLayerClass, gpu_class_of

    return choose_layers([network], class_named(only, GpuLayerClass), batch, gpu_class_of)


def spread(layers: Sequence[Workload], most: int) -> list[Workload]:
    """So many layers at most, from the one with the fewest multiply-adds to the one with most, in even steps."""
    ordered = sorted(layers, key=lambda layer: (layer.macs, layer.key))
    if len(ordered) <= most:
        return ordered
    last = len(ordered) - 1
    return [ordered[at * last // max(most - 1, 1)] for at in range(most)]


def predicted_s(figure: Figure, cores: int) -> float:
    """About how long a comparison takes."""
    return START_S + sum(_layer_s(layer, cores) for layer in choose_layers(figure.layers))


def _layer_s(layer: Workload, cores: int) -> float:
    oracle_s = ORACLE_PRODUCTS * layer.macs / CORE_MACS_PER_S + ORACLE_VALUES * prod(layer.output_shape) * VALUE_S
    return LAYER_S + oracle_s / max(cores - 1, 1)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a comparison said.

    Attributes:
        layers: that have the figure; `wrong`: on which this library had no exact kernel.
        mean: geometric; `lowest` of a layer.
    """

    layers: int
    wrong: int
    mean: float | None
    lowest: float | None

    def meets(self, figure: Figure) -> bool:
        return self.mean is not None and self.mean >= figure.goal and not self.wrong


def reached(figure: Figure, values: dict[str, Any]) -> Reached:
    """What a comparison reached, by its values as `--format json` prints them."""
    layers = values["layers"]
    known = [value for layer in layers if (value := _value(layer, figure.measure)) is not None]
    wrong = sum(layer["outcome"] != "ok" for layer in layers)
    return Reached(len(known), wrong, values["total"][figure.measure], min(known, default=None))


def _value(layer: dict[str, Any], measure: str) -> float | None:
    value = layer[measure]
    found: float | None = value["estimate"] if isinstance(value, dict) else value
    return found


def measured(figure: Figure, options: Sequence[str]) -> tuple[Figure, Reached]:
    """Run a comparison: the goal on the target that ran, and what was reached.

    Raises:
        RuntimeError: it failed; what it said is on standard error.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = run(["bench", *figure.bench, *options, "--format", "json"])
    if code != 0:
        raise RuntimeError(f"int8tune bench {' '.join(figure.bench)} ended with {code}")
    values = json.loads(printed.getvalue())
    own = figure.on(values["layers"][0]["target"])
    return own, reached(own, values)


def row(figure: Figure, found: Reached) -> str:
    """A figure's row of the table."""
    numbers = ("-" if value is None else f"{value:.2f}" for value in (found.mean, found.lowest, figure.goal))
    verdict = "reached" if found.meets(figure) else "missed"
    measure = figure.measure.replace("_", " ")
    return f"| {figure.text} | {found.layers} | {measure} | {' | '.join(numbers)} | {verdict} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Hold kernels for GPUs against their goals.")
    parser.add_argument("--device", required=True, help="a GPU of this machine, by its name in the inventory")
    parser.add_argument("--layers", type=int, default=MOST_LAYERS, help="of each figure at most")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="figures that would end later are left out")
    parser.add_argument("--json", type=Path, help="file that takes what was reached, too, whole after each figure")
    parser.add_argument("--bundle", type=Path, help="make a bundle of the layers in this folder instead")
    parser.add_argument("--merge", type=Path, help="results of that bundle, with --bundle FOLDER")
    parser.add_argument(
        "rest", nargs="*", help="of `int8tune bench`, behind `--`: --inventory FILE, --results DIR, ..."
    )
    options = parser.parse_args(arguments)
    if options.bundle:
        return from_bundle(options.device, options.bundle, options.merge, figures(options.layers))
    return compare(options.device, figures(options.layers), options.limit_s, options.rest, options.json)


def compare(device: str, chosen: Sequence[Figure], limit_s: float, rest: Sequence[str], file: Path | None) -> int:
    """Measure figures, one after the other; 1 if a goal is missed, 2 if nothing could be measured."""
    cores, begun = len(os.sched_getaffinity(0)), time.monotonic()
    expected = sum(predicted_s(figure, cores) for figure in chosen)
    tell(f"{len(chosen)} figures, about {expected:.0f} s on {cores} cores, no new one after {limit_s:.0f} s")
    print("| layers | number | measure | mean | lowest | goal | |\n|-|-|-|-|-|-|-|")
    missed, failed, said = 0, 0, []
    for figure in chosen:
        if time.monotonic() - begun + predicted_s(figure, cores) > limit_s:
            tell(f"left out, about {predicted_s(figure, cores):.0f} s: {figure.text}")
            continue
        tell(f"{figure.text}: about {predicted_s(figure, cores):.0f} s, most of it the oracle of large layers")
        try:
            own, found = measured(figure, ("--device", device, *rest))
        except RuntimeError as error:
            tell(str(error))
            failed += 1
            continue
        print(row(own, found), flush=True)
        missed += not found.meets(own)
        said.append({"layers": own.text, "measure": own.measure, "mean": found.mean, "lowest": found.lowest})
        if file:
            file.write_text(json.dumps(said, indent=1))
    return 2 if failed else min(missed, 1)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def from_bundle(device: str, folder: Path, results: Path | None, chosen: Sequence[Figure]) -> int:
    """Make a bundle of layers that are small enough, or merge its results and print how fast they were."""
    folder.mkdir(parents=True, exist_ok=True)
    all_layers = choose_layers([key for figure in chosen for key in figure.layers])
    small = [layer for layer in all_layers if _bytes(layer) <= MOST_BUNDLED_BYTES]
    records, table = ("--results", str(folder)), folder / "figures.json"
    if results is not None:
        return run(["bundle", "merge", str(results), *records])
    layers = [{"name": layer.key, "count": 1, "workload": layer.key} for layer in small]
    table.write_text(json.dumps({"format": 1, "name": "figures", "description": "figures", "layers": layers}))
    tell(f"{len(small)} of {len(all_layers)} layers are small enough to be sent")
    where = ("--device", device, "--target", HOPPER, "--trials", "1", "--strategy", "random")
    return run(["bundle", "make", str(table), *where, *records])


def _bytes(layer: Workload) -> int:
    """How many bytes the arrays of a case take."""
    return prod(layer.data_shape) + prod(layer.weight_shape) + prod(layer.output_shape)


if __name__ == "__main__":
    sys.exit(main())
