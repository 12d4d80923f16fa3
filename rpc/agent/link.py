"""A board's agent, as the host speaks with it: messages on one stream, every wait with a limit.

A message is a byte that says what it is, four bytes of length, little-endian, and that many bytes. The agent is asked
for a sign of life where it has been silent for a while, whatever its session does meanwhile.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from int8tune.rpc.errors import DeviceLostError, LateError, SessionEndedError, SilentError
from int8tune.rpc.wire.foreign_text import one_line

AGENT_VERSION = 1
PING_AFTER_S = 3.0
PONG_S = 2.0
SILENCE_S = 12.0
"""A board that has said nothing for so long is lost."""

_LONGEST_MESSAGE = 16 << 20
_CHUNK = 1 << 18
_DIGEST_BYTES = 32
_LONGEST_WORDS = 300
_HEAD = struct.Struct("<cI")


class Stream(Protocol):
    """Bytes to an agent and back. Deadlines are moments of `time.monotonic`."""

    def send(self, data: bytes, deadline: float) -> None:
        """Raises: TimeoutError, DeviceLostError."""

    def receive(self, deadline: float) -> bytes:
        """Some bytes. Raises: TimeoutError, DeviceLostError."""

    def close(self) -> None:
        """Give the stream up, whatever state it is in."""

    def last_words(self) -> str:
        """What the other side wrote beside the stream; empty if nothing."""


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a session ended: `exited 1`, `signal 11`, `deadline`, `closed`, `closed its connection`, or in words."""

    how: str
    errors: str


