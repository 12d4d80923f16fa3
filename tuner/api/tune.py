"""Campaigns: a network's layers tuned on this machine, or on boards."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# Its page is what a campaign of hours ends with: not with an import.
import int8tune.results.report.html  # noqa: F401
from int8tune.results.record import CacheMode
from int8tune.results.report.text import render_table
from int8tune.results.stores import is_url
from int8tune.results.summary import CampaignSummary
from int8tune.rpc.transports.local import LocalTransport
from int8tune.tuner.api.defaults import DEFAULT_INVENTORY, DEFAULT_RESULTS
from int8tune.tuner.api.frames import frame_of, joined, listed
from int8tune.tuner.api.interrupts import Interrupts
from int8tune.tuner.api.networks import NetworkLike, as_network
from int8tune.tuner.campaign.announcing import announced
from int8tune.tuner.campaign.events import Listener, Progress, Silence
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.run import run_campaign, run_on
from int8tune.tuner.campaign.spec import DEFAULT_MIN_GAIN, DEFAULT_STRATEGY, DEFAULT_TRIALS, CampaignSpec
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.errors import SpecError
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.models.given import BindLike, ShapeLike
from int8tune.tuner.publish import publish

if TYPE_CHECKING:
    import pandas

Watch = Callable[[CampaignSpec], AbstractContextManager[Listener]]
"""Makes what watches a campaign, for as long as that runs."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A campaign and where it runs.

    Attributes:
        target: a profile; the best that the device can run if None.
        threads: cores that a kernel uses on this machine.
        devices: names of boards; this machine if empty.
        build_cluster: address of a Dask cluster that builds; this machine does if None.
        records: a URL, where the records are not in the folder.
    """

    spec: CampaignSpec
    results: Path
    target: str | None = None
    threads: int = 1
    devices: tuple[str, ...] = ()
    inventory: Path = DEFAULT_INVENTORY
    build_cluster: str | None = None
    records: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class CampaignResult:
    """What came of a run of a campaign, its report and its best log.

    Attributes:
        ending: why it ended.
        nothing_left: whether everything was recorded before.
        summary: what all its records say.
        report, best_log: files.
    """

    name: str
    ending: Ending
    nothing_left: bool
    summary: CampaignSummary
    report: Path
    best_log: Path

    def __str__(self) -> str:
        """The table that the command line shows."""
        return render_table(self.summary)

    def __repr__(self) -> str:
        totals = self.summary.totals
        gain = "" if totals.speedup is None else f"{totals.speedup:.2f} times faster"
        parts = (listed(totals.trials, "trial"), gain, f"report {self.report}")
        return f"<Campaign {self.name}, {self.ending.value}: {joined(parts)}>"


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult:
    """What came of tuning: a campaign for each target of the devices, of which there is one at least.

    Attributes:
        ending: of the last one: `Ending.INTERRUPTED` and `OUT_OF_TIME` go on when `tune` is called again.
    """

    campaigns: tuple[CampaignResult, ...]

    @property
    def ending(self) -> Ending:
        return self.campaigns[-1].ending

    @property
    def is_finished(self) -> bool:
        """Whether no call is needed to go on."""
        return all(campaign.ending is Ending.FINISHED for campaign in self.campaigns)

    @property
    def best_log(self) -> Path:
        """The best log of the first campaign."""
        return self.campaigns[0].best_log

    @property
    def report(self) -> Path:
        """A page, of the first campaign."""
        return self.campaigns[0].report

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each layer of each campaign: its default, its best, and how sure the speedup is."""
        from int8tune.results.report.layer_table import layer_rows

        return frame_of([row for campaign in self.campaigns for row in layer_rows(campaign.summary)])

    def __str__(self) -> str:
        return "\n".join(map(str, self.campaigns))

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.campaigns))


