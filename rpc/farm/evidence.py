"""What an answer is worth: a candidate's fault or its board's, and when a trial is concluded."""

from __future__ import annotations

from int8tune.rpc.farm.entries import Blamed, Cleared, Concluded, Returned, Voided
from int8tune.rpc.farm.ledger import Answer, OpenTrial
from int8tune.rpc.farm.state import BoardRun, FarmState
from int8tune.rpc.farm.values import Trial, Verdict
from int8tune.rpc.farm.waits import Wait

# Candidates whose times outs a board may have had before the next one is asked about elsewhere, too.
_FORGIVEN_TIMEOUTS = 1


class Evidence:
    """Settles trials.

    An answer counts once its board's next canary is good. A failure then needs a second board to agree, where there is
    one; of one that took too long, the canary is enough until its board has had several of them.
    """

    def __init__(self, farm: FarmState) -> None:
        self._farm = farm
        self.accused: list[BoardRun] = []
        self.pardoned: list[BoardRun] = []

    def answered(self, run: BoardRun, fence: int, trial: Trial, verdict: Verdict, error: str) -> None:
        """Keep what a board says of a trial until its canary is good."""
        self._farm.note(Returned(fence, run.board.name, trial.id, verdict, error, counts=False))
        run.unconfirmed.append(trial.id)
        if verdict is Verdict.OK:
            run.streak.clear()
        elif trial.id not in run.streak:
            run.streak.append(trial.id)
        if verdict is Verdict.TIMED_OUT:
            run.timeouts = [*self._recent(run, run.timeouts), run.trials]

    def not_measured(self, run: BoardRun, fence: int, trial: Trial, cause: str, *, counts: bool) -> None:
        """A board returned a trial without an answer."""
        self._farm.note(Returned(fence, run.board.name, trial.id, None, cause, counts))
        self.queue(trial.id, cause)

    def confirm(self, run: BoardRun) -> None:
        """The board's canary was good: its answers count."""
        trials, run.unconfirmed = run.unconfirmed, []
        for trial in trials:
            open_trial = self._farm.ledger.open.get(trial)
            answer = open_trial.answer if open_trial else None
            if open_trial is None or answer is None or answer.board != run.board.name:
                continue
            if answer.verdict is Verdict.OK:
                self._acquit(open_trial, answer)
            else:
                self._convict(run, open_trial, answer)

    def void(self, run: BoardRun, cause: str, *, blames: bool) -> None:
        """The board was not to be believed: what it answered since its last good canary is measured again.

        Args:
            blames: whether its last failures, which good canaries followed, are void, too.
        """
        trials, run.unconfirmed = run.unconfirmed, []
        for trial in dict.fromkeys([*trials, *(run.streak if blames else ())]):
            open_trial = self._farm.ledger.open.get(trial)
            if open_trial is None:
                continue
            waited = open_trial.answer is not None and open_trial.answer.board == run.board.name
            if waited or any(blame.board == run.board.name for blame in open_trial.blames):
                self._farm.note(Voided(run.board.name, trial, cause))
            if waited:
                self.queue(trial, cause)

    def queue(self, trial: str, cause: str = "") -> None:
        """Let a trial wait for a board, unless it was tried often enough."""
        farm = self._farm
        open_trial = farm.ledger.open.get(trial)
        if open_trial is None:
            return
        if open_trial.failures > farm.rules.retries or open_trial.attempts >= farm.rules.most_attempts:
            self.give_up(open_trial, cause)
            return
        farm.queues.push(open_trial.trial, again=open_trial.attempts > 0)
        farm.waits.set(Wait.QUEUE, trial, farm.now_s + farm.rules.queue_s)
        key = (open_trial.trial.target, open_trial.trial.tags)
        if farm.queues.demand[key] == 1:
            farm.watch_demand(*key)

    def give_up(self, open_trial: OpenTrial, cause: str) -> None:
        """Conclude a trial that can't be measured; one that failed before a good canary has failed."""
        if open_trial.blames:
            self._conclude(open_trial, open_trial.blames[-1])
            return
        tries = f"tried {open_trial.attempts} times, " if open_trial.attempts else ""
        answer = Answer(0, "", Verdict.INFRA_FAILED, f"{tries}the last time: {cause}" if tries else cause)
        self._conclude(open_trial, answer)

    def may_have(self, run: BoardRun, trial: str) -> bool:
        """Whether a board may have a trial that was tried before: one that had it only where no other is left."""
        open_trial = self._farm.ledger.open[trial]
        avoid = open_trial.avoid
        if run.board.name not in avoid:
            return True
        return not self._others(open_trial.trial, avoid)

    def _acquit(self, open_trial: OpenTrial, answer: Answer) -> None:
        """It was right here. Where others said that it computes wrong values, one board's word is not enough."""
        wrong = [blame for blame in open_trial.blames if blame.verdict is Verdict.WRONG]
        if wrong and not open_trial.cleared_by:
            self._farm.note(Cleared(answer.fence, answer.board, open_trial.trial.id))
            self.queue(open_trial.trial.id)
            return
        accusers = [blame.board for blame in open_trial.blames]
        self._conclude(open_trial, answer)
        for name in accusers:
            if (run := self._farm.boards.get(name)) and name != answer.board:
                run.accused = [*self._recent(run, run.accused), run.trials]
                self.accused.append(run)

    def _convict(self, run: BoardRun, open_trial: OpenTrial, answer: Answer) -> None:
        """It failed here, and the board is well."""
        trial = open_trial.trial
        others = self._others(trial, {run.board.name})
        if not open_trial.blames and others and self._needs_second(run, answer.verdict):
            self._farm.note(Blamed(answer.fence, answer.board, trial.id, answer.verdict))
            self.queue(trial.id)
            return
        accusers = {blame.board for blame in open_trial.blames}
        self._conclude(open_trial, answer)
        self._pardon(trial.id, accusers, answer.board)

    def _pardon(self, trial: str, accusers: set[str], board: str) -> None:
        """Where two boards agree, that it failed says nothing about either."""
        runs = [run for run in self._farm.boards.values() if trial in run.streak]
        if {*accusers, *(run.board.name for run in runs)} <= {board}:
            return
        for run in runs:
            run.streak.remove(trial)
            self.pardoned.append(run)

    def _needs_second(self, run: BoardRun, verdict: Verdict) -> bool:
        return verdict is not Verdict.TIMED_OUT or len(self._recent(run, run.timeouts)) > _FORGIVEN_TIMEOUTS

    def _others(self, trial: Trial, avoid: set[str]) -> bool:
        return any(run.board.name not in avoid for run in self._farm.matching(trial.target, trial.tags))

    def _recent(self, run: BoardRun, trials: list[int]) -> list[int]:
        return [trial for trial in trials if trial > run.trials - self._farm.rules.window]

    def _conclude(self, open_trial: OpenTrial, answer: Answer) -> None:
        trial = open_trial.trial.id
        self._farm.note(Concluded(trial, answer.verdict, answer.fence, answer.board, answer.cause))
        self._farm.queues.remove(trial)
        self._farm.waits.drop(Wait.QUEUE, trial)
        self._farm.waits.drop(Wait.BUILD, trial)

    def conclude_unbuilt(self, trial: str, error: str) -> None:
        """There is no program to measure."""
        self._conclude(self._farm.ledger.open[trial], Answer(0, "", Verdict.BUILD_FAILED, error))
