"""One request on a board behind an agent: its cases sent, its programs verified by digests, timed, verified again.

It goes as on this machine (`rpc.local.session`), in few round trips: what depends on no answer is sent at once. What
the board says is checked: outputs by digests of the oracle's, which the board does not know, times by their form.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from int8tune.results.record import Outcome
from int8tune.rpc.agent.link import AgentLink
from int8tune.rpc.board.calls import BoardCalls, Ran
from int8tune.rpc.board.cases import BoardCase, BoardCases
from int8tune.rpc.board.gpu import gpu_state
from int8tune.rpc.board.timing import BoardTiming
from int8tune.rpc.protocol import Timed
from int8tune.rpc.request import Cold, Program, Reply, Request
from int8tune.rpc.session.faults import Fault, guard_fault, value_fault
from int8tune.rpc.session.judging import FailedError, failed_reply, observed, place_of, steadiest
from int8tune.rpc.session.timing import PROBE_REPEAT_S
from int8tune.rpc.wire.npy import CaseError

# After the board's own limit: its word that a session was late comes first.
_PATIENCE_S = 3.0
_END_LIMIT_S = 8.0
_LARGEST_OBSERVED = 1e12


@dataclasses.dataclass(slots=True)
class BoardBench:
    """What all sessions with one agent have in common.

    Attributes:
        boot: which start of the board's system this is.
        there: digests of the cases that are on the board.
        transfer_limit_s: to send the cases of a request that are not.
    """

    link: AgentLink
    cases: BoardCases
    transfer_limit_s: float
    boot: str = ""
    there: set[bytes] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """A program with what a session sends of it."""

    program: Program
    cases: tuple[BoardCase, ...]
    library: bytes


def measure_on_board(request: Request, bench: BoardBench, arrived_at: float) -> Reply:
    """Run one request in a session of its own, of which nothing is left on the board when this returns.

    The error classes are those of `rpc.local.session.measure`, and `CaseMissing`, `NoRoom`: the board's fault.

    Raises:
        DeviceLostError: the board is silent or gone, or its agent left.
    """
    try:
        programs = [_load(program, bench.cases) for program in request.programs]
        probe = _load(request.probe, bench.cases) if request.probe else None
        _send_cases([*programs, *filter(None, [probe])], bench)
        reply = _BoardSession(request, programs, probe, bench.link).run()
    except (CaseError, FailedError) as error:
        if isinstance(error, FailedError) and error.outcome is Outcome.DEVICE_LOST:
            bench.there.clear()
        reply = failed_reply(error)
    return dataclasses.replace(reply, run_s=time.monotonic() - arrived_at, boot=bench.boot)


def _load(program: Program, cases: BoardCases) -> Loaded:
    """The library as it is now: whether it is the one that was built is the board's to see."""
    try:
        library = Path(program.library).read_bytes()
    except OSError as error:
        raise FailedError(Outcome.RUN_FAILED, type(error).__name__, f"while loading: {error}") from error
    return Loaded(program, cases.read(program), library)


def _send_cases(programs: Sequence[Loaded], bench: BoardBench) -> None:
    """Put those cases on the board that are not there."""
    deadline = time.monotonic() + bench.transfer_limit_s
    arrays = {
        digest: values
        for loaded in programs
        for case in loaded.cases
        for digest, values in case.inputs
        if digest not in bench.there
    }
    if not arrays:
        return
    for digest in bench.link.missing(arrays, deadline):
        bench.link.upload(digest, bytes(arrays[digest].content), deadline)
    bench.there.update(arrays)


