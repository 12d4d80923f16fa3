"""`int8tune results best`"""

from __future__ import annotations

from collections.abc import Sequence
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
from int8tune.tuner.cli.output import aligned, emit, emit_json, say, uncut_columns

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
    emit(_table(schedules, uncut_columns()))


def _table(schedules: Sequence[BestSchedule], columns: int) -> str:
    """A row for each layer; a config has what is left of the line."""
    from int8tune.results.label import layer_label

    several = len({best.target for best in schedules}) > 1
    rows: list[tuple[str, ...]] = [("layer", "time", "speedup", *(["target"] if several else []), "template")]
    for best in schedules:
        target = [best.target] if several else []
        rows.append((layer_label(best.workload), _time(best), _gain(best), *target, best.candidate.template))
    configs = [
        "config",
        *(" ".join(f"{name}={value}" for name, value in b.candidate.config.items()) for b in schedules),
    ]
    lines = aligned(rows, numbers=(1,)).splitlines()
    width = max(map(len, lines)) + 2
    return "\n".join(_cut(line.ljust(width) + config, columns) for line, config in zip(lines, configs, strict=True))


def _time(best: BestSchedule) -> str:
    from int8tune.results.report.format import kilocycles, microseconds

    if best.median_s is None:
        return f"{kilocycles(best.estimated_cycles)} kcyc est."
    return f"{microseconds(best.median_s)} us"


def _gain(best: BestSchedule) -> str:
    from int8tune.results.report.format import interval

    return "default" if best.is_default else interval(best.speedup)


def _cut(line: str, columns: int) -> str:
    return line if len(line) <= columns else line[: max(0, columns - 3)] + "..."


def _as_dict(best: BestSchedule) -> dict[str, Any]:
    values = asdict(best)
    return values | {"candidate": {"id": best.candidate.id, **values["candidate"]}, "is_default": best.is_default}
