"""The campaigns of a file, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.compiler.errors import CompilerError
from int8tune.results.errors import ResultsError
from int8tune.results.report.tables import Row
from int8tune.rpc.errors import RpcError
from int8tune.schedules.errors import ScheduleError
from int8tune.tuner.api.campaign_file import FileEntry, read_campaign_file
from int8tune.tuner.api.frames import frame_of, joined, listed
from int8tune.tuner.api.interrupts import Interrupts
from int8tune.tuner.api.networks import as_network
from int8tune.tuner.api.tune import Assignment, CampaignResult, Watch, listener_of, run_assignment
from int8tune.tuner.campaign.events import Listener, Progress
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.errors import TunerError
from int8tune.tuner.installed import require_tuning

if TYPE_CHECKING:
    import pandas

FAILURES = (TunerError, CompilerError, ScheduleError, RpcError, ResultsError, OSError)
"""What one campaign can fail of, while others go on."""

FAILED, NOT_REACHED = "failed", "not reached"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one campaign of a file.

    Attributes:
        campaigns: one; on boards of several kinds, one for each; none where it failed before.
        error: what it failed of, if it did.
    """

    entry: FileEntry
    campaigns: tuple[CampaignResult, ...]
    error: Exception | None = None

    @property
    def is_interrupted(self) -> bool:
        return any(campaign.ending is Ending.INTERRUPTED for campaign in self.campaigns)

    def rows(self) -> list[Row]:
        """A row for each campaign, and one for the failure; times in seconds, of the network."""
        rows = [_row(self.entry, each) for each in self.campaigns]
        if self.error is not None:
            rows.append(empty_row(self.entry, FAILED, " ".join(str(self.error).split())))
        return rows


@dataclass(frozen=True, slots=True, repr=False)
class TuneAllResult:
    """What came of the campaigns of a file: of those that were reached before somebody ended them.

    Attributes:
        entries: all campaigns of the file.
    """

    entries: tuple[FileEntry, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def campaigns(self) -> tuple[CampaignResult, ...]:
        return tuple(campaign for outcome in self.outcomes for campaign in outcome.campaigns)

    @property
    def errors(self) -> tuple[Exception, ...]:
        """The errors of the campaigns that failed."""
        return tuple(outcome.error for outcome in self.outcomes if outcome.error is not None)

    @property
    def is_finished(self) -> bool:
        """Whether no call is needed to go on."""
        is_whole = len(self.outcomes) == len(self.entries) and not self.errors
        return is_whole and all(campaign.ending is Ending.FINISHED for campaign in self.campaigns)

    def rows(self) -> list[Row]:
        """A row for each campaign of the file."""
        left = self.entries[len(self.outcomes) :]
        reached = [row for outcome in self.outcomes for row in outcome.rows()]
        return reached + [empty_row(entry, NOT_REACHED) for entry in left]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each campaign: the network's default and best time, and how it ended."""
        return frame_of(self.rows())

    def __repr__(self) -> str:
        failed = f"{len(self.errors)} failed" if self.errors else ""
        finished = sum(campaign.ending is Ending.FINISHED for campaign in self.campaigns)
        parts = (listed(len(self.entries), "campaign"), f"{finished} finished", failed)
        return f"<Campaigns of a file: {joined(parts)}>"


def tune_all(
    file: str | Path,
    *,
    listener: Listener | Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> TuneAllResult:
    """Tune the networks of a file such as `CAMPAIGN.toml`, each on its targets. Called again, it goes on where it was.

    A campaign that fails is among the result's `errors`, the others go on. Ctrl-C ends all, as it ends `tune`.

    Args:
        file: see `int8tune help campaign-files`.
        listener: is told how far each campaign is, on this thread; a function gets each `Progress`.
        stop: asked between measurements whether to end.

    Raises:
        CampaignFileError: the file can't be used; the message has a line for each fault.
        NoTvmError: what tunes is not installed.
    """
    entries = read_campaign_file(Path(file))
    require_tuning()
    watcher = listener_of(listener)
    outcomes: list[Outcome] = []
    with Interrupts(stop) as asked:
        for entry in entries:
            asked.prepare()
            outcomes.append(run_entry(entry, lambda _: nullcontext(watcher), asked, asked.prepare))
            if outcomes[-1].is_interrupted:
                break
    return TuneAllResult(entries, tuple(outcomes))


def run_entry(
    entry: FileEntry,
    watch: Watch,
    stop_requested: Callable[[], bool],
    prepare: Callable[[], None],
    build_cluster: str | None = None,
) -> Outcome:
    """Run or resume one campaign of a file; what it fails of is in the outcome.

    Args:
        prepare: called before each campaign on boards.
        build_cluster: address of a Dask cluster that builds.
    """
    campaigns: list[CampaignResult] = []
    try:
        with closing(run_assignment(_assignment(entry, build_cluster), watch, stop_requested, prepare)) as ran:
            for campaign in ran:
                campaigns.append(campaign)
    except FAILURES as error:
        return Outcome(entry, tuple(campaigns), error)
    return Outcome(entry, tuple(campaigns))


def _assignment(entry: FileEntry, build_cluster: str | None) -> Assignment:
    said = entry.settings
    spec = CampaignSpec(
        entry.name,
        as_network(entry.network, said.batch, entry.bind, entry.shape, entry.until),
        said.strategy,
        said.seed,
        said.trials,
        said.time_limit_s,
        said.cache,
        said.min_gain,
    )
    return Assignment(spec, said.results, entry.target, said.threads, said.devices, said.inventory, build_cluster)


def _row(entry: FileEntry, result: CampaignResult) -> Row:
    totals = result.summary.totals
    is_timed = totals.compared_layers > 0 and not result.summary.estimated_by
    return {
        "network": entry.label,
        "target": result.summary.campaign.target,
        "name": result.name,
        "ending": result.ending.value,
        "default_s": totals.default_s if is_timed else None,
        "best_s": totals.best_s if is_timed else None,
        "speedup": totals.speedup,
        "trials": totals.trials,
        "report": str(result.report),
        "best_log": str(result.best_log),
        "error": None,
    }


def empty_row(entry: FileEntry, ending: str, error: str | None = None) -> Row:
    """The row of a campaign without results."""
    about = {"network": entry.label, "target": entry.target, "name": entry.name, "ending": ending}
    found = dict.fromkeys(("default_s", "best_s", "speedup", "trials", "report", "best_log"))
    return about | found | {"error": error}
