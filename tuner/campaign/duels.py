"""The end of a task: its contenders prove themselves against its default."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from int8tune.results.record import Duel, Outcome
from int8tune.rpc.request import Reply
from int8tune.tuner.builder.job import Built
from int8tune.tuner.campaign.loop_context import LoopContext, Match
from int8tune.tuner.campaign.search import Search
from int8tune.tuner.campaign.task import TaskRun


class Duels:
    """The matches of a campaign, from a task's last trial until nothing of it is needed any more."""

    def __init__(self, campaign: str, search: Search, around: LoopContext, ended: Callable[[], None]) -> None:
        """`ended` is called for each task that is over."""
        self._campaign = campaign
        self._search = search
        self._context = around
        self._ended = ended
        self._matches: dict[int, Match] = {}

    @property
    def open(self) -> int:
        """Tasks whose trials are done, but not their duels."""
        return len(self._matches)

    def begin(self, run: TaskRun) -> None:
        """Have the programs of a task's match built; a task without contenders is over."""
        rivals = [trial.candidate for trial in self._search.rivals(run)]
        if not rivals:
            self._clear(run)
            return
        match = Match(run, (run.task.default, *rivals))
        self._matches[run.task.index] = match
        for candidate in match.candidates:
            self._context.builds.start(run.task, candidate)

    def receive(self, built: Built) -> list[Match]:
        """Take what was built for a match, if it was; the matches that have all their programs now."""
        ready = []
        for match in list(self._matches.values()):
            if any(candidate.id == built.id for candidate in match.candidates) and self._complete(match, built):
                ready.append(match)
        return ready

    def finish(self, match: Match, reply: Reply) -> None:
        """Record how a match ended; its task is over."""
        if reply.outcome is Outcome.OK:
            duels = [self._duel(match, reply, index) for index in range(1, len(match.candidates))]
            self._context.store.append(duels)
            self._context.listener.duels(match.run.task, duels)
        else:
            self._context.listener.notice(f"{match.run.task.name}: no duels, a contender failed: {reply.error}")
        self._clear(match.run)

    def _complete(self, match: Match, built: Built) -> bool:
        if built.program is None:
            self._context.listener.notice(
                f"{match.run.task.name}: no duels, a contender can't be built again: {built.error}"
            )
            self._clear(match.run)
            return False
        match.programs[built.id] = built.program
        return len(match.programs) == len(match.candidates)

    def _duel(self, match: Match, reply: Reply, index: int) -> Duel:
        default, rival = match.candidates[0], match.candidates[index]
        return Duel(
            campaign=self._campaign,
            workload=default.workload,
            target=default.target,
            device=self._context.device_name,
            a=default.id,
            b=rival.id,
            a_times_s=reply.times_s[0],
            b_times_s=reply.times_s[index],
            environment=self._context.environment_now,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )

    def _clear(self, run: TaskRun) -> None:
        """A task is over: nothing of it is needed any more."""
        self._matches.pop(run.task.index, None)
        for candidate in (run.task.default, *(trial.candidate for trial in run.contenders())):
            self._context.builds.drop(candidate)
        self._context.builds.drop_suite(run.task)
        self._ended()
