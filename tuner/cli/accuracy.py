"""`int8tune accuracy`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.compile import LogOption, ModelArgument
from tuner.cli.options import (
    DEFAULT_RESULTS,
    DebugOption,
    Format,
    FormatOption,
    ResultsOption,
    TargetOption,
    ThreadsOption,
    whole_number,
)
from tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from tuner.models.accuracy import Difference

SamplesOption = Annotated[
    Path | None,
    typer.Option("--samples", metavar="FILE", help="Inputs, .npy or .npz, whose first axis counts samples."),
]
CountOption = Annotated[
    int, typer.Option("--count", metavar="N", parser=whole_number, help="Random samples, where no file has any.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", parser=whole_number, help="Of random samples.")]
LayersOption = Annotated[
    bool, typer.Option("--layers", help="Compare every layer's output with this library's own reference.")
]
MOST_SAMPLES = 10_000


def accuracy(
    model: ModelArgument,
    samples: SamplesOption = None,
    count: CountOption = 10,
    seed: SeedOption = 0,
    layers: LayersOption = False,
    results: ResultsOption = DEFAULT_RESULTS,
    log: LogOption = None,
    target: TargetOption = None,
    threads: ThreadsOption = 1,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Compare a compiled model with its own runtime.

    That is LiteRT with its reference kernels, or ONNX Runtime. Differences are in quantization steps of each output.

    Example: int8tune accuracy mobilenet_v2.tflite --count 100
    """
    from tuner.models.checks import Check, compare_layers, compare_outputs

    if not 1 <= count <= MOST_SAMPLES:
        raise typer.BadParameter(f"--count must be 1 to {MOST_SAMPLES}: {count}")
    check = Check(model, results, log, target, threads, samples, count, seed)
    against, found = compare_layers(check) if layers else compare_outputs(check)
    if form is Format.JSON:
        emit_json({"model": str(model), "against": against, "outputs": [asdict(each) for each in found]})
        return
    emit(aligned([("differ", "of", "largest", "mean", "same first", "output"), *map(_cells, found)], numbers=range(5)))
    differing = sum(each.differing > 0 for each in found)
    say(f"{differing} of {len(found)} outputs differ from {against}" if differing else f"all equal to {against}")


def _cells(each: Difference) -> tuple[str, ...]:
    unit = "" if each.steps else " (values)"
    return (
        f"{each.differing:,}",
        f"{each.values:,}",
        f"{each.largest:g}{unit}",
        f"{each.mean:.2g}",
        f"{each.same_first} of {each.samples}",
        each.layers[0] if each.layers else each.name,
    )
