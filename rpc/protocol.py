"""Requests, replies and capabilities as JSON values, and back.

What comes back is checked field by field, as nothing that a device says is trusted; every `..._from_json` raises
`ProtocolError` with the field that is wrong.
"""

from __future__ import annotations

import dataclasses

from int8tune.results.record import Outcome
from int8tune.rpc.errors import ProtocolError
from int8tune.rpc.request import Capabilities, Case, Cold, Program, Reply, Request, Timing
from int8tune.rpc.wire.fields import Fields, integer, line, many, number, optional, positive, table, text

VERSION = 1
"""Version of the messages between a transport and its server."""

LONGEST_RUN_S = 86_400.0
_MOST_REPEATS = 10_000
_MOST_CALLS = 10**12
_LARGEST_SHARE = 100.0
_MOST_COLD_BYTES = 1 << 30
# An agent takes the positions of inputs as the bits of an integer.
_LAST_INPUT = 62
_NO_CANDIDATE_OUTCOMES = frozenset({Outcome.REJECTED, Outcome.BUILD_FAILED, Outcome.BUILD_TIMEOUT})


def request_to_json(request: Request) -> dict[str, object]:
    return dataclasses.asdict(request)


def request_from_json(message: object) -> Request:
    fields = Fields("", message, _names(Request))
    programs = fields.read("programs", many(program_from_json))
    if not programs:
        raise ProtocolError("field `programs` must have at least one program: []")
    return Request(
        programs=programs,
        timing=fields.read("timing", _timing),
        run_limit_s=fields.read("run_limit_s", number(0.001, LONGEST_RUN_S)),
        probe=fields.read("probe", optional(program_from_json)),
    )


def reply_to_json(reply: Reply) -> dict[str, object]:
    return {name: getattr(reply, name) for name in _names(Reply)} | {"observed": dict(reply.observed)}


def reply_from_json(message: object, request: Request | None) -> Reply:
    """The answer to `request`, with times for each of its programs if and only if it is `ok`; None: to any request."""
    fields = Fields("", message, _names(Reply))
    reply = Reply(
        outcome=fields.read("outcome", _outcome),
        times_s=fields.read("times_s", many(many(positive))),
        calls_per_repeat=fields.read("calls_per_repeat", many(integer(1, _MOST_CALLS))),
        observed=fields.read("observed", table(number(0, 1e15))),
        error_class=fields.read("error_class", line),
        error=fields.read("error", line),
        run_s=fields.read("run_s", number(0, 2 * LONGEST_RUN_S)),
        boot=fields.read("boot", line),
    )
    if request is not None:
        _check_counts(reply.times_s, reply.calls_per_repeat, request if reply.outcome is Outcome.OK else None)
    return reply


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """What a session says after it has timed its programs. The probe's times are seconds per call.

    Attributes:
        void: repeats that another process interrupted, and that were made again.
    """

    times_s: tuple[tuple[float, ...], ...]
    calls_per_repeat: tuple[int, ...]
    void: int
    probe_before_s: float | None
    probe_after_s: float | None

    @property
    def drift(self) -> float:
        """The share by which the probe's time changed, 0 without a probe."""
        if self.probe_before_s is None or self.probe_after_s is None:
            return 0.0
        return max(self.probe_before_s, self.probe_after_s) / min(self.probe_before_s, self.probe_after_s) - 1


def timed_from_json(message: object, request: Request) -> Timed:
    fields = Fields("", message, _names(Timed))
    probe_time = optional(positive) if request.probe is None else positive
    timed = Timed(
        times_s=fields.read("times_s", many(many(positive))),
        calls_per_repeat=fields.read("calls_per_repeat", many(integer(1, _MOST_CALLS))),
        void=fields.read("void", integer(0, _MOST_CALLS)),
        probe_before_s=fields.read("probe_before_s", probe_time),
        probe_after_s=fields.read("probe_after_s", probe_time),
    )
    _check_counts(timed.times_s, timed.calls_per_repeat, request)
    return timed


def capabilities_to_json(capabilities: Capabilities) -> dict[str, object]:
    return dataclasses.asdict(capabilities) | {"features": sorted(capabilities.features)}


def capabilities_from_json(message: object) -> Capabilities:
    fields = Fields("", message, _names(Capabilities))
    return Capabilities(
        architecture=fields.read("architecture", line),
        cpu=fields.read("cpu", line),
        llvm_cpu=fields.read("llvm_cpu", line),
        llvm_triple=fields.read("llvm_triple", line),
        features=frozenset(fields.read("features", many(line))),
        cores=fields.read("cores", many(integer(0, 1 << 16))),
        cache_bytes=fields.read("cache_bytes", table(integer(1, 1 << 40))),
        environment=fields.read("environment", table(line)),
    )


def program_from_json(place: str, value: object) -> Program:
    fields = Fields(place, value, _names(Program))
    program = Program(
        library=fields.read("library", text),
        sha256=fields.read("sha256", text),
        entry=fields.read("entry", text),
        cases=fields.read("cases", many(_case)),
    )
    if not program.cases:
        raise ProtocolError(f"field `{place}.cases` must have at least one case: []")
    return program


def _case(place: str, value: object) -> Case:
    fields = Fields(place, value, _names(Case))
    return Case(inputs=fields.read("inputs", many(text)), expected=fields.read("expected", text))


def _timing(place: str, value: object) -> Timing:
    fields = Fields(place, value, _names(Timing))
    share = optional(number(0, _LARGEST_SHARE))
    return Timing(
        repeats=fields.read("repeats", integer(1, _MOST_REPEATS)),
        min_repeat_s=fields.read("min_repeat_s", number(0, LONGEST_RUN_S)),
        least_repeats=fields.read("least_repeats", integer(1, _MOST_REPEATS)),
        give_up_s=fields.read("give_up_s", optional(positive)),
        min_gain=fields.read("min_gain", share),
        most_drift=fields.read("most_drift", share),
        cold=fields.read("cold", optional(_cold)),
    )


def _cold(place: str, value: object) -> Cold:
    fields = Fields(place, value, _names(Cold))
    return Cold(
        least_bytes=fields.read("least_bytes", integer(1, _MOST_COLD_BYTES)),
        inputs=fields.read("inputs", many(integer(0, _LAST_INPUT))),
    )


def _outcome(place: str, value: object) -> Outcome:
    known = [outcome.value for outcome in Outcome if outcome not in _NO_CANDIDATE_OUTCOMES]
    if value not in known:
        raise ProtocolError(f"field `{place}` must be one of {', '.join(known)}: {str(value)[:60]}")
    return Outcome(value)


def _check_counts(times_s: tuple[tuple[float, ...], ...], calls: tuple[int, ...], request: Request | None) -> None:
    programs = len(request.programs) if request else 0
    for name, count in (("times_s", len(times_s)), ("calls_per_repeat", len(calls))):
        if count != programs:
            raise ProtocolError(f"field `{name}` must have {programs} items: {count}")
    if request is None:
        return
    fewest, most = request.timing.fewest, request.timing.repeats
    allowed = f"{most}" if fewest == most else f"{fewest} to {most}"
    for index, repeats in enumerate(times_s):
        if not fewest <= len(repeats) <= most:
            raise ProtocolError(f"field `times_s[{index}]` must have {allowed} items: {len(repeats)}")
        if len(repeats) != len(times_s[0]):
            raise ProtocolError(
                f"field `times_s[{index}]` must have {len(times_s[0])} items as the first: {len(repeats)}"
            )


def _names(value_class: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(value_class))
