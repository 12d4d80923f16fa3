"""`int8tune results compare`"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.options import BenchmarkJsonOption, CampaignOption, DebugOption
from int8tune.tuner.cli.output import emit, emit_json, say, stdout_columns
from int8tune.tuner.cli.report import AcrossOption
from int8tune.tuner.cli.stopping import INTERRUPTED, StopRequest

if TYPE_CHECKING:
    from int8tune.tuner.bench.again import Retimed

REGRESSION = 3


class ComparisonFormat(StrEnum):
    """How a comparison is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


def _format(text: str) -> ComparisonFormat:
    """`table`, `json` or `markdown`."""
    if text not in tuple(ComparisonFormat):
        raise typer.BadParameter(f"unknown format `{text[:60]}`, known: {', '.join(ComparisonFormat)}")
    return ComparisonFormat(text)


_SIDE = "A results folder or file[::CAMPAIGN], a best log, or JSON of bench or pytest-benchmark."
OldArgument = Annotated[str, typer.Argument(metavar="A", help=_SIDE)]
NewArgument = Annotated[str, typer.Argument(metavar="B", help="The newer results, in the same way.")]
FailIfOption = Annotated[
    list[str] | None,
    typer.Option("--fail-if", metavar="WHAT", help="Exit code 3 if there is one: slower:3%, network:3% or missing."),
]
AgainOption = Annotated[bool, typer.Option("--again", help="Time the schedules of both in turn now, on this machine.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="OUT", help="A file for it: .html, .md, .csv, .json, .parquet."),
]
ComparisonFormatOption = Annotated[
    ComparisonFormat,
    typer.Option("--format", metavar="FORMAT", parser=_format, help="As a table, json or markdown."),
]


def compare(
    a: OldArgument,
    b: NewArgument,
    campaign: CampaignOption = None,
    fail_if: FailIfOption = None,
    again: AgainOption = False,
    across_devices: AcrossOption = False,
    out: OutOption = None,
    benchmark_json: BenchmarkJsonOption = None,
    form: ComparisonFormatOption = ComparisonFormat.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Say what became faster or slower from A to B, beyond noise.

    Ratios are A's times over B's. What the machine was slower on one of the two days is taken off, as far as kernels
    that both timed can tell.

    Example: int8tune results compare last-week int8tune-results --fail-if slower:3%
    """
    from int8tune.results.atomic import require_folder
    from int8tune.results.report.comparison import comparison_as_dict, render_comparison
    from int8tune.tuner.api.comparing import compare as compared

    if benchmark_json is not None:
        require_folder(benchmark_json)
    with StopRequest() as stop:
        found = compared(
            a,
            b,
            campaign=campaign,
            fail_if=fail_if or (),
            again=again,
            across_devices=across_devices,
            out=out,
            listener=_told,
            stop=stop if again else None,
        )
    if benchmark_json is not None:
        found.write_benchmarks(benchmark_json)
    if form is ComparisonFormat.JSON:
        emit_json(comparison_as_dict(found.comparison))
    elif form is ComparisonFormat.MARKDOWN:
        emit(found.markdown())
    else:
        emit(render_comparison(found.comparison, stdout_columns()))
    for line in found.regressions:
        say(f"regression: {line}")
    if found.interrupted:
        return INTERRUPTED
    return REGRESSION if found.regressions else 0


def _told(key: str, found: Retimed) -> None:
    from int8tune.results.label import layer_label

    say(f"{layer_label(key)}  {found.error or 'timed'}")
