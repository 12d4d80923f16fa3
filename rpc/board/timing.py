"""How programs are timed on a board: as `rpc.session.timing` does it here, a block of repeats for each round trip."""

from __future__ import annotations

from int8tune.results.record import Outcome
from int8tune.rpc.board.calls import BoardCalls
from int8tune.rpc.errors import ProtocolError
from int8tune.rpc.protocol import Timed, timed_from_json
from int8tune.rpc.request import Request
from int8tune.rpc.session.judging import FailedError
from int8tune.rpc.session.timing import PROBE_REPEATS, SHORTEST_REPEAT_S, is_over, next_look, slow_call_s

_PLACE = "while timing"


class BoardTiming:
    """One timing of a request's programs, the first of which the board knows by the number `first`.

    The probe, if the request has one, is number 0; `probe_calls` make a repeat of it.
    """

    def __init__(self, calls: BoardCalls, request: Request, first: int, probe_calls: int) -> None:
        self._calls = calls
        self._request = request
        self._timing = request.timing
        self._first = first
        self._probe = [(0, probe_calls)] * (PROBE_REPEATS if request.probe else 0)
        self._times_s: list[list[float]] = [[] for _ in request.programs]
        self._void = 0

    def run(self) -> Timed:
        """Calibrate, then time the programs in turn, just after and before the probe."""
        repeats = self._calibrate()
        before_s, after_s, done = None, None, 0
        while done < self._timing.repeats and not (done and is_over(self._times_s, self._timing)):
            until = next_look(done, self._timing)
            before, after_s = self._block(done, until, repeats)
            before_s = before_s or before
            done = until
        if self._probe and after_s is None:
            after_s = min(self._time(self._probe))
        return self._checked(repeats, before_s, after_s)

    def _calibrate(self) -> tuple[int, ...]:
        """How many calls of each program make a repeat."""
        least_s = max(self._timing.min_repeat_s, SHORTEST_REPEAT_S)
        for index in range(len(self._times_s)):
            self._calls.put("calls", self._first + index, least_s, slow_call_s(self._timing))
        self._calls.flush()
        calibrated = [self._calls.calls(_PLACE) for _ in self._times_s]
        self._void = sum(void for _, void in calibrated)
        return tuple(calls for calls, _ in calibrated)

    def _block(self, done: int, until: int, repeats: tuple[int, ...]) -> tuple[float | None, float | None]:
        """Repeats `done` to `until`; the probe's times before the first one and after the last one."""
        order = list(range(len(repeats)))
        turns = [index for turn in range(done, until) for index in (order[::-1] if turn % 2 else order)]
        first = self._probe if done == 0 else []
        last = self._probe if until == self._timing.repeats else []
        measured = self._time([*first, *((self._first + index, repeats[index]) for index in turns), *last])
        for index, time_s in zip(turns, measured[len(first) :], strict=False):
            self._times_s[index].append(time_s)
        before_s, after_s = measured[: len(first)], measured[len(first) + len(turns) :]
        return min(before_s, default=None), min(after_s, default=None)

    def _time(self, turns: list[tuple[int, int]]) -> tuple[float, ...]:
        self._calls.put_turns(turns)
        self._calls.flush()
        times_s, void = self._calls.times(len(turns), _PLACE)
        self._void += void
        return times_s

    def _checked(self, repeats: tuple[int, ...], before_s: float | None, after_s: float | None) -> Timed:
        message = {
            "times_s": self._times_s,
            "calls_per_repeat": list(repeats),
            "void": self._void,
            "probe_before_s": before_s,
            "probe_after_s": after_s,
        }
        try:
            return timed_from_json(message, self._request)
        except ProtocolError as error:
            raise FailedError(Outcome.RUN_FAILED, "BadAnswer", f"answered nonsense {_PLACE}: {error}") from error
