"""`int8tune results list`, `show`, `merge`, `rename`, `archive` and `prune`"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.options import (
    DEFAULT_RESULTS,
    DebugOption,
    Format,
    FormatOption,
    ResultsOption,
    age_s,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json, say, size, stdout_columns

if TYPE_CHECKING:
    from int8tune.results.record import CampaignRun
    from int8tune.results.upkeep.listing import CampaignRow

_MINUTES = len("2026-01-01T00:00")
_COMMIT_SHOWN = 12

StoresArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[DIR]...", help=f"Folders or files of records; {DEFAULT_RESULTS} if left out."),
]
JoinedArgument = Annotated[list[str], typer.Argument(metavar="DIR...", help="Folders or files of records.")]
NameArgument = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Name of a campaign.")]
NamesArgument = Annotated[list[str], typer.Argument(metavar="CAMPAIGN...", help="Names of campaigns.")]
SomeNamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[CAMPAIGN]...", help="Names of campaigns.", show_default=False)
]
OldArgument = Annotated[str, typer.Argument(metavar="OLD", help="Name of a campaign.")]
NewArgument = Annotated[str, typer.Argument(metavar="NEW", help="The name that it gets.")]
StoreOutOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT", help="The new folder, or a file whose name ends in .db.")
]
FileOutOption = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The new results file.")]
MoveOption = Annotated[bool, typer.Option("--move", help="Remove them from the records, too.")]
AgeOption = Annotated[
    float | None,
    typer.Option("--older-than", metavar="AGE", parser=age_s, help="Those with nothing new since 90d, 12h or so."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what would be removed.")]


def list_campaigns(
    stores: StoresArgument = None, form: FormatOption = Format.TABLE, _debug: DebugOption = False
) -> None:
    """Show the campaigns of one results folder or several.

    Example: int8tune results list
    """
    from int8tune.tuner.api.campaigns import campaigns

    found = campaigns(stores or [DEFAULT_RESULTS])
    if form is Format.JSON:
        emit_json([asdict(row) for row in found])
        return
    _show_rows(found)


def show(
    campaign: NameArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Show one campaign: how it was started and by whom, its layers and failures.

    Example: int8tune results show resnet50
    """
    from int8tune.results.report.text import as_dict, render_table
    from int8tune.tuner.api.campaigns import show_campaign

    found = show_campaign(campaign, results)
    if form is Format.JSON:
        emit_json(
            as_dict(found.summary)
            | {"started_as": asdict(found.summary.campaign), "program_runs": [asdict(run) for run in found.runs]}
        )
        return
    about = found.summary.campaign
    spec = f"{about.strategy}, seed {about.seed}, {about.trials_per_task} trials a layer, cache {found.summary.cache}"
    emit(render_table(found.summary, stdout_columns()))
    emit("\n".join(["", f"started   {about.created_at}", f"search    {spec}", *_run_lines(found.runs)]))
    if found.summary.failures:
        rows = [
            (group.outcome.value, str(group.count), group.error_class, group.example.error)
            for group in found.summary.failures
        ]
        emit("\n" + aligned([("failures", "", "class", "such as"), *rows], numbers=[1]))


def merge_(
    stores: JoinedArgument, out: StoreOutOption, form: FormatOption = Format.TABLE, _debug: DebugOption = False
) -> None:
    """Join results folders into a new one, each entry once.

    The folders stay as they are. Campaigns of one name that differ are kept apart: the first folder's has the name, the
    next is NAME.2. Rows that can't be read are set aside, with their place.

    Example: int8tune results merge monday/ tuesday/ -o week/
    """
    from int8tune.tuner.api.campaigns import merge_records

    found = merge_records(list(stores), out)
    if form is Format.JSON:
        apart = [{"store": str(one.store), "campaign": one.campaign, "renamed": one.renamed} for one in found.apart]
        aside = None if found.damaged_file is None else str(found.damaged_file)
        emit_json(
            {
                "out": str(found.out),
                "campaigns": found.campaigns,
                "trials": found.trials,
                "repeated": found.repeated,
                "apart": apart,
                "damaged": len(found.damaged),
                "damaged_file": aside,
            }
        )
        return
    for one in found.apart:
        say(f"note: `{one.campaign}` of {one.store} is `{one.renamed}`, another campaign has its name")
    if found.damaged_file is not None:
        say(f"note: {_count(len(found.damaged), 'row')} can't be read, set aside in {found.damaged_file}")
    emit(f"{_count(found.campaigns, 'campaign')}, {_count(found.trials, 'trial')}: {found.out}")


