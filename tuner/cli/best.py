"""`int8tune results best`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.results.record import CacheMode
from int8tune.tuner.cli.options import (
    DEFAULT_RESULTS,
    CampaignOption,
    DebugOption,
    Format,
    FormatOption,
    ResultsOption,
    cache_mode_named,
)
from int8tune.tuner.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.results.best import BestSchedule

LogOption = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Read and check a best log, in place of the records."),
]
CacheOption = Annotated[
    CacheMode | None,
    typer.Option(
        "--cache",
        metavar="MODE",
        parser=cache_mode_named,
        help="Records timed with `network`, warm or cold caches; if left out, the campaign's, or all but cold ones.",
    ),
]


def best(
    results: ResultsOption = DEFAULT_RESULTS,
    campaign: CampaignOption = None,
    log: LogOption = None,
    cache: CacheOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Show the best schedule of each layer.

    That is the default, unless another one is faster beyond doubt.

    Example: int8tune results best --log int8tune-results/resnet50.best.jsonl
    """
    from int8tune.tuner.api.schedules import best as best_of

    if log is not None and (campaign, cache) != (None, None):
        other = "--cache" if campaign is None else "--campaign"
        raise typer.BadParameter(f"--log reads a file, {other} is about the records: give one of them")
    schedules = best_of(results, campaign=campaign, log=log, cache=cache)
    if form is Format.JSON:
        emit_json([_as_dict(schedule) for schedule in schedules])
        return
    if not schedules:
        say("no schedule was verified yet")
        return
    emit("\n".join(_lines(schedule) for schedule in schedules))


def _lines(best: BestSchedule) -> str:
    """Two lines: which layer and how fast, then the schedule."""
    from int8tune.results.label import layer_label
    from int8tune.results.report.format import interval, kilocycles, microseconds

    gain = "default" if best.is_default else interval(best.speedup)
    measured = f"{microseconds(best.median_s)} us"
    cost = f"{kilocycles(best.estimated_cycles)} kcyc est." if best.median_s is None else measured
    head = f"{layer_label(best.workload):<30} {cost:>14}  {gain:<17}"
    config = " ".join(f"{name}={value}" for name, value in best.candidate.config.items())
    return f"{head}  {best.target}\n    {best.candidate.template} {config}"


def _as_dict(best: BestSchedule) -> dict[str, Any]:
    values = asdict(best)
    return values | {"candidate": {"id": best.candidate.id, **values["candidate"]}, "is_default": best.is_default}
