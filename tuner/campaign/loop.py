"""The campaign loop: propose, build, verify and time, record, observe."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from int8tune.results.label import layer_label
from int8tune.results.progress import rate_of
from int8tune.results.record import Estimate, Measurement, Outcome, Trial
from int8tune.rpc.request import Reply
from int8tune.tuner.builder.job import Built, advice_code
from int8tune.tuner.campaign.duels import Duels
from int8tune.tuner.campaign.events import Progress
from int8tune.tuner.campaign.loop_context import LoopContext, Match, Purpose
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.campaign.search import Search
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign.task import Slot, TaskRun, median_s
from int8tune.tuner.errors import CampaignError, DeviceGoneError

# How long a stop request may go unnoticed.
POLL_S = 0.2
# Programs that wait for the device: enough to bridge a slow build, few enough to keep few files.
MOST_BUILT = 8
MOST_LOSSES = 5
# Kernels of a layer that wait so long for its reference outputs are worth a word.
LATE_SUITE_S = 5.0
# When a campaign is stopped, a measurement that takes longer than this is given up.
WIND_UP_S = 2.0
# As many failed builds before the first one that succeeds mean that building itself is broken here.
MOST_FAILED_BUILDS = 40


class Ending(StrEnum):
    """Why a run of a campaign ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    OUT_OF_TIME = "out of time"
    PACKED = "packed"
    """All that can be done now waits for a device that answers later."""


