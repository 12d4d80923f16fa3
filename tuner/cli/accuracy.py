"""`int8tune accuracy`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli.calibration import DivideOption, MeanOption, StdOption, numbers
from int8tune.tuner.cli.compare import REGRESSION
from int8tune.tuner.cli.compile import LogOption, ModelArgument
from int8tune.tuner.cli.labels import LabelsOption
from int8tune.tuner.cli.options import (
    DEFAULT_RESULTS,
    BindOption,
    DebugOption,
    Format,
    FormatOption,
    RecordsFolderOption,
    ShapeOption,
    TargetOption,
    ThreadsOption,
    UntilOption,
    whole_number,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.tuner.api.accuracy import Accuracy
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
        help="Samples to draw, or to take of --test.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", parser=whole_number, help="Seed of drawn samples.")]
TestOption = Annotated[
    str | None, typer.Option("--test", metavar="FILE", help="Samples of any kind that `profile` takes.")
]
LayersOption = Annotated[
    bool,
    typer.Option(
        "--layers",
        help="Compare operators with this library's own reference.",
    ),
]


def accuracy(
    model: ModelArgument,
    samples: SamplesOption = None,
    test: TestOption = None,
    labels: LabelsOption = None,
    count: CountOption = None,
    seed: SeedOption = 0,
    layers: LayersOption = False,
    divide: DivideOption = 1.0,
    mean: MeanOption = "",
    std: StdOption = "",
    results: RecordsFolderOption = DEFAULT_RESULTS,
    log: LogOption = None,
    target: TargetOption = None,
    threads: ThreadsOption = 1,
    bind: BindOption = None,
    shape: ShapeOption = None,
    until: UntilOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Compare a compiled model with its own runtime.

    That is LiteRT with its reference kernels, or ONNX Runtime with integer kernels for s8 data, too. Differences are in
    quantization steps. Operators in float may differ by rounding: SQNR says how much, "its own" how much the
    runtime's optimizations change. Without any, a difference is exit code 3.

    Inputs of six kinds are drawn (int8tune help models); your own --samples find more. --labels count right answers.

    Example: int8tune accuracy m.tflite --test test.npz --labels test.npz
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
        test=test,
        labels=labels,
        count=count,
        seed=seed,
        layers=layers,
        divide=divide,
        mean=numbers(mean),
        std=numbers(std),
        results=results,
        log=log,
        target=target,
        threads=threads,
        bind=bindings(bind),
        shape=shapes_of(shape),
        until=until,
    )
    if form is Format.JSON:
        drawn = {"seed": seed, "samples": found.drawn} if found.drawn else None
        outputs = [each.as_dict() for each in found.outputs]
        parts = {"exact": found.exact, "floats": dict(found.floats), "int8_share": found.int8_share}
        parts |= {"theirs_in_float": dict(found.theirs_in_float)}
        answers = _answers_as_json(found)
        emit_json(
            {"model": str(model), "against": found.against, "drawn": drawn, **parts, **answers, "outputs": outputs}
        )
        return exit_code(found)
    rows = [
        ("differ", "of", "largest", "mean", "SQNR, dB", "its own", "same first", "output"),
        *map(_cells, found.outputs),
    ]
    emit(aligned(rows, numbers=range(7)))
    if found.ours.top1 is not None:
        _show_answers(found)
    if found.drawn:
        kinds = ", ".join(f"{number:,} {name}" for name, number in found.drawn.items())
        say(f"{found.outputs[0].samples:,} samples drawn with seed {seed}: {kinds}")
    differ = f"{found.differing} of {len(found.outputs)} outputs differ from {found.against}"
    say(differ if found.differing else f"all equal to {found.against}")
    if found.theirs_in_float:
        kinds = ", ".join(f"{count} {kind}" for kind, count in found.theirs_in_float.items())
        say(f"onnxruntime computes in float, and rounds, sums that are integers here: {kinds}")
    if found.floats:
        say(f"{exactness(found.exact, found.floats, found.int8_share)}; outputs may differ by rounding")
    elif found.broken and not layers:
        say("nothing is rounded here, so they should be equal; --layers shows the operators that are not")
    return exit_code(found)


def exit_code(found: Accuracy) -> int:
    """Not 0 where values differ that should be equal."""
    return REGRESSION if found.broken else 0


def _show_answers(found: Accuracy) -> None:
    from int8tune.results.report.schemes import p_value, share

    sides = (("int8tune", found.ours), (found.against, found.theirs))
    rows = [(share(each.top1), share(each.top5), name) for name, each in sides]
    emit(aligned([("top-1", "top-5", "answers of"), *rows], numbers=(0, 1)))
    say(f"p of McNemar's exact test of both top-1: {p_value(found.paired)}")


def _answers_as_json(found: Accuracy) -> dict[str, Any]:
    if found.paired is None:
        return {}
    answers = {"ours": asdict(found.ours), "theirs": asdict(found.theirs), "paired": asdict(found.paired)}
    return {"answers": answers | {"p_value": found.paired.p_value}}


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