class AgentLink:
    """The messages on one stream. Once one of its methods has raised `DeviceLostError`, the link is of no more use."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._data = bytearray()
        self._heard_at = time.monotonic()
        self._pinged_at = 0.0
        self._ended: SessionEnd | None = None
        self._longest_silence_s = 0.0

    @property
    def was_silent(self) -> bool:
        """Whether, since the last session was begun, the board said nothing for longer than its pings allow.

        It was stopped, or its link was, or this process: what was late meanwhile is no candidate's fault.
        """
        return self._longest_silence_s > PING_AFTER_S + PONG_S

    def greet(self, settings: Mapping[str, object], deadline: float) -> dict[str, str]:
        """Tell the agent what it may use; what it says of its board.

        Raises:
            DeviceLostError: it did not answer, or refused.
        """
        self._say(b"H", _lines({"version": AGENT_VERSION, **settings}), deadline)
        about = _pairs(self._wait(b"h", deadline).decode(errors="replace"))
        if about.get("version") != str(AGENT_VERSION):
            raise DeviceLostError(f"the board's agent is of version {about.get('version', 'unknown')[:20]}")
        return about

    def state(self, deadline: float) -> dict[str, str]:
        """Governor, frequency, temperature, free memory and disk as they are now."""
        self._say(b"I", b"", deadline)
        return _pairs(self._wait(b"i", deadline).decode(errors="replace"))

    def missing(self, digests: Iterable[bytes], deadline: float) -> list[bytes]:
        """Those of the cases, by the sha256 of their content, that are not on the board."""
        asked = list(dict.fromkeys(digests))
        self._say(b"Q", b"".join(asked), deadline)
        answer = self._wait(b"q", deadline)
        missing = [answer[place : place + _DIGEST_BYTES] for place in range(0, len(answer), _DIGEST_BYTES)]
        if not set(missing) <= set(asked):
            raise DeviceLostError("the board's agent answered nonsense: it misses what it was not asked for")
        return missing

    def upload(self, digest: bytes, content: bytes, deadline: float) -> None:
        """Put a case on the board.

        Raises:
            DeviceLostError: it could not be written there.
        """
        head = digest + struct.pack("<Q", len(content))
        for place in range(0, max(len(content), 1), _CHUNK):
            self._say(b"U", head + content[place : place + _CHUNK], deadline)
        answer = self._wait(b"u", deadline)
        if answer != b"\0":
            raise DeviceLostError(f"the board took no case: {_text(answer[1:])}")

    def open(self, run_limit_s: float, deadline: float) -> None:
        """Begin a session, which the board itself ends after `run_limit_s`."""
        self._ended = None
        self._longest_silence_s = 0.0
        self._say(b"O", _lines({"run_ms": int(run_limit_s * 1000)}), deadline)

    def send(self, data: bytes, deadline: float) -> None:
        """Send bytes to the session."""
        for place in range(0, len(data), _CHUNK):
            self._say(b"D", data[place : place + _CHUNK], deadline)

    def receive(self, deadline: float) -> bytes:
        """Bytes from the session.

        Raises:
            SessionEndedError: there are none any more, as the session has ended.
            TimeoutError: there were none before the deadline.
            DeviceLostError: the board is silent or gone.
        """
        if self._ended is None:
            kind, body = self._next(deadline, b"de")
            if kind == b"d":
                return body
            self._ended = _session_end(body)
        raise SessionEndedError(self._ended.how, self._ended.errors)

    def end_session(self, deadline: float) -> None:
        """End the session, if it has not ended, and all that it started.

        Raises:
            DeviceLostError: the agent did not say in time that it has.
        """
        if self._ended is not None:
            return
        self._say(b"C", b"", deadline)
        while self._ended is None:
            try:
                kind, body = self._next(deadline, b"de")
            except TimeoutError as error:
                raise DeviceLostError("the board's agent did not end a session") from error
            if kind == b"e":
                self._ended = _session_end(body)

    def ping(self, deadline: float) -> None:
        """Have a sign of life of the agent, and give it one: it leaves where the host is silent for 20 s."""
        self._say(b"P", b"", deadline)
        self._wait(b"p", deadline)

    def close(self) -> None:
        self._stream.close()

    def _wait(self, kind: bytes, deadline: float) -> bytes:
        try:
            return self._next(deadline, kind)[1]
        except TimeoutError as error:
            raise LateError("the board's agent did not answer in time") from error

    def _next(self, deadline: float, kinds: bytes) -> tuple[bytes, bytes]:
        """The next message of one of these kinds. Silence counts from now on: before, nobody listened."""
        self._heard_at = time.monotonic()
        while True:
            if message := self._whole_message():
                kind, body = message
                if kind == b"x":
                    raise DeviceLostError(f"the board's agent gave up: {_text(body)}")
                if kind in kinds:
                    return message
                if kind not in b"pde":
                    raise DeviceLostError(f"the board's agent answered nonsense: a message `{_text(kind)}`")
                continue
            self._read_some(deadline)

    def _whole_message(self) -> tuple[bytes, bytes] | None:
        if len(self._data) < _HEAD.size:
            return None
        kind, length = _HEAD.unpack_from(self._data)
        if length > _LONGEST_MESSAGE:
            raise DeviceLostError(f"the board's agent answered nonsense: a message of {length} bytes")
        end = _HEAD.size + length
        if len(self._data) < end:
            return None
        body = bytes(self._data[_HEAD.size : end])
        del self._data[:end]
        return kind, body

    def _read_some(self, deadline: float) -> None:
        now = time.monotonic()
        if now >= deadline:
            raise TimeoutError
        if now >= self._heard_at + SILENCE_S:
            raise SilentError(f"the board was silent for {SILENCE_S:g} s")
        if now >= max(self._heard_at, self._pinged_at) + PING_AFTER_S:
            self._pinged_at = now
            self._say(b"P", b"", self._heard_at + SILENCE_S)
        try:
            self._data += self._stream.receive(min(deadline, max(self._heard_at, self._pinged_at) + PING_AFTER_S))
        except TimeoutError:
            return
        except DeviceLostError as error:
            raise self._lost(error) from error
        heard_at, self._heard_at = self._heard_at, time.monotonic()
        self._longest_silence_s = max(self._longest_silence_s, self._heard_at - heard_at)

    def _say(self, kind: bytes, body: bytes, deadline: float) -> None:
        """Send a message. A board that takes none of at most `_CHUNK` bytes for so long is as good as silent."""
        began = time.monotonic()
        silent_at = began + SILENCE_S
        try:
            self._stream.send(_HEAD.pack(kind, len(body)) + body, min(deadline, silent_at))
        except TimeoutError as error:
            if silent_at <= deadline:
                raise SilentError(f"the board took nothing for {SILENCE_S:g} s") from error
            raise DeviceLostError("the board took nothing in time") from error
        except DeviceLostError as error:
            raise self._lost(error) from error
        self._longest_silence_s = max(self._longest_silence_s, time.monotonic() - began)

    def _lost(self, error: DeviceLostError) -> DeviceLostError:
        """With the agent's own words, where it has left some."""
        if len(self._data) >= _HEAD.size and self._data[:1] == b"x":
            return DeviceLostError(f"the board's agent gave up: {_text(bytes(self._data[_HEAD.size :]))}")
        words = self._stream.last_words()
        return DeviceLostError(f"{error}: {words}" if words else str(error))


def _session_end(body: bytes) -> SessionEnd:
    head, _, errors = body.decode(errors="replace").partition("\n\n")
    how = _pairs(head).get("how", "")
    if not how:
        raise DeviceLostError("the board's agent answered nonsense: a session's end without its reason")
    return SessionEnd(how[:60], errors)


def _lines(values: Mapping[str, object]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()


def _pairs(text: str) -> dict[str, str]:
    lines = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in lines}


def _text(data: bytes) -> str:
    return one_line(data.decode(errors="replace"), _LONGEST_WORDS)
