"""One request, from its arrival to its reply: verify every program bit for bit, time them, verify once more."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time

from int8tune.results.record import Outcome
from int8tune.rpc.errors import ProtocolError
from int8tune.rpc.local.arena import Arena
from int8tune.rpc.local.capabilities import frequency_hz
from int8tune.rpc.local.cases import open_cases
from int8tune.rpc.local.child import Child, ChildEndedError
from int8tune.rpc.local.worker import Job, Worker
from int8tune.rpc.protocol import Timed, timed_from_json
from int8tune.rpc.request import KILLED, Reply, Request
from int8tune.rpc.session.judging import FailedError, failed_reply, observed, place_of, steadiest
from int8tune.rpc.wire.fields import Fields, line, text
from int8tune.rpc.wire.npy import CaseError


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """What every session of a server has in common.

    Attributes:
        tuner: descriptor of the connection to the tuner; a session ends when the tuner closes it.
        core: the first of the cores that kernels run on, if they are bound to some.
    """

    tuner: int
    core: int | None
    memory_limit_bytes: int


def measure(request: Request, bench: Bench, arrived_at: float) -> Reply:
    """Run one request in a child of its own, which is gone with all it started when this returns.

    The error classes are `CaseUnreadable` and `ProbeFailed` (the device's or the tuner's fault: `device_lost`),
    `HashMismatch`, `WrongValues`, `OutOfBounds`, `Crash`, `Killed` (a SIGKILL from outside), `Timeout`, `BadAnswer`,
    and the name of a Python exception.

    Raises:
        DeviceLostError: the tuner closed the connection.
        LeftoverError: something the child started could not be ended.
    """
    try:
        job = _job(request, arrived_at + request.run_limit_s)
        with contextlib.closing(Child(Worker(job).serve, bench.memory_limit_bytes)) as child:
            reply = _Session(request, job, child, bench).run()
    except (CaseError, FailedError) as error:
        reply = failed_reply(error)
    return dataclasses.replace(reply, run_s=time.monotonic() - arrived_at)


class _Session:
    def __init__(self, request: Request, job: Job, child: Child, bench: Bench) -> None:
        self._request = request
        self._job = job
        self._child = child
        self._bench = bench
        self._salts = itertools.count()

    def run(self) -> Reply:
        self._check_probe()
        self._ask("load", "while loading")
        for program, (_, cases) in enumerate(self._job.programs):
            for case in range(len(cases)):
                self._verify(program, case)
        timed, timings = steadiest(self._time_once, self._request.timing.most_drift)
        seen = observed(timed, timings, os.getloadavg()[0], frequency_hz(self._bench.core))
        for program in range(len(self._job.programs)):
            self._verify(program, 0, " after timing")
        return Reply(Outcome.OK, timed.times_s, timed.calls_per_repeat, seen)

    def _check_probe(self) -> None:
        """What goes wrong before any candidate has run is no candidate's fault."""
        if self._request.probe is None:
            return
        try:
            self._ask("probe", "in the probe")
        except FailedError as error:
            raise FailedError(Outcome.DEVICE_LOST, "ProbeFailed", str(error)) from error

    def _verify(self, program: int, case: int, when: str = "") -> None:
        place = place_of(program, len(self._job.programs), case, when)
        expected = self._job.programs[program][1][case].expected
        salt = next(self._salts)
        self._job.arena.prepare(expected.nbytes, salt)
        self._ask("run", f"in {place}", program, case)
        fault = self._job.arena.fault(expected, salt)
        if fault:
            raise FailedError(Outcome.WRONG_ANSWER, fault.error_class, f"{place}: {fault.text}")

    def _time_once(self) -> Timed:
        answer = self._ask("time", "while timing")
        try:
            return timed_from_json(answer, self._request)
        except ProtocolError as error:
            raise FailedError(Outcome.RUN_FAILED, "BadAnswer", f"answered nonsense while timing: {error}") from error

    def _ask(self, command: str, place: str, program: int = 0, case: int = 0) -> object:
        message = {"do": command, "program": program, "case": case}
        try:
            answer = self._child.ask(message, self._job.deadline, self._bench.tuner)
            if "failed" not in answer:
                return Fields("", answer, ("done",)).read("done", lambda _, value: value)
            failed = Fields("failed", answer["failed"], ("error_class", "error"))
            error_class, error_text = failed.read("error_class", line), failed.read("error", text)
        except TimeoutError as error:
            limit = f"not done within {self._request.run_limit_s:g} s: stopped {place}"
            raise FailedError(Outcome.RUN_TIMEOUT, "Timeout", limit) from error
        except ChildEndedError as error:
            error_class = KILLED if error.was_killed else "Crash"
            raise FailedError(Outcome.RUN_FAILED, error_class, f"{place}: {error}") from error
        except ProtocolError as error:
            raise FailedError(Outcome.RUN_FAILED, "BadAnswer", f"{place}: {error}") from error
        raise FailedError(Outcome.RUN_FAILED, error_class, f"{place}: {error_text}")


def _job(request: Request, deadline: float) -> Job:
    programs = [(program, open_cases(program)) for program in request.programs]
    probe = (request.probe, open_cases(request.probe)) if request.probe else None
    outputs = [arrays.expected.nbytes for _, cases in (*programs, *filter(None, [probe])) for arrays in cases]
    return Job(programs, probe, request.timing, Arena(max(outputs)), deadline)
