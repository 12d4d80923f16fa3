"""`int8tune accuracy`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.compile import LogOption, ModelArgument
from int8tune.tuner.cli.options import (
    DEFAULT_RESULTS,
    BindOption,
    DebugOption,
    Format,
    FormatOption,
    ResultsOption,
    ShapeOption,
    TargetOption,
    ThreadsOption,
    whole_number,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.tuner.models.accuracy import Difference

SamplesOption = Annotated[
    Path | None,
    typer.Option(
        "--samples",
        metavar="FILE",
        help="Inputs, .npy or .npz; the first axis counts samples.",
    ),
]
CountOption = Annotated[
    int | None,
    typer.Option(
        "--count",
        metavar="N",
        parser=whole_number,
        help="Samples to draw; 10 to 1,000 if left out.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", parser=whole_number, help="Seed of drawn samples.")]
LayersOption = Annotated[
    bool,
    typer.Option(
        "--layers",
        help="Compare each operator on the same inputs, with this library's own reference: integer ones must be equal.",
    ),
]


def accuracy(
    model: ModelArgument,
    samples: SamplesOption = None,
    count: CountOption = None,
    seed: SeedOption = 0,
    layers: LayersOption = False,
    results: ResultsOption = DEFAULT_RESULTS,
    log: LogOption = None,
    target: TargetOption = None,
    threads: ThreadsOption = 1,
    bind: BindOption = None,
    shape: ShapeOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Compare a compiled model with its own runtime.

    That is LiteRT with its reference kernels, or ONNX Runtime with integer kernels for s8 data, too: by default it
    computes some of these layers in float on x86 (`session.qdqisint8allowed`). Differences are in quantization steps
    of each output. Operators in float may differ by rounding; SQNR says how much of the signal that is, and "its own"
    how much ONNX Runtime differs from itself without its optimizations.

    Without --samples, inputs are drawn, in turn: noise, spread evenly over what an input stands for; smooth, as
    pictures are; constant, at first the lowest, then the highest value; extremes, which are lowest and highest values
    at random; speckled, which is smooth with some of these; saturated, which is smooth and beyond both ends. Your own
    samples find more.

    Example: int8tune accuracy mobilenet_v2.tflite --count 100
    """
    from int8tune.compiler.obstacles import exactness
    from int8tune.tuner.api.accuracy import MOST_SAMPLES
    from int8tune.tuner.api.accuracy import accuracy as compared
    from int8tune.tuner.models.given import bindings, shapes_of

    if count is not None and not 1 <= count <= MOST_SAMPLES:
        raise typer.BadParameter(f"--count must be 1 to {MOST_SAMPLES}: {count}")
    found = compared(
        model,
        samples=samples,
        count=count,
        seed=seed,
        layers=layers,
        results=results,
        log=log,
        target=target,
        threads=threads,
        bind=bindings(bind),
        shape=shapes_of(shape),
    )
    if form is Format.JSON:
        drawn = {"seed": seed, "samples": found.drawn} if found.drawn else None
        outputs = [asdict(each) for each in found.outputs]
        parts = {"exact": found.exact, "floats": dict(found.floats), "int8_share": found.int8_share}
        emit_json({"model": str(model), "against": found.against, "drawn": drawn, **parts, "outputs": outputs})
        return
    rows = [
        ("differ", "of", "largest", "mean", "SQNR, dB", "its own", "same first", "output"),
        *map(_cells, found.outputs),
    ]
    emit(aligned(rows, numbers=range(7)))
    if found.drawn:
        kinds = ", ".join(f"{number:,} {name}" for name, number in found.drawn.items())
        say(f"{found.outputs[0].samples:,} samples drawn with seed {seed}: {kinds}")
    differ = f"{found.differing} of {len(found.outputs)} outputs differ from {found.against}"
    say(differ if found.differing else f"all equal to {found.against}")
    if found.floats:
        say(f"{exactness(found.exact, found.floats, found.int8_share)}; outputs may differ by rounding")


def _cells(each: Difference) -> tuple[str, ...]:
    unit = "" if each.steps else " (values)"
    return (
        f"{each.differing:,}",
        f"{each.values:,}",
        f"{each.largest:g}{unit}",
        f"{each.mean:.2g}",
        *("-" if decibels is None else f"{decibels:.1f}" for decibels in (each.sqnr_db, each.itself_db)),
        f"{each.same_first} of {each.samples}",
        each.layers[0] if each.layers else each.name,
    )
