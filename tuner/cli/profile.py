"""`int8tune profile` and `int8tune profile show`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.calibration import (
    CountOption,
    DataOption,
    DivideOption,
    MeanOption,
    StdOption,
    TrustOption,
    numbers,
)
from int8tune.tuner.cli.options import DebugOption, Format, FormatOption
from int8tune.tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.quantize.ranges import Ranges, TensorRange

SHOW = "show"
BARS = 32
WIDTH = 50

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A float model (.onnx, .tflite, .pt2); or `show`, to print.")
]
RangesArgument = Annotated[
    Path | None,
    typer.Argument(metavar="RANGES", help="With `show`: the file that this command wrote.", show_default=False),
]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="The file to write, JSON.")]
TensorOption = Annotated[
    str | None, typer.Option("--tensor", metavar="NAME", help="With `show`: this tensor alone, with its histogram.")
]


def profile(
    model: ModelArgument,
    ranges: RangesArgument = None,
    data: DataOption = None,
    output: OutputOption = None,
    count: CountOption = None,
    divide: DivideOption = 1.0,
    mean: MeanOption = "",
    std: StdOption = "",
    trust: TrustOption = False,
    tensor: TensorOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Run samples through a float model: ranges of its tensors.

    An .npz has an array for each input, called like it; for one input, `calibration` and other usual names will do.

    int8tune profile show OUT.ranges.json prints the ranges.

    Example: int8tune profile model.onnx --data samples.npz -o model.ranges.json
    """
    from int8tune.tuner.api.profiling import load_ranges
    from int8tune.tuner.api.profiling import profile as profiled
    from int8tune.tuner.cli.waiting import waiting

    if str(model) == SHOW:
        if ranges is None:
            raise typer.BadParameter(f"{SHOW} needs a file that was written before: int8tune profile {SHOW} FILE")
        _show(load_ranges(ranges).ranges, tensor, form)
        return
    if ranges is not None or tensor is not None:
        raise typer.BadParameter(f"to print ranges: int8tune profile {SHOW} FILE [--tensor NAME]")
    if data is None or output is None:
        raise typer.BadParameter("samples and a file for the result are needed: --data FILE -o OUT.ranges.json")
    with waiting("profile") as report:
        found = profiled(
            model,
            data,
            output,
            count=count,
            divide=divide,
            mean=numbers(mean),
            std=numbers(std),
            trust=trust,
            report=report,
        ).ranges
    constant = [each for each in found.tensors.values() if each.is_constant]
    say(f"{model}: {len(found.tensors):,} tensors, {found.samples:,} samples of {found.data}; wrote {output}")
    for line in (*found.faults(), *(f"tensor `{each.name}` is constant: {each.minimum:g}" for each in constant)):
        say(line)


def _show(ranges: Ranges, name: str | None, form: Format) -> None:
    if name is not None and name not in ranges.tensors:
        raise typer.BadParameter(f"no tensor `{name}`, known: {', '.join(list(ranges.tensors)[:20])}")
    chosen = [ranges.tensors[name]] if name is not None else list(ranges.tensors.values())
    if form is Format.JSON:
        about = {"model": ranges.model, "model_sha256": ranges.model_sha256, "data_sha256": ranges.data_sha256}
        emit_json(about | {"samples": ranges.samples, "tensors": [asdict(each) for each in chosen]})
        return
    head = ("min", "max", "mean", "deviation", "zeros", "not finite", "shape", "made by", "tensor")
    emit(aligned([head, *map(_cells, chosen)], numbers=range(6)))
    if name is not None:
        emit("\n" + "\n".join(_histogram(chosen[0])))
    say(f"{ranges.model}: {len(ranges.tensors):,} tensors, {ranges.samples:,} samples of {ranges.data}")


def _cells(each: TensorRange) -> tuple[str, ...]:
    from int8tune.quantize.ranges import text_of

    numbers = map(text_of, (each.minimum, each.maximum, each.mean, each.deviation))
    share = f"{each.zeros / max(1, each.values):.1%}"
    return (*numbers, share, f"{each.nan + each.infinite:,}", "x".join(map(str, each.shape)), each.producer, each.name)


def _histogram(each: TensorRange) -> list[str]:
    """Bars of equal parts of the range; a value that is there has a mark at least."""
    from int8tune.quantize.ranges import text_of

    counts = each.counts.reshape(BARS, -1).sum(axis=1)
    starts = each.edges[:-1].reshape(BARS, -1)[:, 0]
    most = max(1, counts.max())
    rows = [
        (text_of(start), f"{count:,}", "#" * max(int(count > 0), round(WIDTH * count / most)))
        for start, count in zip(starts, counts, strict=True)
    ]
    return aligned([("from", "values", ""), *rows], numbers=(0, 1)).split("\n")
