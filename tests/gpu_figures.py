"""Whether kernels reach what they are to reach on a GPU of this machine: `python -m tests.gpu_figures --device h100`.

Each figure is a comparison (`int8tune bench --device`), of records' best configs where there are any, else of defaults.
The table has the geometric mean of each one's layers, the lowest, and the goal; the exit code is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.cli.program import run

HOPPER = "cuda-sm90"
LARGE = (("bert_base", 16, "dense-large"), ("resnet50", 64, "pointwise-large"), ("resnet50", 64, "spatial-large"))
SMALL = (("resnet50", 1, ""), ("mobilenet_v2", 1, ""))


@dataclass(frozen=True, slots=True)
class Figure:
    """One goal.

    Attributes:
        bench: arguments of `int8tune bench`.
        measure: `ratio`, of the fastest peer's time to this library's; `peak_share`, of a loop that only multiplies.
        elsewhere: measure and goal on GPUs other than Hopper, where they differ.
    """

    text: str
    bench: tuple[str, ...]
    measure: str
    goal: float
    elsewhere: tuple[str, float] | None = None

    def on(self, target: str) -> Figure:
        """The goal on a target: Hopper's `wgmma` is held against cuBLASLt, `mma.sync` against a loop of it."""
        if target == HOPPER or self.elsewhere is None:
            return self
        measure, goal = self.elsewhere
        return replace(self, measure=measure, goal=goal, elsewhere=None)


def figures() -> list[Figure]:
    """All goals."""
    large = [replace(_figure(*layers, measure="ratio", goal=0.8), elsewhere=("peak_share", 0.9)) for layers in LARGE]
    small = [_figure(*layers, measure="ratio", goal=1.3) for layers in SMALL]
    words = _figure(*LARGE[0], measure="peak_share", goal=0.85)
    by_words = replace(words, text=f"{words.text}, DP4A", bench=(*words.bench, "--template", "cuda.dp4a"))
    return [*large, *small, by_words]


def _figure(network: str, batch: int, only: str, *, measure: str, goal: float) -> Figure:
    text = ", ".join(filter(None, (network, f"batch {batch}", only)))
    chosen = ("--only", only) if only else ()
    return Figure(text, (network, "--batch", str(batch), *chosen), measure, goal)


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
    """Of the values of a comparison, as `--format json` prints them."""
    layers = values["layers"]
    known = [value for layer in layers if (value := _value(layer, figure.measure)) is not None]
    wrong = sum(layer["outcome"] != "ok" for layer in layers)
    return Reached(len(known), wrong, values["total"][figure.measure], min(known, default=None))


def _value(layer: dict[str, Any], measure: str) -> float | None:
    value = layer[measure]
    return value["estimate"] if isinstance(value, dict) else value


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
    """Of the table."""
    numbers = ("-" if value is None else f"{value:.2f}" for value in (found.mean, found.lowest, figure.goal))
    verdict = "reached" if found.meets(figure) else "missed"
    measure = figure.measure.replace("_", " ")
    return f"| {figure.text} | {found.layers} | {measure} | {' | '.join(numbers)} | {verdict} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Hold kernels for GPUs against their goals.")
    parser.add_argument("--device", required=True, help="a GPU of this machine, by its name in the inventory")
    parser.add_argument(
        "rest", nargs="*", help="of `int8tune bench`, behind `--`: --inventory FILE, --results DIR, ..."
    )
    options = parser.parse_args(arguments)
    print("| layers | number | measure | mean | lowest | goal | |\n|-|-|-|-|-|-|-|")
    missed = 0
    for figure in figures():
        try:
            own, found = measured(figure, ("--device", options.device, *options.rest))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 2
        print(row(own, found), flush=True)
        missed += not found.meets(own)
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
