"""One layer of a race: a campaign, a search by MetaSchedule, and the best of both timed in turn in one session.

No layer learns from another one, on either side.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from int8tune.compiler.network import Layer, Network
from int8tune.results.record import CacheMode, Campaign, DeviceCheck, Duel, Entrant, Outcome, Trial
from int8tune.results.search import Effort, RaceLayer
from int8tune.results.store import SqliteStore
from int8tune.rpc.board.agent_route import route_to_json
from int8tune.rpc.errors import DeviceStartError
from int8tune.rpc.request import Cold, Program, Reply, Request, Timing
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import Target
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.operands import layer_operands
from int8tune.tuner.bench.own import OWN_NAME, Choice, NotPreparedError, choose
from int8tune.tuner.bench.site import Site
from int8tune.tuner.campaign.events import Progress, Silence
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.loop_context import Purpose
from int8tune.tuner.campaign.measuring import CALLS_BEFORE_TIMING, SESSION_LIMIT_S, SLOWEST_OPS_PER_S, Device, Occasion
from int8tune.tuner.campaign.run import CampaignRunResult, MeasuringSite, run_campaign, run_on
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.cores import bound_to
from int8tune.tuner.errors import BenchError, DeviceGoneError
from int8tune.tuner.folders import STORE_FILE, make_folder
from int8tune.tuner.metaschedule.form import peer_workload
from int8tune.tuner.metaschedule.job import DATABASE, SearchJob
from int8tune.tuner.metaschedule.process import SearchFailedError, run_search
from int8tune.tuner.metaschedule.spec import PEER_NAME, RaceSpec

# Rounds take a little longer than the calls in them, and each kernel looks for its number of calls first.
TURN_OVERHEAD = 4
NOT_RUN = Effort()
# Until a board's agent has left that a search had.
BACK_LIMIT_S, BACK_EVERY_S = 10.0, 0.5


@dataclass(frozen=True, slots=True)
class Track:
    """What all layers of a race are run with.

    Attributes:
        name: under which results are recorded.
        results: the folder that keeps the databases of MetaSchedule, too.
        peer_target: of MetaSchedule; this library's is the site's.
    """

    name: str
    spec: RaceSpec
    results: Path
    site: Site
    peer_target: Target
    stop_requested: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one side brings: a verified program, or an entrant that says why there is none.

    Attributes:
        workload: the key of what it computes.
    """

    name: str
    version: str
    workload: str
    effort: Effort = NOT_RUN
    program: Program | None = None
    outcome: Outcome = Outcome.OK
    error: str = ""

    def entrant(self, times_s: tuple[float, ...]) -> Entrant:
        return Entrant(self.name, self.version, self.workload, self.outcome, times_s, error=self.error)


def run_layer(track: Track, index: int, workload: Workload, folder: Path) -> RaceLayer | None:
    """Race on a layer, and record it; None once a stop is requested. The folder must be empty, and new in the race.

    Raises:
        CampaignError: the campaign can't start here, or can't go on.
        BenchError: the oracle's outputs could not be computed, or the session that times both failed.
    """
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    tuned = _tune(track, f"{track.name}-{index}", workload, make_folder(folder / "campaign"))
    if tuned is None:
        return None
    choice, effort = tuned
    with bound_to(track.site.building):
        suite, ours = _prepare_own(track, choice, effort, workload, folder)
    theirs = _search(track, index, workload, suite, folder)
    if theirs is None:
        return None
    with bound_to(track.site.building):
        entrants, peaks = _time(track, workload, (ours, theirs))
    result = track.site.record(track.name, choice, entrants, peaks, started_at)
    return RaceLayer(result, ours.effort, theirs.effort)


class _Clock(Silence):
    """Knows how long a campaign has been running."""

    elapsed_s = 0.0

    def progress(self, progress: Progress) -> None:
        self.elapsed_s = progress.elapsed_s