class CampaignLoop:
    """Runs a campaign's tasks to their end, or until it is told to stop.

    One thread proposes, collects builds and records; builds are processes; a second thread waits for the device.
    """

    def __init__(self, spec: CampaignSpec, search: Search, around: LoopContext) -> None:
        self._spec = spec
        self._search = search
        self._context = around
        self._resumed, self._new, self._losses = len(search.recorded), 0, 0
        self._started = time.monotonic()
        self._last: tuple[Task, Trial] | None = None

        self._queue: deque[Slot] = deque()
        self._building: dict[str, Slot] = {}
        self._duels = Duels(spec.name, search, around, self._tell_progress)
        self._for_device: deque[Purpose] = deque()
        self._binaries = {(t.candidate.workload, t.binary): t for t in search.recorded.values() if t.binary}
        self._twins: dict[tuple[str, str], list[tuple[Slot, Built]]] = {}
        self._attempts: dict[str, int] = {}
        self._killed: set[str] = set()
        self._failed_builds = 0
        self._advised: set[str] = set()
        self._known_layers = {trial.candidate.workload for trial in search.recorded.values()}
        self._told: set[int] = set()

    def run(self) -> Ending:
        """Work until every task is done, the time is up or a stop is requested.

        Raises:
            DeviceGoneError: the device was lost several times in a row.
            StoreError: a record could not be written.
        """
        limit_s = self._spec.time_limit_s
        while True:
            if self._context.stop_requested():
                return self._wind_up(Ending.INTERRUPTED)
            if limit_s is not None and self._elapsed_s() > limit_s:
                return self._wind_up(Ending.OUT_OF_TIME)
            self._propose()
            self._start_builds()
            self._feed_device()
            if not self._search.turns.open and not self._duels.open:
                return Ending.FINISHED
            if self._context.device.answers_later and self._has_started_all():
                return Ending.PACKED
            self._collect(POLL_S)

    def _has_started_all(self) -> bool:
        """Whether nothing more happens until the device answers."""
        return not (self._queue or self._building or self._for_device) and self._context.builds.idle

    # Proposing and building

    def _propose(self) -> None:
        """Take the next turn's trials when the queue is empty; layers that have no more turns get their duels."""
        while not self._queue and (slots := self._search.next_slots()):
            self._queue.extend(slots)
        for run in self._search.turns.take_finished():
            self._duels.begin(run)

    def _start_builds(self) -> None:
        while self._queue and not self._context.builds.busy and len(self._for_device) < MOST_BUILT:
            slot = self._queue.popleft()
            self._building[slot.candidate.id] = slot
            self._context.builds.start(slot.task.task, slot.candidate)
        self._context.builds.prepare(run.task for run in self._search.runs if self._is_to_come(run))

    def _is_to_come(self, run: TaskRun) -> bool:
        """Whether nothing of a layer was tried, now or before."""
        return not run.proposed and run.task.workload.key not in self._known_layers

    def _tell_late_suites(self) -> None:
        """Say once of each layer that its candidates wait for the oracle, which has one suite to compute for all."""
        for task in self._context.builds.late_suites(LATE_SUITE_S):
            if task.index not in self._told:
                self._told.add(task.index)
                self._context.listener.notice(
                    f"computing the reference outputs of {layer_label(task.workload.key)}, which its kernels wait for"
                )

    def _collect(self, limit_s: float) -> None:
        """Take what builds and the device have finished, waiting a little where nothing has."""
        builds = self._context.builds.collect(limit_s, self._context.device.done)
        self._tell_late_suites()
        if taken := self._context.device.take(0.0):
            self._finish(*taken)
        for built in builds:
            slot = self._building.pop(built.id, None)
            if slot:
                self._receive(slot, built)
            self._for_device.extend(self._duels.receive(built))

    def _receive(self, slot: Slot, built: Built) -> None:
        """A candidate was built: it failed, or its twin has been or is being measured, or it goes to the device."""
        twin = (slot.candidate.workload, built.binary)
        self._tell_advice(slot, built)
        if built.outcome is not Outcome.OK:
            self._context.builds.require_files()
            self._count_failed_build(built)
            self._record(slot, built, Reply(built.outcome, error_class=built.error_class, error=built.error))
        elif twin in self._binaries:
            self._record_twin(slot, built, self._binaries[twin])
        elif twin in self._twins:
            self._twins[twin].append((slot, built))
        else:
            self._twins[twin] = []
            self._for_device.append((slot, built))

    def _tell_advice(self, slot: Slot, built: Built) -> None:
        """What the compiler says of slow code, of each kind once; records count it."""
        for line in built.advice:
            if (code := advice_code(line)) not in self._advised:
                self._advised.add(code)
                self._context.listener.notice(f"{slot.task.task.name}: NVIDIA's compiler says of a candidate: {line}")

    def _count_failed_build(self, built: Built) -> None:
        self._failed_builds += 1
        if self._failed_builds >= MOST_FAILED_BUILDS and not self._binaries and not self._twins:
            raise CampaignError(f"all of the first {self._failed_builds} builds failed, the last: {built.error}")

    # Measuring

    def _feed_device(self) -> None:
        device = self._context.device
        if device.idle and device.shares_cores:
            self._context.builds.pause_guest(bool(self._for_device))
        while device.idle and self._for_device:
            self._start(self._for_device.popleft())

    def _start(self, purpose: Purpose) -> None:
        if isinstance(purpose, Match):
            programs = tuple(purpose.programs[candidate.id] for candidate in purpose.candidates)
            self._context.device.start_duels(purpose, purpose.run.task.workload, programs)
        else:
            slot, built = purpose
            assert built.program is not None
            best = slot.task.best()
            best_s = median_s(best) if best and best.measurement else None
            self._context.device.start_trial(purpose, slot.task.task.workload, built.program, best_s)

    def _finish(self, purpose: Purpose, reply: Reply) -> None:
        if reply.outcome is not Outcome.OK:
            programs = purpose.programs.values() if isinstance(purpose, Match) else filter(None, [purpose[1].program])
            self._context.builds.require_files(*programs)
        if reply.outcome is Outcome.DEVICE_LOST:
            self._requeue(purpose, reply)
            return
        self._losses = 0
        if reply.was_killed and self._repeat_killed(purpose, reply):
            return
        if isinstance(purpose, Match):
            self._duels.finish(purpose, reply)
            return
        slot, built = purpose
        trial = self._record(slot, built, reply)
        for twin_slot, twin_built in self._twins.pop((slot.candidate.workload, built.binary), []):
            self._record_twin(twin_slot, twin_built, trial)

    def _requeue(self, purpose: Purpose, reply: Reply) -> None:
        """A lost device says nothing about a candidate: it is measured again, unless the device is gone for good."""
        self._losses += 1
        self._context.listener.notice(f"the device was lost, its trial is repeated: {reply.error}")
        if self._losses >= MOST_LOSSES:
            raise DeviceGoneError(f"the device was lost {self._losses} times in a row, the last time: {reply.error}")
        self._measure_again(purpose)

    def _repeat_killed(self, purpose: Purpose, reply: Reply) -> bool:
        """A session that was killed from outside is repeated, once: a candidate that kills itself looks the same."""
        name = f"duels {purpose.run.task.index}" if isinstance(purpose, Match) else purpose[0].candidate.id
        if name in self._killed:
            return False
        self._killed.add(name)
        self._context.listener.notice(
            f"a session was killed from outside, it is repeated (is there memory left? see dmesg): {reply.error}"
        )
        self._measure_again(purpose)
        return True

    def _measure_again(self, purpose: Purpose) -> None:
        if not isinstance(purpose, Match):
            candidate = purpose[0].candidate.id
            self._attempts[candidate] = self._attempts.get(candidate, 1) + 1
        self._for_device.appendleft(purpose)

    # Recording

    def _record(self, slot: Slot, built: Built, reply: Reply) -> Trial:
        found: Measurement | Estimate | None = None
        if reply.outcome is Outcome.OK and built.estimated_cycles is not None:
            found = Estimate(built.estimated_cycles)
        elif reply.outcome is Outcome.OK:
            observed = {**reply.observed, **built.advised}
            found = Measurement(reply.times_s[0], reply.calls_per_repeat[0], observed)
        around = self._context
        environment = around.environment_now if built.outcome is Outcome.OK else around.environment
        return self._append(slot, built, reply, found, environment)

    def _record_twin(self, slot: Slot, built: Built, twin: Trial) -> None:
        """The same code was measured for another candidate: its result is this one's, too."""
        reply = Reply(twin.outcome, error_class=twin.error_class, error=twin.error)
        reused_from = twin.reused_from or twin.candidate.id
        self._append(slot, built, reply, twin.measurement or twin.estimate, twin.environment, reused_from)

    def _append(
        self,
        slot: Slot,
        built: Built,
        reply: Reply,
        found: Measurement | Estimate | None,
        environment: Mapping[str, str],
        reused_from: str = "",
    ) -> Trial:
        trial = Trial(
            campaign=self._spec.name,
            sequence=slot.sequence,
            candidate=slot.candidate,
            outcome=reply.outcome,
            measurement=found if isinstance(found, Measurement) else None,
            device=self._context.device_name,
            environment=environment,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            build_s=built.build_s,
            run_s=reply.run_s,
            binary=built.binary,
            reused_from=reused_from,
            error_class=reply.error_class,
            error=reply.error,
            attempts=self._attempts.pop(slot.candidate.id, 1),
            estimate=found if isinstance(found, Estimate) else None,
        )
        self._context.store.append([trial])
        if built.binary:
            self._binaries.setdefault((slot.candidate.workload, built.binary), trial)
        self._keep_best(slot.task, trial)
        self._new += 1
        self._last = (slot.task.task, trial)
        self._tell_progress()
        return trial

    def _keep_best(self, run: TaskRun, trial: Trial) -> None:
        """Keep the programs of the default and of the contenders for their duels, no others."""
        before = [contender.candidate for contender in run.contenders()]
        run.record(trial)
        keep = {run.task.default.id, *(contender.candidate.id for contender in run.contenders())}
        for candidate in (trial.candidate, *before):
            if candidate.id not in keep:
                self._context.builds.drop(candidate)

    # Ending

    def _wind_up(self, ending: Ending) -> Ending:
        """Record what is being measured just now, unless it takes long."""
        until_s = time.monotonic() + WIND_UP_S
        while taken := self._context.device.take(max(0.0, until_s - time.monotonic())):
            self._finish(*taken)
        return ending

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def _tell_progress(self) -> None:
        self._context.listener.progress(self.progress())

    def progress(self) -> Progress:
        """Where the campaign stands."""
        runs, total = self._search.runs, self._search.budget
        done = min(self._resumed + self._new, total)
        left_s = self._elapsed_s() / self._new * (total - done) if self._new else None
        best = {run.task.index: trial for run in runs if (trial := run.best())}
        return Progress(
            tasks=len(runs),
            tasks_done=len(runs) - self._search.turns.open - self._duels.open,
            trials=total,
            trials_done=done,
            trials_resumed=self._resumed,
            elapsed_s=self._elapsed_s(),
            time_left_s=left_s,
            last=self._last,
            best_rates={index: rate_of(trial, runs[index].task.workload.macs) for index, trial in best.items()},
        )
