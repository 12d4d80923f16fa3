"""The part of TVM's session protocol that a host needs: functions of the other side are looked up by name and called.

TVM's own client waits without a limit and believes what it reads; here the bytes of a board are checked, and who waits
for them is not this module's concern. A packet is eight bytes of length and that many bytes, which begin with a code.
Source: tvm/src/runtime/rpc/rpc_endpoint.cc and minrpc/rpc_reference.h of TVM 0.27.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from types import EllipsisType

from int8tune.rpc.errors import ProtocolError

PROTOCOL_VERSION = b"0.8.0"
LONGEST_PACKET = 256 << 20

Argument = int | float | str | bytes
Result = int | bytes | str | None

_INIT_SERVER, _CALL, _RETURN, _EXCEPTION, _GET_FUNCTION = 2, 3, 4, 5, 9
# Type indices of TVM's FFI (tvm/ffi/c_api.h).
_NONE, _INT, _BOOL, _FLOAT, _POINTER, _TEXT, _BYTES = 0, 1, 2, 3, 4, 8, 9
_MOST_VALUES = 16


@dataclass(frozen=True, slots=True)
class RemoteFailure:
    """What the other side says of a call that raised."""

    text: str


def begin_session() -> bytes:
    """The first packet of a session; its answer is None."""
    return _packet(_INIT_SERVER, struct.pack("<Q", len(PROTOCOL_VERSION)) + PROTOCOL_VERSION + struct.pack("<i", 0))


def find_function(name: str) -> bytes:
    """Answered with the function's handle, or None where there is no such function."""
    return _packet(_GET_FUNCTION, _values((name,)))


def call(handle: int, *arguments: Argument) -> bytes:
    """Answered with what the function returns: bytes, here."""
    return _packet(_CALL, struct.pack("<Q", handle) + _values(arguments))


class Answers:
    """The packets in a stream of bytes, in the order of what they answer."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    def next(self) -> Result | RemoteFailure | EllipsisType:
        """The next answer; `...` while it is not whole.

        Raises:
            ProtocolError: these bytes are no answer.
        """
        if len(self._data) < 8:
            return ...
        (length,) = struct.unpack_from("<Q", self._data)
        if not 8 <= length <= LONGEST_PACKET:
            raise ProtocolError(f"a packet must have 8 to {LONGEST_PACKET} bytes: {length}")
        if len(self._data) < 8 + length:
            return ...
        body = bytes(self._data[8 : 8 + length])
        del self._data[: 8 + length]
        return _answer(body)


def _answer(body: bytes) -> Result | RemoteFailure:
    reader = _Reader(body)
    code, values = reader.integer(), reader.values()
    if code == _EXCEPTION:
        return RemoteFailure(str(values[0]) if values else "")
    if code != _RETURN:
        raise ProtocolError(f"a packet must be a result or a failure: code {code}")
    # What a call returns is preceded by its type; what a look-up finds is not.
    return values[-1] if values else None


class _Reader:
    """Takes values from the front of a packet."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def values(self) -> list[Result]:
        count = self.integer()
        if not 0 <= count <= _MOST_VALUES:
            raise ProtocolError(f"a packet must have at most {_MOST_VALUES} values: {count}")
        return [self._value(self.integer()) for _ in range(count)]

    def integer(self) -> int:
        (value,) = struct.unpack("<i", self._take(4))
        return int(value)

    def _value(self, kind: int) -> Result:
        if kind == _NONE:
            return None
        if kind in (_INT, _BOOL, _POINTER):
            return int.from_bytes(self._take(8), "little", signed=kind == _INT)
        if kind not in (_TEXT, _BYTES):
            raise ProtocolError(f"a packet has a value of an unknown type: {kind}")
        data = self._take(int.from_bytes(self._take(8), "little"))
        return data if kind == _BYTES else data.decode(errors="replace")

    def _take(self, count: int) -> bytes:
        data = self._data[self._place : self._place + count]
        if len(data) < count:
            raise ProtocolError(f"a packet ends {count - len(data)} bytes too early")
        self._place += count
        return data


def _packet(code: int, body: bytes) -> bytes:
    return struct.pack("<Qi", len(body) + 4, code) + body


def _values(values: tuple[Argument, ...]) -> bytes:
    return b"".join([struct.pack("<i", len(values)), *map(_encoded, values)])


def _encoded(value: Argument) -> bytes:
    if isinstance(value, int):
        return struct.pack("<iq", _INT, value)
    if isinstance(value, float):
        return struct.pack("<id", _FLOAT, value)
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<iQ", _TEXT if isinstance(value, str) else _BYTES, len(data)) + data