def _tune(track: Track, name: str, workload: Workload, folder: Path) -> tuple[Choice, Effort] | None:
    """What a campaign of its own finds, with records that are copied when it is done; None if it was stopped."""
    network = Network(name, "a layer of a race", None, (Layer((workload.key,), 1, workload),))
    # MetaSchedule's times are those of warm caches.
    spec = CampaignSpec(name, network, seed=track.spec.seed, trials_per_task=track.spec.trials, cache=CacheMode.WARM)
    site, clock = track.site, _Clock()
    _know_device(site, folder)
    run_result = _campaign(track, spec, folder, clock)
    if run_result.ending is not Ending.FINISHED:
        return None
    with SqliteStore(folder / STORE_FILE, readonly=True) as own:
        choice = choose(own, workload, site.target, site.name)
        trials = list(own.query(Trial))
        site.store.append([*own.query(Campaign), *trials, *own.query(Duel)])
        if not any(site.store.query(DeviceCheck, device=site.name, target=site.target.name)):
            site.store.append(list(own.query(DeviceCheck)))
    failed = sum(trial.outcome is not Outcome.OK for trial in trials)
    return choice, Effort(len(trials), failed, clock.elapsed_s)


def _campaign(track: Track, spec: CampaignSpec, folder: Path, clock: _Clock) -> CampaignRunResult:
    site, board = track.site, track.spec.board
    if board is None:
        transport = LocalTransport(site.measuring)
        return run_campaign(spec, track.spec.profile, 1, transport, folder, clock, track.stop_requested)

    def device(probe: Program, cold: Cold | None, _: Occasion) -> Device[Purpose]:
        return Device(site.transport, probe, cold=cold)

    cores, memory_bytes = (site.building, site.measuring[-1]), board.limits.memory_bytes
    place = MeasuringSite(site.name, site.transport, site.device, site.target, device, *cores, memory_bytes)
    with bound_to(site.building):
        return run_on(place, spec, folder, clock, track.stop_requested)


def _know_device(site: Site, folder: Path) -> None:
    """Put what is known of the device into a new campaign's records, so that it is not checked again."""
    if checks := list(site.store.query(DeviceCheck, device=site.name, target=site.target.name)):
        with SqliteStore(folder / STORE_FILE) as own:
            own.append(checks[-1:])


def _prepare_own(
    track: Track, choice: Choice, effort: Effort, workload: Workload, folder: Path
) -> tuple[Path, Finding]:
    """The suite that both must pass, and this library's program."""
    finding = Finding(OWN_NAME, version(OWN_NAME), workload.key, effort)
    preparation, suite = track.site.preparation, _write_suite(track, workload, folder)
    try:
        program = preparation.verified(workload, preparation.build(workload, choice.candidate, suite, folder))
    except NotPreparedError as error:
        return suite, replace(finding, outcome=error.outcome, error=str(error))
    return suite, replace(finding, program=program)


def _write_suite(track: Track, workload: Workload, folder: Path) -> Path:
    try:
        return track.site.preparation.write_suite(workload, layer_operands(workload), folder)
    except NotPreparedError as error:
        raise BenchError(f"the reference outputs of {workload.key} could not be computed: {error}") from error