def rename(
    old: OldArgument, new: NewArgument, results: ResultsOption = DEFAULT_RESULTS, _debug: DebugOption = False
) -> None:
    """Give a campaign another name in the records.

    Its report and its best log keep their names.

    Example: int8tune results rename resnet50 resnet50-before
    """
    from int8tune.tuner.api.campaigns import rename_campaign

    rename_campaign(old, new, results)
    say(f"`{old}` is `{new}` now; a report with this name: int8tune report {new}.html --campaign {new}")


def archive(
    campaigns: NamesArgument,
    out: FileOutOption,
    results: ResultsOption = DEFAULT_RESULTS,
    move: MoveOption = False,
    _debug: DebugOption = False,
) -> None:
    """Copy campaigns into a results file of their own, or move them there.

    `int8tune results merge` joins it with others again.

    Example: int8tune results archive resnet50 -o resnet50.db --move
    """
    from int8tune.tuner.api.campaigns import archive_campaigns

    found = archive_campaigns(campaigns, out, results, move=move)
    done = "moved" if found.removed else "copied"
    emit(f"{_count(len(found.campaigns), 'campaign')}, {_count(found.trials, 'trial')} {done}: {found.file}")


def prune(
    campaigns: SomeNamesArgument = None,
    older_than: AgeOption = None,
    yes: YesOption = False,
    results: ResultsOption = DEFAULT_RESULTS,
    _debug: DebugOption = False,
) -> None:
    """Remove campaigns from the records; without --yes, say which.

    What is removed lies in a file beside the records, which may be deleted, or merged back.

    Example: int8tune results prune --older-than 90d
    """
    from int8tune.tuner.api.campaigns import prune_campaigns

    if not campaigns and older_than is None:
        raise typer.BadParameter("say which: names of campaigns, or --older-than 90d")
    found, removed = prune_campaigns(campaigns or [], results, older_than_s=older_than, yes=yes)
    if not len(found):
        say("no campaign is that old")
        return
    _show_rows(found)
    if removed is None:
        say("nothing was removed; to remove these: add --yes")
    else:
        say(f"removed; what they were, to be merged back or deleted: {removed.file}")


def _show_rows(found: Iterable[CampaignRow]) -> None:
    rows = list(found)
    if not rows:
        say("no campaign is recorded")
        return
    several = len({row.store for row in rows}) > 1
    heads = ["campaign", "network", "target", "device", "trials", "failed", "speedup", "faster", "started", "host"]
    cells = [_cells(row) for row in rows]
    if several:
        heads, cells = ["store", *heads], [[row.store, *one] for row, one in zip(rows, cells, strict=True)]
    first = 4 + several
    emit(aligned([heads, *cells], numbers=range(first, first + 4)))
    for store, store_bytes in dict.fromkeys((row.store, row.store_bytes) for row in rows):
        if store_bytes is not None:
            say(f"{size(store_bytes)}: {store}")


def _cells(row: CampaignRow) -> list[str]:
    speedup = "-" if row.speedup is None else f"{row.speedup:.2f}"
    faster = f"{row.faster_layers} of {row.layers}"
    started = row.started_at[:_MINUTES].replace("T", " ")
    numbers = [f"{row.trials:,}", f"{row.failed:,}", speedup, faster]
    return [row.campaign, row.network, row.target, row.device, *numbers, started, row.host or "-"]


def _run_lines(runs: Iterable[CampaignRun]) -> list[str]:
    lines = []
    for run in runs:
        commit = (
            f", commit {run.commit[:_COMMIT_SHOWN]}{'-dirty' * run.commit.endswith('-dirty')}" if run.commit else ""
        )
        until = f"to {run.ended_at}, {run.ending}" if run.ended_at else "end not known"
        lines += [
            f"run       {run.started_at} {until}",
            f"          {run.user} on {run.host}, {run.cpu}, int8tune {run.version}{commit}",
            f"          {run.command}",
        ]
    return lines


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
