"""A campaign that is stopped after its trials and before its duels: started again, it makes them, and nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.memory import MemoryStore
from int8tune.results.record import Campaign, Duel, Entry, Outcome, Trial
from int8tune.rpc.request import Program, Reply, Request
from int8tune.rpc.transports.fake import FakeTransport
from int8tune.schedules.target import Target
from int8tune.tuner.campaign.loop import CampaignLoop, Ending
from int8tune.tuner.campaign.plan import Task, make_plan
from int8tune.tuner.campaign.search import make_search
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign.task import CONTENDERS
from tests.support.program.campaigns import SMALL, SMALL_DEPTHWISE, campaign_loop, network_of, trials_of

KEYS = (SMALL, SMALL_DEPTHWISE)
TRIALS = 5


class PlayedCampaign:
    """A campaign whose programs are built, and whose times are made of their binaries.

    Attributes:
        requests: what the device was asked, in all runs.
        layers_done: how many layers progress called done, beside how many had their duels then.
        left: files that the last run left, without its log.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        self.network = network_of(*KEYS)
        self.store, self.requests = MemoryStore(), list[Request]()
        self.spec = CampaignSpec("c", self.network, "grid", trials_per_task=TRIALS)
        self.target, self._folder, self._runs = target, folder, 0
        self.layers_done: set[tuple[int, int]] = set()

    def run(
        self, stop: Callable[[], bool] = lambda: False, fault: Callable[[Request], Reply | None] = lambda _: None
    ) -> Ending:
        transport = FakeTransport(lambda request: fault(request) or self._answer(request))
        self._runs += 1
        folder = self._folder / str(self._runs)
        folder.mkdir()
        tasks = self.plan()
        with campaign_loop(self.spec, tasks, self.store, folder, transport=transport, stop_requested=stop) as loop:
            self.last: CampaignLoop = loop
            ending = loop.run()
            self.requests += transport.requests
        self.left = sorted({path.name for path in folder.rglob("*") if path.is_file()} - {"build-server.log"})
        return ending

    def watch(self) -> bool:
        """A stop request that never comes."""
        self.layers_done.add((self.last.progress().tasks_done, len({duel.workload for duel in self.duels})))
        return False

    def plan(self) -> list[Task]:
        return list(make_plan(self.network, self.target))

    @staticmethod
    def _answer(request: Request) -> Reply:
        times = tuple((time_s(program),) * request.timing.repeats for program in request.programs)
        return Reply(Outcome.OK, times, (1,) * len(times))

    @property
    def trials(self) -> list[Trial]:
        return trials_of(self.store, self.spec)

    @property
    def duels(self) -> list[Duel]:
        return list(self.store.query(Duel, campaign="c"))

    @property
    def trials_done(self) -> bool:
        return len(self.trials) == len(KEYS) * TRIALS


def time_s(program: Program) -> float:
    return 1e-5 * (1 + int(program.sha256[:6], 16) / 2**24)


@pytest.fixture
def campaign(generic: Target, tmp_path: Path) -> PlayedCampaign:
    return PlayedCampaign(generic, tmp_path)


@pytest.fixture(scope="module")
def finished(generic: Target, tmp_path_factory: pytest.TempPathFactory) -> PlayedCampaign:
    """For tests that leave it as it is."""
    campaign = PlayedCampaign(generic, tmp_path_factory.mktemp("finished"))
    assert campaign.run(campaign.watch) is Ending.FINISHED
    return campaign


def without(campaign: PlayedCampaign, *records: Entry) -> MemoryStore:
    """The records of a campaign that a stop left without some of its trials and all of its duels."""
    store = MemoryStore()
    store.append(list(campaign.store.query(Campaign)))
    store.append([trial for trial in campaign.trials if trial not in records])
    return store


def assert_whole(campaign: PlayedCampaign) -> None:
    """All trials once, all duels once, each between the times of its own programs."""
    assert len({trial.candidate.id for trial in campaign.trials}) == len(campaign.trials) == len(KEYS) * TRIALS
    by_id = {trial.candidate.id: trial for trial in campaign.trials}
    expected = set()
    for run in make_search(campaign.spec, campaign.plan(), MemoryStore()).runs:
        own = [trial for trial in campaign.trials if trial.candidate.workload == run.task.workload.key]
        binaries = {trial.binary: trial for trial in own}
        rivals = [t for b, t in sorted(binaries.items()) if b != by_id[run.task.default.id].binary]
        rivals.sort(key=lambda trial: time_of(by_id, trial.candidate.id))
        expected |= {(run.task.default.id, time_of(by_id, trial.candidate.id)) for trial in rivals[:CONTENDERS]}
    assert {(duel.a, time_of(by_id, duel.b)) for duel in campaign.duels} == expected
    assert len(campaign.duels) == len(expected) == CONTENDERS * len(KEYS)
    for duel in campaign.duels:
        assert duel.a_times_s[0] == time_of(by_id, duel.a)
        assert duel.b_times_s[0] == time_of(by_id, duel.b)
        assert duel.workload == by_id[duel.a].candidate.workload == by_id[duel.b].candidate.workload


def time_of(by_id: dict[str, Trial], candidate: str) -> float:
    measurement = by_id[candidate].measurement
    assert measurement is not None
    return measurement.times_s[0]


