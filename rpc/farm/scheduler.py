"""The scheduler: one event and the time in, entries and commands out. It waits for nothing and reads no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from int8tune.rpc.farm.entries import Closed, Opened, ProgramBuilt, Submitted
from int8tune.rpc.farm.events import (
    Answered,
    Built,
    CanaryAnswered,
    Close,
    Decision,
    Dropped,
    Event,
    Heard,
    Open,
    Reached,
    Refused,
    Submit,
    Tick,
)
from int8tune.rpc.farm.evidence import Evidence
from int8tune.rpc.farm.health import Health
from int8tune.rpc.farm.ledger import Ledger
from int8tune.rpc.farm.state import BoardRun, FarmState, Lease, Status
from int8tune.rpc.farm.values import ANSWERS, Board, Phase, Rules, State, Trial, Verdict
from int8tune.rpc.farm.waits import Key, Wait


class Scheduler:
    """Decides which board measures which trial, and what comes of it.

    The caller writes a decision's entries to the journal, all or none, before it carries out its commands, and calls
    `handle` again at `next_s` at the latest. Events that are there already come before a `Tick`. After a crash, a new
    scheduler with the journal's ledger goes on: what boards had at that moment is measured again, nothing else.
    """

    def __init__(
        self, boards: Iterable[Board], rules: Rules, jitter: Callable[[], float], ledger: Ledger | None = None
    ) -> None:
        """`jitter`: a number from 0 to 1, another each time."""
        self._farm = FarmState(boards, rules, jitter, ledger or Ledger())
        self._evidence = Evidence(self._farm)
        self._health = Health(self._farm, self._evidence)
        self._idle: dict[str, dict[str, BoardRun]] = {}

    @property
    def ledger(self) -> Ledger:
        """What is known of trials and campaigns. It is read only."""
        return self._farm.ledger

    @property
    def next_s(self) -> float | None:
        """When `handle` is to be called, if nothing happens before; None: only then."""
        return self._farm.waits.next_s()

    def waiting(self, campaign: str) -> int:
        """How many of a campaign's trials wait for a board."""
        return self._farm.queues.length(campaign)

    def status(self) -> list[Status]:
        """What each board is doing."""
        return self._farm.status()

    def start(self, now_s: float) -> Decision:
        """Ask each board for a canary, those in quarantine a while later, and take up what the ledger has."""
        farm = self._farm
        farm.now_s = now_s
        for campaign, priority in farm.ledger.campaigns.items():
            farm.queues.open(campaign, priority)
        for trial in list(farm.ledger.open):
            self._resume(trial)
        for run in farm.boards.values():
            state, cause = farm.ledger.states.get(run.board.name, (State.UNKNOWN, ""))
            if state is State.QUARANTINED:
                self._health.quarantine(run, cause)
            else:
                self._health.check(run, suspect=False)
        return farm.hand_over()

    def handle(self, now_s: float, event: Event) -> Decision:
        """Take in an event, then whatever is over by now."""
        farm = self._farm
        farm.now_s = max(farm.now_s, now_s)
        self._take(event)
        while key := farm.waits.take(farm.now_s):
            self._expire(key)
        self._settle_boards()
        self._wake()
        return farm.hand_over()

    def _take(self, event: Event) -> None:
        match event:
            case Reached(board, fence, phase):
                self._advance(board, fence, phase)
            case Answered():
                self._take_answer(event)
            case CanaryAnswered():
                self._take_canary(event)
            case Dropped(board, fence, error, gone):
                if lease := self._lease(board, fence):
                    self._drop(self._farm.boards[board], lease, error, gone=gone)
            case Heard(board):
                if run := self._farm.boards.get(board):
                    self._health.heard(run)
            case Submit(trial):
                self._submit(trial)
            case Built(trial, error):
                self._take_program(trial, error)
            case Open(campaign):
                self._farm.note(Opened(campaign))
                self._farm.queues.open(campaign.name, campaign.priority)
            case Close(campaign):
                self._farm.note(Closed(campaign))
                self._farm.queues.close(campaign)
            case Tick():
                pass

    # Trials

    def _submit(self, trial: Trial) -> None:
        if trial.campaign not in self._farm.ledger.campaigns or self._farm.ledger.knows(trial):
            return
        self._farm.note(Submitted(trial))
        self._enqueue(trial)

    def _enqueue(self, trial: Trial) -> None:
        farm = self._farm
        if farm.ledger.open[trial.id].built:
            self._evidence.queue(trial.id)
        else:
            farm.waits.set(Wait.BUILD, trial.id, farm.now_s + farm.rules.build_s)

    def _take_program(self, trial: str, error: str) -> None:
        open_trial = self._farm.ledger.open.get(trial)
        if open_trial is None or open_trial.built:
            return
        if error:
            self._evidence.conclude_unbuilt(trial, error)
            return
        self._farm.note(ProgramBuilt(trial))
        self._farm.waits.drop(Wait.BUILD, trial)
        self._enqueue(open_trial.trial)

    def _resume(self, trial: str) -> None:
        """Go on with a trial that the ledger has: in flight, answered, or neither."""
        open_trial = self._farm.ledger.open[trial]
        if open_trial.lease:
            board = self._farm.boards.get(open_trial.lease.board) or BoardRun(Board(open_trial.lease.board, ""))
            cause = "the coordinator was started anew"
            self._evidence.not_measured(board, open_trial.lease.fence, open_trial.trial, cause, counts=False)
        elif open_trial.answer is None:
            self._enqueue(open_trial.trial)
        elif run := self._farm.boards.get(open_trial.answer.board):
            run.unconfirmed.append(trial)
        else:
            gone = BoardRun(Board(open_trial.answer.board, ""), unconfirmed=[trial])
            self._evidence.void(gone, "the board is not in the inventory any more", blames=False)

    # Sessions

    def _lease(self, board: str, fence: int) -> Lease | None:
        """The lease that has this fence; an answer under any other is refused."""
        run = self._farm.boards.get(board)
        if run and run.lease and run.lease.fence == fence:
            return run.lease
        self._farm.order(Refused(board, fence))
        return None

    def _advance(self, board: str, fence: int, phase: Phase) -> None:
        order = list(Phase)
        lease = self._lease(board, fence)
        if lease and order.index(phase) > order.index(lease.phase):
            lease.phase = phase
            self._farm.await_phase(self._farm.boards[board], lease)

    def _take_answer(self, answer: Answered) -> None:
        lease = self._lease(answer.board, answer.fence)
        if lease is None:
            return
        run = self._farm.boards[answer.board]
        if lease.trial is None or lease.trial.id != answer.trial or answer.verdict not in ANSWERS:
            self._health.quarantine(run, f"it answered what it was not asked: {answer.trial} is {answer.verdict}")
            return
        self._farm.end_lease(run)
        run.trials += 1
        run.since_canary += 1
        self._evidence.answered(run, lease.fence, lease.trial, answer.verdict, answer.error)
        if answer.verdict is Verdict.OK:
            self._rest(run)
        elif len(run.streak) >= self._farm.rules.streak:
            run.off_for_streak = True
            cause = f"{len(run.streak)} different candidates failed in a row, the last: {answer.verdict}"
            self._health.quarantine(run, cause, blames=True)
        else:
            self._health.check(run, suspect=True, cause=f"{answer.trial} is {answer.verdict}")

    def _take_canary(self, canary: CanaryAnswered) -> None:
        lease = self._lease(canary.board, canary.fence)
        if lease is None:
            return
        run = self._farm.boards[canary.board]
        if lease.trial:
            self._health.quarantine(run, "it answered what it was not asked: the canary")
            return
        self._farm.end_lease(run)
        if self._health.judge(run, canary):
            self._offer(run)

    def _drop(self, run: BoardRun, lease: Lease, cause: str, *, gone: bool = False) -> None:
        """A session is over without an answer. Of a board that is gone, a canary would say no more, and take long."""
        if gone:
            self._health.lose(run, cause)
        elif lease.trial is None:
            self._farm.end_lease(run, cancel=True)
            self._health.missed(run, lease.phase, cause)
        elif lease.phase is Phase.CONNECT:
            self._health.lose(run, cause)
        else:
            self._farm.end_lease(run, cancel=True)
            self._evidence.not_measured(run, lease.fence, lease.trial, cause, counts=True)
            self._health.check(run, suspect=True, cause=cause)

    # Boards

    def _rest(self, run: BoardRun) -> None:
        """Let a board cool down, then give it work."""
        cooldown_s = run.board.limits.cooldown_s
        if cooldown_s:
            self._farm.turn(run, State.COOLING)
            self._farm.waits.set(Wait.COOLDOWN, run.board.name, self._farm.now_s + cooldown_s)
        else:
            self._offer(run)

    def _offer(self, run: BoardRun) -> None:
        """Give a healthy board that has no session what it should do next."""
        farm, name = self._farm, run.board.name
        if run.since_canary >= run.board.canary_every:
            self._health.check(run, suspect=False)
            return
        trial = farm.queues.take(run.board, lambda trial: self._evidence.may_have(run, trial))
        if trial:
            farm.waits.drop(Wait.IDLE, name)
            farm.waits.drop(Wait.QUEUE, trial.id)
            farm.turn(run, State.BUSY)
            farm.lease(run, trial)
            return
        if run.state is not State.READY:
            farm.turn(run, State.READY)
        self._idle.setdefault(run.board.target, {})[name] = run
        if run.unconfirmed and farm.waits.due_s(Wait.IDLE, name) is None:
            farm.waits.set(Wait.IDLE, name, farm.now_s + farm.rules.idle_s)

    def _wake(self) -> None:
        """Offer what waits to boards that have nothing to do."""
        for target in dict.fromkeys(target for target, _ in self._farm.queues.demand) if self._idle else ():
            idle = self._idle.pop(target, {})
            for run in idle.values():
                if run.state is State.READY and run.lease is None:
                    self._offer(run)

    def _settle_boards(self) -> None:
        """Take off boards that accuse what is right; look at those again whose candidates were guilty."""
        rules = self._farm.rules
        accused, self._evidence.accused = self._evidence.accused, []
        for run in accused:
            if run.healthy and len(run.accused) >= rules.false_alarms:
                cause = f"{len(run.accused)} candidates failed here and were right elsewhere"
                self._health.quarantine(run, cause, blames=True)
        pardoned, self._evidence.pardoned = self._evidence.pardoned, []
        for run in pardoned:
            if run.state is State.QUARANTINED and run.off_for_streak and len(run.streak) < rules.streak:
                self._health.check(run, suspect=False, cause="its candidates failed elsewhere, too")

    # Time

    def _expire(self, key: Key) -> None:
        """Something was waited for in vain, or long enough."""
        wait, owner = key
        match wait:
            case Wait.QUEUE | Wait.BUILD:
                self._expire_trial(wait, str(owner))
            case Wait.BOARD:
                assert isinstance(owner, tuple)
                target, tags = owner
                for trial in self._farm.queues.waiting(target, tags):
                    limit_s = self._farm.rules.board_s
                    cause = f"no board of {target} that has {sorted(tags) or 'any tags'} was healthy for {limit_s:g} s"
                    self._evidence.give_up(self._farm.ledger.open[trial], cause)
            case _:
                self._expire_board(wait, self._farm.boards[str(owner)])

    def _expire_trial(self, wait: Wait, trial: str) -> None:
        open_trial = self._farm.ledger.open.get(trial)
        if open_trial is None:
            return
        if wait is Wait.BUILD:
            self._evidence.conclude_unbuilt(trial, f"it was not built within {self._farm.rules.build_s:g} s")
        elif trial in self._farm.queues:
            self._evidence.give_up(open_trial, f"it waited for its turn for {self._farm.rules.queue_s:g} s")

    def _expire_board(self, wait: Wait, run: BoardRun) -> None:
        match wait:
            case Wait.SESSION:
                if run.lease:
                    waited_s = self._farm.now_s - run.lease.began_s
                    self._drop(run, run.lease, f"{run.lease.phase}: no answer after {waited_s:.1f} s")
            case Wait.SILENCE:
                self._health.lose(run, f"it was not heard for {run.board.limits.silence_s:g} s", silent=True)
            case Wait.COOLDOWN:
                self._offer(run)
            case Wait.NEXT_CHECK:
                self._health.check(run, suspect=False, cause=run.cause)
            case Wait.IDLE:
                if run.state is State.READY and run.unconfirmed:
                    self._health.check(run, suspect=False)