def tune(
    network: NetworkLike,
    *,
    batch: int = 1,
    bind: BindLike | None = None,
    shape: ShapeLike | None = None,
    until: Sequence[str] | None = None,
    results: str | Path = DEFAULT_RESULTS,
    files: str | Path | None = None,
    name: str | None = None,
    target: str | None = None,
    threads: int = 1,
    strategy: str = DEFAULT_STRATEGY,
    trials: int = DEFAULT_TRIALS,
    seed: int = 0,
    time_limit_s: float | None = None,
    build_cluster: str | None = None,
    cache: CacheMode | str | None = None,
    min_gain: float = DEFAULT_MIN_GAIN,
    devices: str | Sequence[str] = (),
    inventory: str | Path = DEFAULT_INVENTORY,
    listener: Listener | Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> TuneResult:
    """Tune the layers of a network on this machine, or on boards. Called again, it goes on where it was.

    Ctrl-C ends it after the measurement under way; the result then says `Ending.INTERRUPTED`. Before the first
    measurement, or when it is pressed again, it is a `KeyboardInterrupt`. What was measured is recorded in any case.

    Args:
        network: a name such as `mobilenet_v2`, a model, a layer table, or a network.
        batch: inputs at once, for each of the network.
        bind: values of a model's inputs that become constants, by name: numbers, arrays, or names of `.npy` files.
        shape: shapes of its inputs, by name, where the file leaves extents open; of several, the layers of all.
        until: values at which a model ends, in place of its own outputs.
        results: the folder of records, reports and best logs; or a URL of records, such as
            `postgresql://USER@HOST/DATABASE`.
        files: the folder of reports and best logs where `results` is a URL; `int8tune-results` if None.
        name: of the campaign; the network's if None.
        target: a profile such as `x86-avx512vnni`; the best that the device can run if None.
        threads: cores that a kernel uses on this machine.
        strategy: how candidates are chosen: `xgboost`, `evolution`, `descent`, `random` or `grid`.
        trials: per distinct layer.
        seed: of all random choices.
        time_limit_s: end after so long.
        build_cluster: address of a Dask cluster that builds.
        cache: where kernels find data and weights: `network`, weights where a network's other layers leave them;
            `warm` or `cold`; None: `network` on CPUs.
        min_gain: a layer ends early when its next trials should save less than this share of its time.
        devices: names of boards in the inventory; this machine if empty.
        inventory: the file with the boards.
        listener: is told how far it is, on this thread; a function gets each `Progress`.
        stop: asked between measurements whether to end.

    Raises:
        SpecError: a value is out of its range.
        UnknownNetworkError, ModelError, LayerTableError, BatchError: the network can't be read.
        CampaignDiffersError: a campaign of this name was started with other values.
        CampaignError, BuildPoolError, DeviceStartError: it can't start here, or can't go on.
        StoreError: the records can't be read or written.
    """
    if cache not in (None, *CacheMode):
        raise SpecError(f"unknown cache mode `{cache}`, known: {', '.join(CacheMode)}")
    layers = as_network(network, batch, bind, shape, until)
    mode = None if cache is None else CacheMode(cache)
    spec = CampaignSpec(
        layers.name if name is None else name, layers, strategy, seed, trials, time_limit_s, mode, min_gain
    )
    boards = tuple(devices.split(",")) if isinstance(devices, str) else tuple(devices)
    if boards and threads != 1:
        raise SpecError("threads is for this machine, boards have their own: `threads` in the inventory")
    folder, records = folder_and_records(results, files)
    where = Assignment(spec, folder, target, threads, boards, Path(inventory), build_cluster, records)
    watcher = listener_of(listener)
    with (
        Interrupts(stop) as asked,
        closing(run_assignment(where, lambda _: nullcontext(watcher), asked, asked.prepare)) as ran,
    ):
        return TuneResult(tuple(ran))


def folder_and_records(results: str | Path, files: str | Path | None) -> tuple[Path, str | None]:
    """The folder of a campaign's files, and the URL of its records, where they are elsewhere.

    Raises:
        SpecError: two folders.
    """
    if is_url(results):
        return Path(files or DEFAULT_RESULTS), str(results)
    if files is not None:
        raise SpecError(f"files is for records at a URL, the folder of these is: {results}")
    return Path(results), None


def run_assignment(
    where: Assignment, watch: Watch, stop_requested: Callable[[], bool], prepare: Callable[[], None]
) -> Generator[CampaignResult]:
    """Run or resume a campaign for each target of the devices, one after the other; none after one that was stopped.

    Args:
        prepare: called before each campaign on boards.
    """
    require_tuning()
    if not where.devices:
        yield _run_here(where, watch, stop_requested)
        return
    from int8tune.rpc.farm.status_file import status_folder
    from int8tune.rpc.inventory.file import read_inventory
    from int8tune.tuner.campaign.farm import sites_of, spec_on

    known = read_inventory(where.inventory)
    boards = [known.board(name) for name in dict.fromkeys(where.devices)]
    with sites_of(boards, where.target, status_folder(where.inventory)) as sites:
        for site in sites:
            prepare()
            own = spec_on(where.spec, site, sites)
            with watch(own) as listener, announced(own, where.records or where.results, listener) as announcer:
                run_result = run_on(
                    site, own, where.results, announcer, stop_requested, where.build_cluster, where.records
                )
                announcer.end(run_result.ending.value)
            yield campaign_result(where.results, own.name, run_result.ending, run_result.nothing_left, where.records)
            if run_result.ending is Ending.INTERRUPTED:
                return


def campaign_result(
    results: Path, campaign: str, ending: Ending, nothing_left: bool, records: str | None = None
) -> CampaignResult:
    """What a campaign found so far; writes its report and best log.

    Raises:
        StoreError: no such campaign, or the records can't be read.
        ExportError: a file can't be written.
    """
    published = publish(results, campaign, records)
    return CampaignResult(campaign, ending, nothing_left, published.summary, published.page, published.best_log)


def _run_here(where: Assignment, watch: Watch, stop_requested: Callable[[], bool]) -> CampaignResult:
    spec, results = where.spec, where.results
    with watch(spec) as listener, announced(spec, where.records or results, listener) as announcer:
        transport = LocalTransport(measuring_and_build_cores(where.threads)[0])
        run_result = run_campaign(
            spec,
            where.target,
            where.threads,
            transport,
            results,
            announcer,
            stop_requested,
            where.build_cluster,
            where.records,
        )
        announcer.end(run_result.ending.value)
    return campaign_result(results, spec.name, run_result.ending, run_result.nothing_left, where.records)


class _Told(Silence):
    """A function as a listener."""

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell = tell

    def progress(self, progress: Progress) -> None:
        self._tell(progress)


def listener_of(given: Listener | Callable[[Progress], None] | None) -> Listener:
    if given is None:
        return Silence()
    return _Told(given) if callable(given) and not hasattr(given, "progress") else given  # type: ignore[return-value]