def assert_asked_once(campaign: PlayedCampaign) -> None:
    """No program was timed alone twice, and no layer's duels were asked for twice."""
    alone = Counter(request.programs[0].sha256 for request in campaign.requests if len(request.programs) == 1)
    assert set(alone.values()) == {1}
    duels = Counter(request.programs[0].sha256 for request in campaign.requests if len(request.programs) > 1)
    assert list(duels.values()) == [1] * len(KEYS)


@pytest.mark.thorough
def test_duels_that_were_not_made_are_made_by_the_next_start(campaign: PlayedCampaign) -> None:
    assert campaign.run(lambda: campaign.trials_done) is Ending.INTERRUPTED
    assert campaign.trials_done
    assert len(campaign.duels) < CONTENDERS * len(KEYS)
    asked = len(campaign.requests)
    before = list(campaign.trials)
    assert campaign.run() is Ending.FINISHED
    assert campaign.trials == before
    assert all(len(request.programs) == 1 + CONTENDERS for request in campaign.requests[asked:])
    assert_whole(campaign)
    assert_asked_once(campaign)
    assert campaign.left == [], "programs that nothing needs any more"
    progress = campaign.last.progress()
    assert (progress.trials_done, progress.trials_resumed, progress.tasks_done) == (progress.trials,) * 2 + (len(KEYS),)


@pytest.mark.thorough
def test_a_start_after_the_end_asks_nothing(campaign: PlayedCampaign) -> None:
    assert campaign.run() is Ending.FINISHED
    asked = len(campaign.requests)
    assert make_search(campaign.spec, campaign.plan(), campaign.store).nothing_left()
    assert campaign.run() is Ending.FINISHED
    assert len(campaign.requests) == asked
    assert_whole(campaign)
    assert campaign.left == []


def test_a_layer_is_done_when_it_has_its_duels(finished: PlayedCampaign) -> None:
    assert finished.layers_done >= {(0, 0), (1, 1)}
    assert all(said == had for said, had in finished.layers_done)


def test_a_campaign_without_its_duels_has_something_left(finished: PlayedCampaign) -> None:
    assert make_search(finished.spec, finished.plan(), finished.store).nothing_left()
    assert not make_search(finished.spec, finished.plan(), without(finished)).nothing_left()


def test_a_default_that_a_stop_left_unrecorded_stays_the_default(finished: PlayedCampaign) -> None:
    """Builds end in any order: what is recorded first need not be what was proposed first."""
    defaults = [task.default.id for task in finished.plan()]
    store = without(finished, *(trial for trial in finished.trials if trial.candidate.id in defaults))
    search = make_search(finished.spec, finished.plan(), store)
    assert [run.task.default.id for run in search.runs] == defaults


@pytest.mark.parametrize("stops", [(1,), pytest.param((2, 5, 9), marks=pytest.mark.slow)])
@pytest.mark.thorough
def test_stops_between_any_two_records_lose_nothing(campaign: PlayedCampaign, stops: tuple[int, ...]) -> None:
    for count in stops:
        assert campaign.run(lambda count=count: len(campaign.trials) >= count) is Ending.INTERRUPTED  # type: ignore[misc]
    assert campaign.run() is Ending.FINISHED
    assert_whole(campaign)
    assert_asked_once(campaign)


@pytest.mark.thorough
def test_duels_of_another_campaign_are_not_this_one_s(campaign: PlayedCampaign) -> None:
    assert campaign.run() is Ending.FINISHED
    others = [replace(record, campaign="other") for record in (*campaign.trials, *campaign.duels)]
    campaign.store = MemoryStore()
    spec = replace(campaign.spec, name="other")
    campaign.store.append([spec.as_record("local", campaign.target), *others])
    assert campaign.run(lambda: campaign.trials_done) is Ending.INTERRUPTED
    assert campaign.run() is Ending.FINISHED
    assert len(campaign.duels) == CONTENDERS * len(KEYS)


@pytest.mark.thorough
def test_duels_whose_device_is_lost_are_asked_for_again(campaign: PlayedCampaign) -> None:
    lost = Counter[int]()

    def fault(request: Request) -> Reply | None:
        """Four losses in a row, then an answer, twice over: fewer than give a device up."""
        if len(request.programs) > 1 and lost[len(campaign.duels)] < 4:
            lost[len(campaign.duels)] += 1
            return Reply(Outcome.DEVICE_LOST, error="unplugged")
        return None

    assert campaign.run(fault=fault) is Ending.FINISHED
    assert sum(lost.values()) == 8
    assert_whole(campaign)
    assert {trial.attempts for trial in campaign.trials} == {1}


@pytest.mark.thorough
def test_a_failed_duel_ends_its_layer_and_no_other(campaign: PlayedCampaign) -> None:
    def fault(request: Request) -> Reply | None:
        is_first = len(request.programs) > 1 and not campaign.duels
        return Reply(Outcome.RUN_FAILED, error="crashed") if is_first and not failed and not failed.append(1) else None

    failed: list[int] = []
    assert campaign.run(fault=fault) is Ending.FINISHED
    assert len(campaign.duels) == CONTENDERS
    assert campaign.left == []
