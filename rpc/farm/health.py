"""Which board may be believed: canaries, quarantine, and the way back."""

from __future__ import annotations

import math

from int8tune.rpc.farm.entries import Booted, Calibrated, CanaryJudged
from int8tune.rpc.farm.events import CanaryAnswered, PowerCycle
from int8tune.rpc.farm.evidence import Evidence
from int8tune.rpc.farm.state import BoardRun, CanaryRun, FarmState
from int8tune.rpc.farm.values import Phase, State
from int8tune.rpc.farm.waits import Wait

# What delays are spread by, so that boards that went off together don't come back together.
_SPREAD = 0.1
TOOK_OTHERWISE = "the canary took"
"""How the cause begins where a canary's time is another than its board's is known to be."""


class Health:
    """The state machine of boards.

    ```
    unknown -> checking -> ready <-> busy -> cooling -> ready
                  |          ^         |
                  v          |         v  (a fault, or silence)
         quarantined, lost --+---- suspect -> quarantined, lost
    ```

    A board leaves `checking` and `suspect` by its canary only.
    """

    def __init__(self, farm: FarmState, evidence: Evidence) -> None:
        self._farm = farm
        self._evidence = evidence

    def check(self, run: BoardRun, *, suspect: bool, cause: str = "") -> None:
        """Run the canary on a board that has no session."""
        name = run.board.name
        for wait in (Wait.IDLE, Wait.COOLDOWN, Wait.NEXT_CHECK):
            self._farm.waits.drop(wait, name)
        self._farm.turn(run, State.SUSPECT if suspect else State.CHECKING, cause)
        self._farm.lease(run, None)
        self._listen(run)

    def heard(self, run: BoardRun) -> None:
        """A board that is there; one that was lost for its silence is looked at now."""
        if run.state is State.LOST and run.silent:
            self.check(run, suspect=False, cause="heard again")
        elif self._farm.waits.due_s(Wait.SILENCE, run.board.name) is not None:
            self._listen(run)

    def judge(self, run: BoardRun, canary: CanaryAnswered) -> bool:
        """Take a canary's answer; whether the board may have work."""
        exact, seconds = canary.exact, canary.seconds
        fault = self._fault(run, exact, seconds)
        if exact and self._is_faster(run, seconds):
            return self._judge_faster(run, canary, fault)
        run.faster_s = None
        self._judged(run, seconds, fault)
        if not fault:
            self._note_boot(run, canary.boot)
            self._recover(run, seconds)
            return True
        run.slow += 1
        if exact and run.slow < self._farm.rules.slow_canaries - (not run.healthy):
            self._evidence.void(run, fault, blames=False)
            self.check(run, suspect=True, cause=fault)
        else:
            self.quarantine(run, fault)
        return False

    def _judge_faster(self, run: BoardRun, canary: CanaryAnswered, fault: str) -> bool:
        """Take a canary that is faster than the first one: the next one has to say that the board was disturbed then.

        Without this it would be in quarantine for good, as it never is as slow again.
        """
        faster_s, run.faster_s = run.faster_s, canary.seconds
        agrees = faster_s is not None and self._agree(run, faster_s, canary.seconds)
        self._judged(run, canary.seconds, "" if agrees else fault)
        if faster_s is None:
            self._evidence.void(run, fault, blames=False)
            self.check(run, suspect=True, cause=fault)
            return False
        run.faster_s = None
        if not agrees:
            self.quarantine(run, fault)
            return False
        self._farm.note(Calibrated(run.board.name, canary.seconds))
        self._note_boot(run, canary.boot)
        self._recover(run, canary.seconds)
        return True

    def missed(self, run: BoardRun, phase: Phase, cause: str) -> None:
        """There was no answer of the canary."""
        self._judged(run, 0.0, f"no answer: {cause}")
        if phase is Phase.RUN:
            self.quarantine(run, f"no answer of the canary: {cause}")
        else:
            self.lose(run, cause)

    def quarantine(self, run: BoardRun, cause: str, *, blames: bool = False) -> None:
        """Take a board off that is not to be believed; what it answered since its last good canary is void."""
        self._take_off(run, State.QUARANTINED, cause)
        self._evidence.void(run, cause, blames=blames)
        # Where no other board could say whether these candidates are guilty, the next look is always soon.
        self._plan_next(run, self._farm.rules.first_delay_s, grows=not run.off_for_streak or self._has_peers(run))

    def lose(self, run: BoardRun, cause: str, *, silent: bool = False) -> None:
        """Take a board off that can't be reached.

        When it comes back it may have been restarted, and well because of that: a good canary then says nothing of
        what it answered before.
        """
        run.silent = silent
        self._take_off(run, State.LOST, cause)
        self._evidence.void(run, cause, blames=False)
        self._plan_next(run, self._farm.rules.lost_delay_s, grows=True)

    def _judged(self, run: BoardRun, seconds: float, fault: str) -> None:
        """Keep what a canary said; a board may say anything of its time."""
        seconds = seconds if 0 <= seconds < math.inf else 0.0
        run.canary = CanaryRun(self._farm.now_s, seconds, fault)
        self._farm.note(CanaryJudged(run.board.name, seconds, fault))

    def _take_off(self, run: BoardRun, state: State, cause: str) -> None:
        farm, name = self._farm, run.board.name
        fence = run.lease.fence if run.lease else 0
        trial = farm.end_lease(run, cancel=True)
        run.healthy, run.slow, run.good, run.since_canary = False, 0, 0, 0
        for wait in (Wait.SILENCE, Wait.IDLE, Wait.COOLDOWN):
            farm.waits.drop(wait, name)
        farm.turn(run, state, cause)
        if trial:
            self._evidence.not_measured(run, fence, trial, cause, counts=state is State.LOST)
        for target, tags in farm.queues.demand:
            if target == run.board.target:
                farm.watch_demand(target, tags)

    def _plan_next(self, run: BoardRun, delay_s: float, *, grows: bool) -> None:
        farm, rules = self._farm, self._farm.rules
        delay_s = min(delay_s * 2.0 ** min(run.offences, 60), rules.longest_delay_s)
        if run.board.power_cycle and run.offences >= rules.power_cycle_after:
            self._power_cycle(run)
        run.offences += grows
        farm.waits.set(Wait.NEXT_CHECK, run.board.name, farm.now_s + delay_s * (1 + _SPREAD * farm.jitter()))

    def _power_cycle(self, run: BoardRun) -> None:
        """Switch a board off and on, unless it may still be starting after the last time."""
        now_s = self._farm.now_s
        if run.cycled_s is None or now_s >= run.cycled_s + self._farm.rules.power_cycle_rest_s:
            run.cycled_s = now_s
            self._farm.order(PowerCycle(run.board.name))

    def _note_boot(self, run: BoardRun, boot: str) -> None:
        """A board that was started anew since its last good canary may have been ill before: that says nothing."""
        name = run.board.name
        known = self._farm.ledger.boots.get(name, "")
        if not boot or boot == known:
            return
        if known:
            self._evidence.void(run, "the board was started anew after it", blames=False)
        self._farm.note(Booted(name, boot))

    def _recover(self, run: BoardRun, seconds: float) -> None:
        farm, name = self._farm, run.board.name
        if self._known_s(run) is None:
            farm.note(Calibrated(name, seconds))
        if not run.healthy:
            run.streak.clear()
            run.accused.clear()
            run.off_for_streak = False
        if run.state is State.CHECKING and run.since_canary:
            run.good += 1
            run.offences = 0 if run.good >= farm.rules.forgive_after else run.offences
        run.healthy, run.slow, run.since_canary = True, 0, 0
        for target, tags in farm.queues.demand:
            if target == run.board.target and tags <= run.board.tags:
                farm.waits.drop(Wait.BOARD, (target, tags))
        self._evidence.confirm(run)

    def _fault(self, run: BoardRun, exact: bool, seconds: float) -> str:
        """What is wrong with a canary's answer; nothing where it is good."""
        known_s = self._known_s(run)
        if not exact:
            return "the canary's values were wrong"
        if not (math.isfinite(seconds) and seconds > 0):
            return f"the canary's time is no time: {seconds}"
        if known_s is not None and not self._agree(run, known_s, seconds):
            return f"{TOOK_OTHERWISE} {seconds / known_s:.2f} times what it takes"
        return ""

    def _agree(self, run: BoardRun, known_s: float, seconds: float) -> bool:
        own = run.board.canary_tolerance
        most = 1 + (self._farm.rules.canary_tolerance if own is None else own)
        return known_s / most <= seconds <= known_s * most

    def _is_faster(self, run: BoardRun, seconds: float) -> bool:
        """Whether the canary took much less than the first one did, where nobody says what it takes."""
        known_s = self._farm.ledger.canaries_s.get(run.board.name)
        if run.board.canary_s is not None or known_s is None:
            return False
        return 0 < seconds < known_s and not self._agree(run, known_s, seconds)

    def _known_s(self, run: BoardRun) -> float | None:
        known_s = run.board.canary_s
        return self._farm.ledger.canaries_s.get(run.board.name) if known_s is None else known_s

    def _has_peers(self, run: BoardRun) -> bool:
        return bool(self._farm.matching(run.board.target, frozenset()))

    def _listen(self, run: BoardRun) -> None:
        silence_s = run.board.limits.silence_s
        if silence_s is not None:
            self._farm.waits.set(Wait.SILENCE, run.board.name, self._farm.now_s + silence_s)
