"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from int8tune.results.record import CacheMode
from int8tune.results.redaction import without_password
from int8tune.results.stores import is_url
from int8tune.schedules.target import PROFILES
from int8tune.tuner.api.defaults import DEFAULT_INVENTORY as DEFAULT_INVENTORY
from int8tune.tuner.api.defaults import DEFAULT_RESULTS as DEFAULT_RESULTS
from int8tune.tuner.cli import completing
from int8tune.tuner.durations import seconds_of
from int8tune.tuner.errors import BuildClusterError

_SHARE = re.compile(r"-?\d{1,9}(\.\d{1,9})?")
_WHOLE = re.compile(r"-?\d{1,20}")
_SHOWN = 60


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"


@dataclass(slots=True)
class Invocation:
    """One start of the program.

    Attributes:
        arguments: what was typed after the program's name.
        debug: whether failures show their traceback.
    """

    arguments: list[str]
    debug: bool = False


def whole_number(value: str | int) -> int:
    """A whole number that a person typed, or a default."""
    if not _WHOLE.fullmatch(str(value)):
        raise typer.BadParameter(f"not a whole number: {str(value)[:_SHOWN]}")
    return int(value)


def port_number(value: str | int) -> int:
    """A TCP port that a person typed; 0 for any."""
    if not 0 <= (number := whole_number(value)) < 1 << 16:
        raise typer.BadParameter(f"a port is 0 to 65535: {number}")
    return number


def share(value: str | float) -> float:
    """A part of 1 that a person typed, such as `0.01`, or a default."""
    if not _SHARE.fullmatch(str(value)):
        raise typer.BadParameter(f"not a share of 1, such as 0.01: {str(value)[:_SHOWN]}")
    return float(value)


def duration_s(text: str) -> float:
    """Seconds of a number with a unit, such as `90s`, `5m` or `1.5h`."""
    if (found := seconds_of(text)) is not None:
        return found
    problem = "needs a unit" if re.fullmatch(r"\d+(\.\d+)?", text) else "is a number with a unit"
    raise typer.BadParameter(f"a duration {problem}, such as 90s, 5m or 1.5h: {text[:_SHOWN]}")


def age_s(text: str | float) -> float:
    """An age such as 90d or 12h, in seconds."""
    if isinstance(text, float):
        return text
    days = text.removesuffix("d")
    try:
        found = float(days) * 86400 if days != text else duration_s(text)
    except (ValueError, typer.BadParameter):
        found = -1.0
    if not 0 < found < float("inf"):
        raise typer.BadParameter(f"an age is a number with a unit, such as 90d or 12h: {text}")
    return found


def cluster_address(text: str) -> str:
    """The address of a cluster that builds."""
    from int8tune.tuner.builder.cluster import checked_address

    try:
        return checked_address(text)
    except BuildClusterError as error:
        raise typer.BadParameter(str(error)) from error


def cache_mode_named(text: str) -> CacheMode:
    """`warm`, `cold` or `network`."""
    if text not in tuple(CacheMode):
        raise typer.BadParameter(f"unknown cache mode `{text[:_SHOWN]}`, known: {', '.join(CacheMode)}")
    return CacheMode(text)


def output_format(text: str) -> Format:
    """`table` or `json`."""
    if text not in tuple(Format):
        raise typer.BadParameter(f"unknown format `{text[:_SHOWN]}`, known: {', '.join(Format)}")
    return Format(text)


def folder_or_url(text: str | Path) -> str | Path:
    """Where records are."""
    return str(text) if is_url(text) else Path(text)


def folder(text: str | Path) -> Path:
    """A folder of records, for commands that keep more than records there."""
    if is_url(text):
        shown = without_password(str(text))[:_SHOWN]
        raise typer.BadParameter(f"this command keeps its records in a folder, not at a URL: {shown}")
    return Path(text)


def _remember_debug(context: typer.Context, debug: bool) -> None:
    invocation = context.find_root().obj
    assert isinstance(invocation, Invocation)
    invocation.debug = invocation.debug or debug


NetworkArgument = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK",
        help="A network's name, a model (.tflite, .onnx), a layer table (.json), or a layer's key.",
        autocompletion=completing.networks,
    ),
]
BatchOption = Annotated[
    int,
    typer.Option("--batch", metavar="N", parser=whole_number, help="Inputs at once, of layer tables."),
]
# A folder, or the text of a URL; Typer knows no types that are one or the other.
ResultsOption = Annotated[
    Any,
    typer.Option("--results", metavar="DIR|URL", parser=folder_or_url, help="Where records are."),
]
RecordsFolderOption = Annotated[
    Path, typer.Option("--results", metavar="DIR", parser=folder, help="Folder of the records.")
]
CampaignOption = Annotated[
    str | None, typer.Option("--campaign", metavar="NAME", help="A campaign in the records, where there are several.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="PROFILE",
        autocompletion=completing.targets,
        help=f"Target profile: {', '.join(profile.name for profile in PROFILES)}; the best of this CPU if left out.",
    ),
]
InventoryOption = Annotated[
    Path, typer.Option("--inventory", metavar="FILE", help="Boards: int8tune help farm.", show_default=True)
]
BindOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bind",
        metavar="NAME=VALUE",
        help="Constant for an ONNX input: a number or .npy file.",
    ),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=EXTENTS",
        help="Shapes of an open ONNX input: 1x3x96x96,1x3x99x99.",
    ),
]
UntilOption = Annotated[
    list[str] | None,
    typer.Option(
        "--until",
        metavar="NAME",
        help="Value at which a model ends; repeatable.",
    ),
]
BenchmarkJsonOption = Annotated[
    Path | None,
    typer.Option("--benchmark-json", metavar="FILE", help="Write the times for `pytest-benchmark compare`, too."),
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", metavar="N", parser=whole_number, help="Cores that a kernel uses.")
]
FormatOption = Annotated[
    Format,
    typer.Option("--format", metavar="FORMAT", parser=output_format, help="Data as a table or json."),
]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", callback=_remember_debug, expose_value=False, help="Show tracebacks of failures."),
]
