"""A model's file without the bytes of its large initializers, so that a model of these is not in memory twice.

Source: the wire format of protocol buffers, https://protobuf.dev/programming-guides/encoding, and ONNX's onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LEAST_BYTES = 1 << 16
"""The least bytes of an initializer's values that are left out."""

# Numbers of fields: of a ModelProto, a GraphProto, a TensorProto.
_GRAPH, _FUNCTIONS, _INITIALIZER, _RAW_DATA = 7, 25, 5, 9
_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a message: where it begins, where its content does, and where both end."""

    number: int
    kind: int
    begin: int
    content: int
    end: int


class _DamagedError(Exception):
    """Bytes are no message."""


def without_large(data: bytes) -> tuple[bytes, dict[int, memoryview]]:
    """A model's file without the values of large initializers, and these by their places among the initializers.

    The file stays as it is where it has several graphs, or functions, or can't be read: others say why.
    """
    try:
        parts = list(_parts(data, 0, len(data)))
        graphs = [part for part in parts if part.number == _GRAPH and part.kind == _LENGTH]
        if len(graphs) != 1 or any(part.number == _FUNCTIONS for part in parts):
            return data, {}
        (graph,) = graphs
        inner = list(_parts(data, graph.content, graph.end))
        initializers = [part for part in inner if part.number == _INITIALIZER]
        found = {index: _raw_of(data, part) for index, part in enumerate(initializers)}
    except _DamagedError:
        return data, {}
    raws = {index: raw for index, raw in found.items() if raw is not None and raw.end - raw.content >= LEAST_BYTES}
    if not raws:
        return data, {}
    view = memoryview(data)
    places = {id(initializers[index]): raw for index, raw in raws.items()}
    shorter = b"".join(_without(view, part, places.get(id(part))) for part in inner)
    around = [view[part.begin : part.end] for part in parts if part is not graph]
    whole = b"".join([*around, _key(_GRAPH), _encoded(len(shorter)), shorter])
    return whole, {index: view[raw.content : raw.end] for index, raw in raws.items()}


def _raw_of(data: bytes, tensor: Part) -> Part | None:
    """The only values of an initializer; None of one that has none, or several."""
    if tensor.kind != _LENGTH:
        raise _DamagedError
    raws = [part for part in _parts(data, tensor.content, tensor.end) if part.number == _RAW_DATA]
    return raws[0] if len(raws) == 1 and raws[0].kind == _LENGTH else None


def _without(view: memoryview, part: Part, raw: Part | None) -> bytes:
    """A field of the graph, without these bytes of it."""
    if raw is None:
        return bytes(view[part.begin : part.end])
    content = bytes(view[part.content : raw.begin]) + bytes(view[raw.end : part.end])
    return b"".join([_key(part.number), _encoded(len(content)), content])


def _parts(data: bytes, begin: int, end: int) -> Iterator[Part]:
    """The fields of the message between two places."""
    at = begin
    while at < end:
        key, content = _decoded(data, at, end)
        kind = key & 7
        if kind == _VARINT:
            _, after = _decoded(data, content, end)
        elif kind == _LENGTH:
            length, content = _decoded(data, content, end)
            after = content + length
        elif kind in (_FIXED_64, _FIXED_32):
            after = content + (8 if kind == _FIXED_64 else 4)
        else:
            raise _DamagedError
        if after > end:
            raise _DamagedError
        yield Part(key >> 3, kind, at, content, after)
        at = after


def _decoded(data: Sequence[int], at: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = 0
    for index in range(_MOST_VARINT_BYTES):
        if at + index >= end:
            break
        value |= (data[at + index] & 0x7F) << 7 * index
        if data[at + index] < 0x80:
            return value, at + index + 1
    raise _DamagedError


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _key(number: int) -> bytes:
    return _encoded(number << 3 | _LENGTH)