class _BoardSession:
    def __init__(self, request: Request, programs: Sequence[Loaded], probe: Loaded | None, link: AgentLink) -> None:
        self._request = request
        self._programs = programs
        self._probe = probe
        # The board numbers programs as they are loaded: the probe, if there is one, is 0.
        self._first = 0 if probe is None else 1
        self._probe_calls = 0
        self._link = link
        self._calls = BoardCalls(link, request.run_limit_s, time.monotonic() + request.run_limit_s + _PATIENCE_S)
        self._salts = itertools.count()
        self._device_state: dict[str, float] = {}

    def run(self) -> Reply:
        """A session is ended whatever came of it; only with a link that is lost, nobody waits for that."""
        try:
            timed, timings = self._measure()
        except FailedError:
            self._link.end_session(time.monotonic() + _END_LIMIT_S)
            raise
        self._link.end_session(time.monotonic() + _END_LIMIT_S)
        state = self._link.state(time.monotonic() + _END_LIMIT_S)
        return Reply(
            Outcome.OK, timed.times_s, timed.calls_per_repeat, _observed(timed, timings, state) | self._device_state
        )

    def _measure(self) -> tuple[Timed, int]:
        self._calls.begin()
        self._check_probe()
        self._load_and_verify()
        timed = steadiest(self._time_once, self._request.timing.most_drift)
        self._calls.put("state")
        for program in range(len(self._programs)):
            self._put_run(program, 0)
        self._calls.flush()
        self._device_state = gpu_state(self._calls.done("after timing"))
        for program in range(len(self._programs)):
            self._judge(program, 0, " after timing")
        return timed

    def _check_probe(self) -> None:
        """What goes wrong before any candidate has run is no candidate's fault."""
        if self._probe is None:
            return
        try:
            self._put_load(self._probe, 0)
            self._calls.put("calls", 0, PROBE_REPEAT_S, math.inf)
            self._calls.flush()
            self._loaded(self._probe, "in the probe")
            self._probe_calls, _ = self._calls.calls("in the probe")
        except FailedError as error:
            raise FailedError(Outcome.DEVICE_LOST, "ProbeFailed", str(error)) from error

    def _load_and_verify(self) -> None:
        """Everything is sent at once and judged in order."""
        places = [(index, case) for index, loaded in enumerate(self._programs) for case in range(len(loaded.cases))]
        for index, loaded in enumerate(self._programs):
            self._put_load(loaded, self._first + index)
        for place in places:
            self._put_run(*place)
        self._calls.flush()
        for loaded in self._programs:
            self._loaded(loaded, "while loading")
        for left, place in zip(reversed(range(len(places))), places, strict=True):
            self._judge(*place, runs_to_come=left)

    def _put_load(self, loaded: Loaded, index: int) -> None:
        program = loaded.program
        self._calls.put("load", loaded.library, program.sha256, program.entry)
        for case in loaded.cases:
            self._calls.put("add_case", index, len(case.inputs), case.description)
        self._calls.put(
            "set_cold", index, *_cold_arguments(None if loaded is self._probe else self._request.timing.cold)
        )

    def _loaded(self, loaded: Loaded, place: str) -> None:
        for _ in range(len(loaded.cases) + 2):
            self._calls.done(place)

    def _put_run(self, program: int, case: int) -> None:
        self._calls.put("run", self._first + program, case, next(self._salts))

    def _judge(self, program: int, case: int, when: str = "", runs_to_come: int = 0) -> None:
        place = place_of(program, len(self._programs), case, when)
        expected = self._programs[program].cases[case]
        ran = self._calls.ran(f"in {place}")
        if ran.changed:
            fault = guard_fault(expected.expected.content.nbytes, ran.changed, ran.first)
        elif ran.digest != expected.expected_digest:
            fault = self._value_fault(program, case, ran, runs_to_come)
        else:
            return
        raise FailedError(Outcome.WRONG_ANSWER, fault.error_class, f"{place}: {fault.text}")

    def _value_fault(self, program: int, case: int, ran: Ran, runs_to_come: int) -> Fault:
        """Which values differ; other runs may have overwritten them, and are made good for then."""
        unknown = Fault("WrongValues", "values differ, and could not be looked at")
        expected = self._programs[program].cases[case].expected
        try:
            if runs_to_come:
                for _ in range(runs_to_come):
                    self._calls.ran("in another case")
                self._put_run(program, case)
                self._calls.flush()
                ran = self._calls.ran("in the same case")
            self._calls.put("output")
            self._calls.flush()
            output = self._calls.output(ran, "its output")
        except FailedError:
            return unknown
        if len(output) != expected.content.nbytes:
            return unknown
        return value_fault(output, expected) or Fault("WrongValues", "values differ, and did not when it ran again")

    def _time_once(self) -> Timed:
        return BoardTiming(self._calls, self._request, self._first, self._probe_calls).run()


def _cold_arguments(cold: Cold | None) -> tuple[int, int]:
    """Bytes, and the positions of inputs as bits; the agent takes 0 bytes for calls that share all, no bit for all."""
    return (0, 0) if cold is None else (cold.least_bytes, sum(1 << position for position in set(cold.inputs)))


def _observed(timed: Timed, timings: int, state: Mapping[str, str]) -> dict[str, float]:
    khz = _number(state.get("frequency_khz", ""))
    load_1min = _number(state.get("load", "").partition(" ")[0])
    return observed(timed, timings, load_1min, None if khz is None else khz * 1e3)


def _number(written: str) -> float | None:
    """A number that a board wrote; None where it is none, or has an impossible size."""
    try:
        value = float(written)
    except ValueError:
        return None
    return value if 0 <= value < _LARGEST_OBSERVED else None
