"""The functions of a board's agent, called in a session: sent many at a time, answered in order."""

from __future__ import annotations

import hashlib
import signal
import struct
from dataclasses import dataclass
from typing import Any

from int8tune.results.record import Outcome
from int8tune.rpc.agent.link import AgentLink
from int8tune.rpc.errors import DeviceLostError, ProtocolError, SessionEndedError
from int8tune.rpc.process import processes
from int8tune.rpc.request import KILLED
from int8tune.rpc.session.judging import FailedError
from int8tune.rpc.wire.tvm_packets import Answers, Argument, RemoteFailure, Result, begin_session, call, find_function

_FUNCTIONS = ("load", "add_case", "run", "output", "calls", "time", "state", "set_cold")
# What is no candidate's fault, whatever it was that ran.
_BOARDS_FAULTS = frozenset({"CaseMissing", "NoRoom", "GpuUnusable"})
_RUN = struct.Struct("<32sqq")
_CALLS = struct.Struct("<qq")
_TURN = struct.Struct("<qq")


@dataclass(frozen=True, slots=True)
class Ran:
    """What the agent says of a call: the output's digest, the guard bytes that changed, where the first of them is."""

    digest: bytes
    changed: int
    first: int


class BoardCalls:
    """One session's calls.

    Methods that send return nothing; those that read an answer take the place that a failure's text names, and raise
    `FailedError` for what a candidate does: it crashes, is late, raises or answers nonsense.
    """

    def __init__(self, link: AgentLink, run_limit_s: float, deadline: float) -> None:
        self._link = link
        self._run_limit_s = run_limit_s
        self._deadline = deadline
        self._answers = Answers()
        self._handles: dict[str, int] = {}
        self._packets: list[bytes] = []

    def begin(self) -> None:
        """Begin the session and look its functions up.

        Raises:
            DeviceLostError: the agent did none of it.
        """
        self._link.open(self._run_limit_s, self._deadline)
        self._packets += [begin_session(), *(find_function(f"int8tune.{name}") for name in _FUNCTIONS)]
        self.flush()
        try:
            handles = [self._answer("before anything ran") for _ in range(len(_FUNCTIONS) + 1)][1:]
        except FailedError as error:
            raise DeviceLostError(f"the board began no session: {error}") from error
        for name, handle in zip(_FUNCTIONS, handles, strict=True):
            if not isinstance(handle, int):
                raise DeviceLostError(f"the board's agent has no function `{name}`")
            self._handles[name] = handle

    def put(self, function: str, *arguments: Argument) -> None:
        """Have a call sent with those that follow."""
        self._packets.append(call(self._handles[function], *arguments))

    def put_turns(self, turns: list[tuple[int, int]]) -> None:
        """Have programs timed in this order, each so many calls."""
        self.put("time", b"".join(_TURN.pack(*turn) for turn in turns))

    def flush(self) -> None:
        packets, self._packets = self._packets, []
        self._link.send(b"".join(packets), self._deadline)

    def done(self, place: str) -> bytes:
        """What the next call returned."""
        answer = self._answer(place)
        if not isinstance(answer, bytes) or answer[:1] not in (b"\0", b"\1"):
            raise FailedError(Outcome.RUN_FAILED, "BadAnswer", f"{place}: answered nonsense: {str(answer)[:60]}")
        if answer[:1] == b"\0":
            return answer[1:]
        error_class, _, text = answer[1:].decode(errors="replace").partition("\n")
        outcome = Outcome.DEVICE_LOST if error_class in _BOARDS_FAULTS else Outcome.RUN_FAILED
        raise FailedError(outcome, error_class, f"{place}: {text}")

    def ran(self, place: str) -> Ran:
        """What the next call, a run, returned."""
        return Ran(*_unpacked(_RUN, self.done(place), place))

    def output(self, run: Ran, place: str) -> bytes:
        """What the next call, for the output of that run, returned."""
        output = self.done(place)
        if hashlib.sha256(output).digest() != run.digest:
            raise FailedError(Outcome.RUN_FAILED, "BadAnswer", f"{place}: an output has another digest than was said")
        return output

    def calls(self, place: str) -> tuple[int, int]:
        """What the next call, a calibration, returned: how many calls, and how many repeats were void."""
        calls, void = _unpacked(_CALLS, self.done(place), place)
        if calls < 1:
            raise FailedError(Outcome.RUN_FAILED, "BadAnswer", f"{place}: a repeat must have a call: {calls}")
        return calls, void

    def times(self, count: int, place: str) -> tuple[tuple[float, ...], int]:
        """What the next call, of so many turns, returned: seconds per call of each, and how many repeats were void."""
        *times_s, void = _unpacked(struct.Struct(f"<{count}dq"), self.done(place), place)
        return tuple(times_s), void

    def _answer(self, place: str) -> Result:
        try:
            while (answer := self._answers.next()) is ...:
                self._answers.feed(self._link.receive(self._deadline))
        except ProtocolError as error:
            raise FailedError(Outcome.RUN_FAILED, "BadAnswer", f"{place}: {error}") from error
        except SessionEndedError as error:
            raise self._ended(error, place) from error
        except TimeoutError as error:
            raise DeviceLostError("the board's agent did not end a session that was late") from error
        if isinstance(answer, RemoteFailure):
            raise FailedError(Outcome.RUN_FAILED, "BadAnswer", f"{place}: {answer.text}")
        return answer

    def _ended(self, end: SessionEndedError, place: str) -> FailedError:
        """The outcome of a session that ended before it answered."""
        how, _, number = end.how.partition(" ")
        if how == "deadline" and self._link.was_silent:
            return FailedError(Outcome.DEVICE_LOST, "LinkSilent", f"{place}: its link was silent until it was too late")
        if how == "deadline":
            limit = f"not done within {self._run_limit_s:g} s: stopped {place}"
            return FailedError(Outcome.RUN_TIMEOUT, "Timeout", limit)
        if how == "signal" and number.isdigit() and int(number) == signal.SIGXCPU:
            return FailedError(Outcome.RUN_TIMEOUT, "Timeout", f"used all of its time: stopped {place}")
        words = {"signal": -1, "exited": 1}
        error_class = "Crash"
        if how in words and number.isdigit():
            code = words[how] * int(number)
            # Where the agent itself kills a session, it gives its reason instead.
            error_class = KILLED if processes.was_killed(code) else "Crash"
            ended = processes.how_it_ended(code)
            ended += " before it answered" if how == "exited" else ""
        else:
            ended = f"{end.how} before it answered"
        return FailedError(Outcome.RUN_FAILED, error_class, ": ".join(filter(None, [f"{place}: {ended}", end.errors])))


def _unpacked(form: struct.Struct, answer: bytes, place: str) -> tuple[Any, ...]:
    if len(answer) != form.size:
        raise FailedError(
            Outcome.RUN_FAILED, "BadAnswer", f"{place}: an answer must have {form.size} bytes: {len(answer)}"
        )
    return form.unpack(answer)
