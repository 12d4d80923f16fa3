"""Messages: framing, and the strict reading of what comes back."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceLostError, ProtocolError
from int8tune.rpc.protocol import (
    capabilities_from_json,
    capabilities_to_json,
    reply_from_json,
    reply_to_json,
    request_from_json,
    request_to_json,
    timed_from_json,
)
from int8tune.rpc.request import Capabilities, Case, Program, Reply, Request, Timing
from int8tune.rpc.wire import framing

PROGRAM = Program("/k.so", "ab" * 32, "main", (Case(("/a.npy", "/b.npy"), "/c.npy"),))
REQUEST = Request((PROGRAM, PROGRAM), Timing(repeats=2, min_repeat_s=0.002), run_limit_s=10.0, probe=PROGRAM)
REPLY = Reply(Outcome.OK, ((1e-6, 2e-6), (3e-6, 4e-6)), (10, 20), {"load_1min": 0.5}, run_s=0.1)
TIMED = {
    "times_s": [[1e-6, 2e-6], [3e-6, 4e-6]],
    "calls_per_repeat": [10, 20],
    "void": 3,
    "probe_before_s": 1e-6,
    "probe_after_s": 1e-6,
}
CAPABILITIES = Capabilities(
    "aarch64",
    "A53",
    "cortex-a53",
    "aarch64-linux-gnu",
    frozenset({"asimd", "fp"}),
    (0, 3),
    {"L1": 32768},
    {"tvm": "0.27"},
)
positives = st.floats(min_value=1e-12, max_value=1e6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def soon(seconds: float = 0.2) -> float:
    return time.monotonic() + seconds


def timing(**changed: object) -> dict[str, object]:
    return asdict(Timing()) | changed


def plain(value: object) -> Any:
    """As it comes out of a socket."""
    return json.loads(json.dumps(value))


def test_messages_arrive_in_order_and_whole(ends: tuple[socket.socket, socket.socket]) -> None:
    messages: list[dict[str, object]] = [{"text": "é" * 200_000}, {}, {"number": 1e-9}]

    def write() -> None:
        for message in messages:
            framing.send(ends[0], message, soon(5))

    writer = threading.Thread(target=write)
    writer.start()
    assert [framing.receive(ends[1], soon(5)) for _ in messages] == messages
    writer.join(5)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (struct.pack(">I", framing.LONGEST_BYTES + 1), "at most 16777216 bytes long: 16777217"),
        (struct.pack(">I", 4) + b"nope", "plain JSON"),
        (struct.pack(">I", 2) + b"[]", "a JSON object: list"),
        (struct.pack(">I", 9) + b'{"a":NaN}', "NaN is no number"),
        (struct.pack(">I", 15) + b'{"a":-Infinity}', "-Infinity is no number"),
        (struct.pack(">I", 3) + b'"\xff"', "plain JSON"),
        (struct.pack(">I", 200_000) + b"[" * 200_000, "plain JSON"),
    ],
    ids=["too_long", "no_json", "list", "nan", "infinity", "no_utf8", "nested"],
)
def test_bad_frame_is_refused(ends: tuple[socket.socket, socket.socket], frame: bytes, message: str) -> None:
    ends[0].sendall(frame)
    with pytest.raises(ProtocolError, match=message):
        framing.receive(ends[1], soon())


@pytest.mark.parametrize(
    "message", [{"x": float("nan")}, {"x": "y" * (framing.LONGEST_BYTES + 1)}], ids=["nan", "long"]
)
def test_bad_message_is_not_sent(ends: tuple[socket.socket, socket.socket], message: dict[str, object]) -> None:
    with pytest.raises(ProtocolError):
        framing.send(ends[0], message, soon())
    assert not framing.wait_readable([ends[1].fileno()], time.monotonic())


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">I", 10) + b"{"], ids=["nothing", "length", "part"])
def test_silence_ends_at_the_deadline(ends: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    ends[0].sendall(sent)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        framing.receive(ends[1], soon(0.1))
    assert time.monotonic() - began < 0.5


def test_reader_that_does_not_read_ends_the_writer_at_the_deadline(ends: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(TimeoutError):
        framing.send(ends[0], {"x": "y" * (8 << 20)}, soon(0.1))


@pytest.mark.parametrize("unread", [False, True], ids=["all-read", "unread"])
def test_closed_connection_is_a_lost_device(ends: tuple[socket.socket, socket.socket], unread: bool) -> None:
    if unread:  # which has the kernel reset the connection
        framing.send(ends[1], {}, soon())
    ends[0].close()
    with pytest.raises(DeviceLostError, match=r"^the other side closed the connection$"):
        framing.receive(ends[1], soon())
    with pytest.raises(DeviceLostError, match=r"^the other side closed the connection$"):
        framing.send(ends[1], {}, soon())


def test_values_come_back_as_they_were() -> None:
    assert request_from_json(plain(request_to_json(REQUEST))) == REQUEST
    assert reply_from_json(plain(reply_to_json(REPLY)), REQUEST) == REPLY
    assert capabilities_from_json(plain(capabilities_to_json(CAPABILITIES))) == CAPABILITIES


@given(st.lists(positives, min_size=2, max_size=2), st.sampled_from(["wrong_answer", "run_failed", "device_lost"]))
def test_any_times_and_failures_come_back(times_s: list[float], outcome: str) -> None:
    good = Reply(Outcome.OK, (tuple(times_s), tuple(times_s)), (1, 1))
    failed = Reply(Outcome(outcome), error_class="X", error="x")
    for reply in (good, failed):
        assert reply_from_json(plain(reply_to_json(reply)), REQUEST) == reply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "rejected"}, "field `outcome` must be one of ok, .*: rejected"),
        ({"outcome": ["ok"]}, "field `outcome` must be one of"),
        ({"times_s": [[1e-6, 0], [1e-6, 1e-6]]}, r"field `times_s\[0\]\[1\]` must be a positive number: 0"),
        ({"times_s": [[1e-6, -1.0], [1e-6, 1e-6]]}, "must be a positive number: -1.0"),
        ({"times_s": [[1e-6, True], [1e-6, 1e-6]]}, "must be a positive number: True"),
        ({"times_s": [[1e-6, 10**400], [1e-6, 1e-6]]}, "must be a positive number: 1000"),
        ({"times_s": [[1e-6, 1e-6]]}, "field `times_s` must have 2 items: 1"),
        ({"times_s": [[1e-6], [1e-6, 1e-6]]}, r"field `times_s\[0\]` must have 2 items: 1"),
        ({"times_s": "fast"}, "field `times_s` must be a list: 'fast'"),
        ({"calls_per_repeat": [1]}, "field `calls_per_repeat` must have 2 items: 1"),
        ({"calls_per_repeat": [1, 0]}, r"field `calls_per_repeat\[1\]` must be an integer from 1"),
        ({"calls_per_repeat": [1, 1.5]}, r"field `calls_per_repeat\[1\]` must be an integer from 1"),
        ({"observed": {"load_1min": "high"}}, "field `observed.load_1min` must be a number"),
        ({"run_s": -1}, "field `run_s` must be a number"),
        ({"error": None}, "field `error` must be text"),
        ({"error": "two\nlines"}, "field `error` must be printable text on one line"),
        ({"error": "x" * 20_000}, "field `error` must be text of at most 16384 characters"),
        ({"outcome": "run_failed"}, "field `times_s` must have 0 items: 2"),
        ({"surprise": 1}, "unknown field: `surprise`"),
    ],
)
def test_bad_reply_names_its_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        reply_from_json(
            reply_to_json(REPLY) | {"times_s": TIMED["times_s"], "calls_per_repeat": [1, 1]} | change, REQUEST
        )


def test_missing_field_is_named() -> None:
    message = plain(reply_to_json(REPLY))
    del message["observed"]
    with pytest.raises(ProtocolError, match="missing field: `observed`"):
        reply_from_json(message, REQUEST)


@given(st.sampled_from(["outcome", "times_s", "calls_per_repeat", "observed", "error", "run_s"]), json_values)
def test_no_field_of_any_value_breaks_the_reader(name: str, value: object) -> None:
    message = plain(reply_to_json(REPLY)) | {name: value}
    try:
        reply = reply_from_json(message, REQUEST)
    except ProtocolError:
        return
    assert reply.outcome is Outcome.OK


@given(json_values)
def test_no_message_of_any_value_breaks_a_reader(message: object) -> None:
    for read in (request_from_json, capabilities_from_json, lambda value: timed_from_json(value, REQUEST)):
        with pytest.raises(ProtocolError):
            read(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"programs": []}, "field `programs` must have at least one program"),
        ({"programs": [{"library": "/k.so", "sha256": "", "entry": "f", "cases": []}]}, r"field `programs\[0\].cases`"),
        ({"programs": [{"library": 1, "sha256": "", "entry": "f", "cases": []}]}, r"field `programs\[0\].library`"),
        ({"timing": timing(repeats=0)}, "field `timing.repeats` must be an integer from 1 to 10000: 0"),
        ({"timing": timing(min_repeat_s=-1)}, "field `timing.min_repeat_s` must be a number from 0"),
        ({"timing": timing(least_repeats=0)}, "field `timing.least_repeats` must be an integer from 1"),
        ({"timing": timing(give_up_s=0)}, "field `timing.give_up_s` must be a positive number: 0"),
        ({"timing": timing(min_gain=-0.1)}, "field `timing.min_gain` must be a number from 0"),
        ({"timing": timing(most_drift="2 %")}, "field `timing.most_drift` must be a number from 0"),
        ({"run_limit_s": 1e9}, "field `run_limit_s` must be a number from 0.001 to 86400: 1000000000.0"),
        ({"probe": 3}, "field `probe` must be an object: 3"),
    ],
)
def test_bad_request_names_its_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        request_from_json(plain(request_to_json(REQUEST)) | change)


def test_probe_times_are_there_if_and_only_if_there_is_a_probe() -> None:
    assert timed_from_json(TIMED, REQUEST).probe_after_s == 1e-6
    with pytest.raises(ProtocolError, match="field `probe_after_s` must be a positive number: None"):
        timed_from_json(TIMED | {"probe_after_s": None}, REQUEST)
    with pytest.raises(ProtocolError, match="missing field: `probe_before_s`"):
        timed_from_json({name: TIMED[name] for name in TIMED if name != "probe_before_s"}, REQUEST)


@pytest.mark.parametrize(
    ("times_s", "message"),
    [
        ([[1e-6] * 2] * 2, r"field `times_s\[0\]` must have 3 to 5 items: 2"),
        ([[1e-6] * 6] * 2, r"field `times_s\[0\]` must have 3 to 5 items: 6"),
        ([[1e-6] * 4, [1e-6] * 3], r"field `times_s\[1\]` must have 4 items as the first: 3"),
    ],
)
def test_timing_that_may_end_early_has_bounds(times_s: list[list[float]], message: str) -> None:
    request = replace(REQUEST, timing=Timing(repeats=5, least_repeats=3, give_up_s=1e-6))
    assert timed_from_json(TIMED | {"times_s": [[1e-6] * 4] * 2}, request).times_s == ((1e-6,) * 4,) * 2
    with pytest.raises(ProtocolError, match=message):
        timed_from_json(TIMED | {"times_s": times_s}, request)
