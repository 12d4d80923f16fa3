"""What an answer is worth: a candidate's fault or its board's, and when a trial is concluded."""

from __future__ import annotations

from int8tune.rpc.farm.desk import BoardRun, Desk
from int8tune.rpc.farm.entries import Blamed, Cleared, Concluded, Returned, Voided
from int8tune.rpc.farm.ledger import Answer, Dossier
from int8tune.rpc.farm.values import Trial, Verdict
from int8tune.rpc.farm.waits import Wait

# Candidates whose times outs a board may have had before the next one is asked about elsewhere, too.
_FORGIVEN_TIMEOUTS = 1


class Evidence:
    """Settles trials.

    An answer counts once its board's next canary is good. A failure then needs a second board to agree, where there is
    one; of one that took too long, the canary is enough until its board has had several of them.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.accused: list[BoardRun] = []
        self.pardoned: list[BoardRun] = []

    def answered(self, run: BoardRun, fence: int, trial: Trial, verdict: Verdict, error: str) -> None:
        """Keep what a board says of a trial until its canary is good."""
        self._desk.note(Returned(fence, run.board.name, trial.id, verdict, error, counts=False))
        run.unconfirmed.append(trial.id)
        if verdict is Verdict.OK:
            run.streak.clear()
        elif trial.id not in run.streak:
            run.streak.append(trial.id)
        if verdict is Verdict.TIMED_OUT:
            run.timeouts = [*self._recent(run, run.timeouts), run.trials]

    def not_measured(self, run: BoardRun, fence: int, trial: Trial, cause: str, *, counts: bool) -> None:
        """A board returned a trial without an answer."""
        self._desk.note(Returned(fence, run.board.name, trial.id, None, cause, counts))
        self.queue(trial.id, cause)

    def confirm(self, run: BoardRun) -> None:
        """The board's canary was good: its answers count."""
        trials, run.unconfirmed = run.unconfirmed, []
        for trial in trials:
            dossier = self._desk.ledger.open.get(trial)
            answer = dossier.answer if dossier else None
            if dossier is None or answer is None or answer.board != run.board.name:
                continue
            if answer.verdict is Verdict.OK:
                self._acquit(dossier, answer)
            else:
                self._convict(run, dossier, answer)

    def void(self, run: BoardRun, cause: str, *, blames: bool) -> None:
        """The board was not to be believed: what it answered since its last good canary is measured again.

        Args:
            blames: whether its last failures, which good canaries followed, are void, too.
        """
        trials, run.unconfirmed = run.unconfirmed, []
        for trial in dict.fromkeys([*trials, *(run.streak if blames else ())]):
            dossier = self._desk.ledger.open.get(trial)
            if dossier is None:
                continue
            waited = dossier.answer is not None and dossier.answer.board == run.board.name
            if waited or any(blame.board == run.board.name for blame in dossier.blames):
                self._desk.note(Voided(run.board.name, trial, cause))
            if waited:
                self.queue(trial, cause)

    def queue(self, trial: str, cause: str = "") -> None:
        """Let a trial wait for a board, unless it was tried often enough."""
        desk = self._desk
        dossier = desk.ledger.open.get(trial)
        if dossier is None:
            return
        if dossier.failures > desk.rules.retries or dossier.attempts >= desk.rules.most_attempts:
            self.give_up(dossier, cause)
            return
        desk.queues.push(dossier.trial, again=dossier.attempts > 0)
        desk.waits.set(Wait.QUEUE, trial, desk.now_s + desk.rules.queue_s)
        key = (dossier.trial.target, dossier.trial.tags)
        if desk.queues.demand[key] == 1:
            desk.watch_demand(*key)

    def give_up(self, dossier: Dossier, cause: str) -> None:
        """Conclude a trial that can't be measured; one that failed before a good canary has failed."""
        if dossier.blames:
            self._conclude(dossier, dossier.blames[-1])
            return
        tries = f"tried {dossier.attempts} times, " if dossier.attempts else ""
        answer = Answer(0, "", Verdict.INFRA_FAILED, f"{tries}the last time: {cause}" if tries else cause)
        self._conclude(dossier, answer)

    def may_have(self, run: BoardRun, trial: str) -> bool:
        """Whether a board may have a trial that was tried before: one that had it only where no other is left."""
        dossier = self._desk.ledger.open[trial]
        avoid = dossier.avoid
        if run.board.name not in avoid:
            return True
        return not self._others(dossier.trial, avoid)

    def _acquit(self, dossier: Dossier, answer: Answer) -> None:
        """It was right here. Where others said that it computes wrong values, one board's word is not enough."""
        wrong = [blame for blame in dossier.blames if blame.verdict is Verdict.WRONG]
        if wrong and not dossier.cleared_by:
            self._desk.note(Cleared(answer.fence, answer.board, dossier.trial.id))
            self.queue(dossier.trial.id)
            return
        accusers = [blame.board for blame in dossier.blames]
        self._conclude(dossier, answer)
        for name in accusers:
            if (run := self._desk.boards.get(name)) and name != answer.board:
                run.accused = [*self._recent(run, run.accused), run.trials]
                self.accused.append(run)

    def _convict(self, run: BoardRun, dossier: Dossier, answer: Answer) -> None:
        """It failed here, and the board is well."""
        trial = dossier.trial
        others = self._others(trial, {run.board.name})
        if not dossier.blames and others and self._needs_second(run, answer.verdict):
            self._desk.note(Blamed(answer.fence, answer.board, trial.id, answer.verdict))
            self.queue(trial.id)
            return
        accusers = {blame.board for blame in dossier.blames}
        self._conclude(dossier, answer)
        self._pardon(trial.id, accusers, answer.board)

    def _pardon(self, trial: str, accusers: set[str], board: str) -> None:
        """Where two boards agree, that it failed says nothing about either."""
        runs = [run for run in self._desk.boards.values() if trial in run.streak]
        if {*accusers, *(run.board.name for run in runs)} <= {board}:
            return
        for run in runs:
            run.streak.remove(trial)
            self.pardoned.append(run)

    def _needs_second(self, run: BoardRun, verdict: Verdict) -> bool:
        return verdict is not Verdict.TIMED_OUT or len(self._recent(run, run.timeouts)) > _FORGIVEN_TIMEOUTS

    def _others(self, trial: Trial, avoid: set[str]) -> bool:
        return any(run.board.name not in avoid for run in self._desk.matching(trial.target, trial.tags))

    def _recent(self, run: BoardRun, trials: list[int]) -> list[int]:
        return [trial for trial in trials if trial > run.trials - self._desk.rules.window]

    def _conclude(self, dossier: Dossier, answer: Answer) -> None:
        trial = dossier.trial.id
        self._desk.note(Concluded(trial, answer.verdict, answer.fence, answer.board, answer.cause))
        self._desk.queues.remove(trial)
        self._desk.waits.drop(Wait.QUEUE, trial)
        self._desk.waits.drop(Wait.BUILD, trial)

    def conclude_unbuilt(self, trial: str, error: str) -> None:
        """There is no program to measure."""
        self._conclude(self._desk.ledger.open[trial], Answer(0, "", Verdict.BUILD_FAILED, error))