def _search(track: Track, index: int, workload: Workload, suite: Path, folder: Path) -> Finding | None:
    """What MetaSchedule finds, once it is verified; None once a stop is requested."""
    finding = Finding(PEER_NAME, version("apache-tvm"), workload.key)
    form = peer_workload(workload, track.peer_target)
    if isinstance(form, Rejection):
        return replace(finding, outcome=Outcome.REJECTED, error=form.reason)
    spec, own, finding = track.spec, make_folder(folder / PEER_NAME), replace(finding, workload=form.key)
    if form != workload:
        with bound_to(track.site.building):
            suite = _write_suite(track, form, make_folder(folder / "form"))
    try:
        with _left_alone(track.site):
            found = run_search(_job(track, form, own, suite), spec.search_limit_s, track.stop_requested, spec.worker)
    except SearchFailedError as error:
        return replace(finding, outcome=Outcome.RUN_FAILED, error=f"its search failed: {error}")
    if found is None:
        return None
    _keep_database(own / DATABASE, track.results / track.name / f"{index}")
    finding = replace(finding, effort=Effort(found.trials, found.failed, found.search_s))
    if found.program is None:
        return replace(finding, outcome=Outcome.BUILD_FAILED, error=f"all of its {found.trials} trials failed")
    try:
        return replace(finding, program=track.site.preparation.verified(form, found.program))
    except NotPreparedError as error:
        return replace(finding, outcome=error.outcome, error=str(error))


@contextmanager
def _left_alone(site: Site) -> Iterator[None]:
    """Leave a board to another agent meanwhile: it takes one at a time.

    Raises:
        DeviceStartError: the board can't be used any more.
    """
    if not isinstance(site.transport, AgentTransport):
        yield
        return
    site.transport.close()
    try:
        yield
    finally:
        start_again(site.transport.start)


def start_again(start: Callable[[], object]) -> None:
    """Start a board that another agent is about to leave: that of a search that was killed ends a moment later.

    Raises:
        DeviceStartError: it does not start within `BACK_LIMIT_S`.
    """
    deadline = time.monotonic() + BACK_LIMIT_S
    while True:
        try:
            start()
        except DeviceStartError:
            if time.monotonic() > deadline:
                raise
            time.sleep(BACK_EVERY_S)
        else:
            return


def _job(track: Track, form: Workload, folder: Path, suite: Path) -> SearchJob:
    site, spec = track.site, track.spec
    cores = (*site.building, *site.measuring)
    job = SearchJob(form.key, track.peer_target, spec.trials, spec.seed, str(folder), str(suite), cores, spec.intrinsic)
    if not isinstance(site.transport, AgentTransport):
        return job
    return replace(job, route=route_to_json(site.transport.route), probe=site.probes.peak_program)


def _keep_database(database: Path, folder: Path) -> None:
    """Copy what `int8tune lab --data` reads."""
    make_folder(folder)
    for file in database.glob("*.json"):
        shutil.copy(file, folder)


def _time(
    track: Track, workload: Workload, findings: tuple[Finding, Finding]
) -> tuple[tuple[Entrant, ...], tuple[float, ...]]:
    """How those that have a program did in turn with the loop of the peak, and operations per second of that."""
    able = [finding for finding in findings if finding.program]
    probes = track.site.probes
    programs = (probes.peak_program, *(finding.program for finding in able if finding.program))
    reply = _run(track, Request(programs, track.spec.timing, _session_limit_s(track.spec.timing, workload, programs)))
    taken = dict(zip((finding.name for finding in able), reply.times_s[1:], strict=True))
    entrants = tuple(finding.entrant(taken.get(finding.name, ())) for finding in findings)
    return entrants, tuple(probes.peak.work / time_s for time_s in reply.times_s[0])


def _session_limit_s(timing: Timing, workload: Workload, programs: tuple[Program, ...]) -> float:
    turns_s = TURN_OVERHEAD * (timing.repeats + 1) * timing.min_repeat_s
    calls_s = (timing.repeats + CALLS_BEFORE_TIMING) * 2 * workload.macs / SLOWEST_OPS_PER_S
    return SESSION_LIMIT_S + len(programs) * (turns_s + calls_s)


def _run(track: Track, request: Request) -> Reply:
    reply = track.site.transport.run(request)
    if reply.outcome is Outcome.DEVICE_LOST:
        raise DeviceGoneError(f"the device was lost: {reply.error}")
    if reply.outcome is not Outcome.OK:
        raise BenchError(f"the session that times both ended with {reply.outcome.value}: {reply.error}")
    return reply
