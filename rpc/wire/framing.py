"""Messages on a stream socket: four bytes of length, big-endian, then a JSON object.

Deadlines are moments of `time.monotonic`.
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import time
from collections.abc import Iterable, Mapping

from int8tune.results.bounded_json import parse_json
from int8tune.rpc.errors import DeviceLostError, ProtocolError

LONGEST_BYTES = 16 << 20
_LONGEST_POLL_MS = 2**31 - 1
_LENGTH = struct.Struct(">I")
_CLOSED = "the other side closed the connection"


def send(sock: socket.socket, message: Mapping[str, object], deadline: float) -> None:
    """Write one message.

    Raises:
        ProtocolError: it is longer than `LONGEST_BYTES` or has a number that JSON does not know.
        DeviceLostError: the other side closed the connection.
        TimeoutError: the other side did not take it before the deadline.
    """
    try:
        body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise ProtocolError(f"a message must be plain JSON: {error}") from error
    if len(body) > LONGEST_BYTES:
        raise ProtocolError(f"a message may be at most {LONGEST_BYTES} bytes long: {len(body)}")
    send_bytes(sock, _LENGTH.pack(len(body)) + body, deadline)


def send_bytes(sock: socket.socket, data: bytes, deadline: float) -> None:
    """Write bytes.

    Raises:
        DeviceLostError: the other side closed the connection.
        TimeoutError: the other side did not take them before the deadline.
    """
    rest = memoryview(data)
    while rest:
        _wait_for(sock, select.POLLOUT, deadline)
        try:
            rest = rest[sock.send(rest, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise lost(error) from error


def receive(sock: socket.socket, deadline: float) -> dict[str, object]:
    """Read one message.

    Raises:
        ProtocolError: it is too long, no JSON, or no object.
        DeviceLostError: the other side closed the connection.
        TimeoutError: it had not come in whole at the deadline.
    """
    (length,) = _LENGTH.unpack(receive_bytes(sock, _LENGTH.size, deadline))
    if length > LONGEST_BYTES:
        raise ProtocolError(f"a message may be at most {LONGEST_BYTES} bytes long: {length}")
    try:
        message = parse_json(receive_bytes(sock, length, deadline), most_bytes=LONGEST_BYTES)
    except ValueError as error:
        raise ProtocolError(f"a message must be plain JSON: {error}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"a message must be a JSON object: {type(message).__name__}")
    return message


def receive_bytes(sock: socket.socket, count: int, deadline: float) -> bytes:
    """Read so many bytes.

    Raises:
        DeviceLostError: the other side closed the connection.
        TimeoutError: they had not come in at the deadline.
    """
    data = bytearray()
    while len(data) < count:
        data += receive_some(sock, count - len(data), deadline)
    return bytes(data)


def receive_some(sock: socket.socket, most: int, deadline: float) -> bytes:
    """Read what is there, at least a byte and at most so many; raises as `receive_bytes`."""
    while True:
        _wait_for(sock, select.POLLIN, deadline)
        try:
            chunk = sock.recv(min(most, 1 << 20), socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        except OSError as error:
            raise lost(error) from error
        if not chunk:
            raise DeviceLostError(_CLOSED)
        return chunk


def lost(error: OSError) -> DeviceLostError:
    """What the fault of a socket means: one that is closed, or whose process dies, with bytes unread in it is reset."""
    closed = isinstance(error, ConnectionResetError | BrokenPipeError)
    return DeviceLostError(_CLOSED if closed else f"the connection broke: {error.strerror}")


def wait_readable(descriptors: Iterable[int], deadline: float) -> set[int]:
    """The descriptors that can be read, or were closed by the other side; empty once the deadline has passed."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(_left_ms(deadline))}


def _wait_for(sock: socket.socket, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(sock, event)
    if not poll.poll(_left_ms(deadline)):
        raise TimeoutError("the other side did not answer in time")


def _left_ms(deadline: float) -> int:
    return max(0, min(math.ceil((deadline - time.monotonic()) * 1000), _LONGEST_POLL_MS))
