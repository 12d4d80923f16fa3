"""`int8tune tune CAMPAIGN.toml` and `int8tune plan CAMPAIGN.toml`"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from int8tune.tuner.cli.ending import say_files
from int8tune.tuner.cli.failures import FAILED, explain
from int8tune.tuner.cli.options import Format, Invocation
from int8tune.tuner.cli.output import aligned, emit, emit_json, say
from int8tune.tuner.cli.stopping import INTERRUPTED, Interruption, StopRequest
from int8tune.tuner.cli.telling import Telling

if TYPE_CHECKING:
    from int8tune.tuner.api.campaign_file import FileEntry
    from int8tune.tuner.api.plan import Plan
    from int8tune.tuner.api.tune_all import Outcome
    from int8tune.tuner.campaign.events import Listener
    from int8tune.tuner.campaign.spec import CampaignSpec

FORMAT = 1
# What a file that others wrote must not say, and what is no part of a campaign.
_BESIDE_A_FILE = ("network", "notify", "build_cluster", "form", "debug")


def read_entries(context: typer.Context, path: str) -> tuple[FileEntry, ...]:
    """The campaigns of a file; options that belong into it are refused."""
    from int8tune.tuner.api.campaign_file import read_campaign_file

    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE" and option.name not in _BESIDE_A_FILE:
            raise typer.BadParameter(f"{option.opts[0]} stands in the file, say it there: {path}")
    return read_campaign_file(Path(path))


def tune_file(context: typer.Context, path: str, form: Format, command: str, told: Telling, cluster: str | None) -> int:
    """Run or resume the campaigns of a file, one after the other."""
    from int8tune.tuner.installed import require_tuning

    entries = read_entries(context, path)
    require_tuning()
    invocation = context.find_root().obj
    assert isinstance(invocation, Invocation)
    run = _Run(entries, told, cluster, invocation.debug)
    with StopRequest() as stop:
        try:
            with told:
                run.all(stop)
        except Interruption:
            run.is_interrupted = True
        _show(run, form)
        if run.is_interrupted:
            say(f"interrupted; to go on: {command}")
            return INTERRUPTED
        if run.is_out_of_time:
            say(f"the time is up; to go on: {command}")
    return FAILED if any(outcome.error for outcome in run.outcomes) else 0


class _Run:
    """The campaigns of a file, and what came of those that were reached."""

    def __init__(self, entries: Sequence[FileEntry], told: Telling, cluster: str | None, debug: bool) -> None:
        self.entries = tuple(entries)
        self.outcomes: list[Outcome] = []
        self.is_interrupted = False
        self._told = told
        self._cluster = cluster
        self._debug = debug

    @property
    def is_out_of_time(self) -> bool:
        from int8tune.tuner.campaign.loop import Ending

        return any(each.ending is Ending.OUT_OF_TIME for outcome in self.outcomes for each in outcome.campaigns)

    def all(self, stop: StopRequest) -> None:
        from int8tune.tuner.api.tune_all import run_entry
        from int8tune.tuner.cli.live import make_display

        def watch(spec: CampaignSpec) -> AbstractContextManager[Listener]:
            return make_display(stop.is_requested, spec.time_limit_s)

        for number, entry in enumerate(self.entries, 1):
            stop.prepare()
            say(f"{number} of {len(self.entries)}: {entry.name}")
            outcome = run_entry(entry, watch, stop, stop.prepare, self._cluster)
            self.outcomes.append(outcome)
            self._say(outcome)
            if outcome.is_interrupted:
                self.is_interrupted = True
                return

    def _say(self, outcome: Outcome) -> None:
        for result in outcome.campaigns:
            say_files(result)
            self._told.add(result)
        if outcome.error is not None:
            explain(outcome.error, debug=self._debug)
            self._told.add_error(outcome.entry.name, outcome.error)


def _show(run: _Run, form: Format) -> None:
    """One row for each campaign of the file."""
    from int8tune.tuner.api.tune_all import TuneAllResult

    rows = TuneAllResult(run.entries, tuple(run.outcomes)).rows()
    if form is Format.JSON:
        emit_json({"format": FORMAT, "campaigns": rows})
        return
    head = ("network", "target", "default ms", "best ms", "speedup", "trials", "ending")
    emit(aligned([head, *map(_cells, rows)], numbers=(2, 3, 4, 5)))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    times = ("-" if row[name] is None else f"{row[name] * 1e3:,.4g}" for name in ("default_s", "best_s"))
    speedup = "-" if row["speedup"] is None else f"{row['speedup']:.2f}x"
    trials = "-" if row["trials"] is None else f"{row['trials']:,}"
    return row["network"], row["target"] or "-", *times, speedup, trials, row["ending"]


def plan_file(context: typer.Context, path: str, form: Format) -> int:
    """Say what the campaigns of a file would do; boards are not asked."""
    entries = read_entries(context, path)
    invocation = context.find_root().obj
    assert isinstance(invocation, Invocation)
    plans = [_planned(entry, invocation.debug) for entry in entries]
    rows = [_plan_row(entry, found, has_failed) for entry, (found, has_failed) in zip(entries, plans, strict=True)]
    if form is Format.JSON:
        emit_json({"format": FORMAT, "campaigns": rows})
    else:
        names = ("network", "target", "layers", "trials", "about s", "where")
        emit(aligned([names, *map(_plan_cells, rows)], numbers=(2, 3, 4)))
    return FAILED if any(has_failed for _, has_failed in plans) else 0


def _planned(entry: FileEntry, debug: bool) -> tuple[Plan | None, bool]:
    """What one campaign would do on this machine, and whether that could not be found out."""
    from int8tune.tuner.api.plan import plan
    from int8tune.tuner.api.tune_all import FAILURES

    said = entry.settings
    if said.devices:
        return None, False
    about = {
        "bind": entry.bind,
        "shape": entry.shape,
        "until": entry.until,
        "target": entry.target,
        "trials": said.trials,
    }
    try:
        return plan(entry.network, batch=said.batch, threads=said.threads, **about), False  # type: ignore[arg-type]
    except FAILURES as error:
        explain(error, debug=debug)
        return None, True


def _plan_row(entry: FileEntry, found: Plan | None, has_failed: bool) -> dict[str, Any]:
    return {
        "network": entry.label,
        "target": found.target if found else entry.target,
        "name": entry.name,
        "layers": len(found.layers) if found else None,
        "trials": found.trials if found else None,
        "predicted_s": found.predicted_s if found else None,
        "devices": list(entry.settings.devices),
        "failed": has_failed,
    }


def _plan_cells(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = (
        "-" if row[name] is None else f"{math.ceil(row[name]):,}" for name in ("layers", "trials", "predicted_s")
    )
    where = "failed" if row["failed"] else ", ".join(row["devices"]) or "this machine"
    return row["network"], row["target"] or "-", *numbers, where
