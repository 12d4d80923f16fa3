"""Options that commands on float models share: their samples, and how these are normalized."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from int8tune.tuner.cli.options import whole_number

_SHOWN = 60


def number(value: str | float) -> float:
    """A number that a person typed, or a default."""
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise typer.BadParameter(f"not a number: {str(value)[:_SHOWN]}")
    return found


def numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas between them, such as `0.485,0.456,0.406`; none of an empty text."""
    return tuple(map(number, text.split(","))) if text else ()


FloatModelArgument = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A float model: .onnx, .tflite, .pt2 (--trust)."),
]
FloatOnnxArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A float model (.onnx).")]
# Hidden, so that helps fit a screen: the argument's help names it.
TrustOption = Annotated[bool, typer.Option("--trust", hidden=True, help="Load a .pt2, which may run code in it.")]
DataOption = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="Samples: .npz, .npy, pictures, MODULE:FUNCTION."),
]
CountOption = Annotated[
    int | None,
    typer.Option("--count", metavar="N", parser=whole_number, help="Take the first N samples; all if left out."),
]
DivideOption = Annotated[
    float,
    typer.Option("--divide", metavar="X", parser=number, help="Divide samples, such as by 255.", show_default=False),
]
MeanOption = Annotated[
    str, typer.Option("--mean", metavar="X,...", help="Then take this from each channel.", show_default=False)
]
StdOption = Annotated[
    str, typer.Option("--std", metavar="X,...", help="Then divide each channel by this.", show_default=False)
]
