"""Large constants beside an executable: small ones stand for them until it is written.

TVM serializes an executable in a buffer that doubles whenever it is full, and copies that: three times the constants.
Source of the format: TVM 0.27, `Tensor::Save` and `ModulePackImportsToTensor`. Numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LEAST_BYTES = 1 << 16
"""The least bytes of constants that get a stand-in."""

_KEY_BYTES, _BYTES = 24, 32
# Magic, reserved, device, axes, code and bits and lanes of the type; then extents, and the number of bytes.
_HEADER, _NUMBER = struct.Struct("<QQiiiBBH"), struct.Struct("<q")
_MAGIC, _CPU = 0xDD5E40F096B4A13F, 1
_CODES = {"i": 0, "u": 1, "f": 2}
_EXECUTABLE = b"relax.VMExecutable"


class StandIns:
    """Arrays, and what stands for each of them in an executable."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._arrays: list[Array] = []
        self._indices: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def of(self, array: Array) -> Array:
        """What stands for an array: the same for equal ones; small ones and those of other types are their own."""
        if array.nbytes < LEAST_BYTES or array.dtype.kind not in _CODES:
            return array
        array = array if isinstance(array, np.memmap) else np.ascontiguousarray(array)
        identity = str(array.dtype), array.shape, digest_of(array)
        index = self._indices.setdefault(identity, len(self._arrays))
        if index == len(self._arrays):
            self._arrays.append(array)
        return np.frombuffer(self._key + index.to_bytes(_BYTES - _KEY_BYTES, "little"), np.uint8)

    def restored(self, packed: bytes) -> Iterator[bytes | memoryview]:
        """An executable as TVM packs it, part by part, with all arrays in their places.

        Raises:
            RuntimeError: TVM packs it in another form.
        """
        places = list(self._places(packed))
        grown = sum(_size(self._arrays[index]) for _, index in places) - len(places) * (_size(_EMPTY) + _BYTES)
        yield from _resized(packed, places[0][0] if places else len(packed), grown)
        ends = [*(at for at, _ in places), len(packed)][1:]
        for (at, index), following in zip(places, ends, strict=True):
            yield _header(self._arrays[index])
            yield _bytes_of(self._arrays[index])
            yield packed[at + _size(_EMPTY) + _BYTES : following]

    def _places(self, packed: bytes) -> Iterator[tuple[int, int]]:
        """Where the header of each stand-in begins, and whose it is."""
        at = packed.find(self._key)
        while at >= 0:
            index = int.from_bytes(packed[at + _KEY_BYTES : at + _BYTES], "little")
            start = at - len(_header(_EMPTY))
            if packed[start:at] != _header(np.empty(_BYTES, np.uint8)):
                raise RuntimeError("TVM packs constants in another form")
            yield start, index
            at = packed.find(self._key, at + _BYTES)


def _resized(packed: bytes, end: int, grown: int) -> Iterator[bytes]:
    """The beginning of a packed executable, whose own sizes are those with so many bytes more."""
    name = packed.find(_EXECUTABLE) + len(_EXECUTABLE)
    (whole,), (size,) = _NUMBER.unpack_from(packed), _NUMBER.unpack_from(packed, name)
    if whole != len(packed) - _NUMBER.size or not 0 < size <= len(packed) - name - _NUMBER.size or end <= name:
        raise RuntimeError("TVM packs executables in another form")
    yield _NUMBER.pack(whole + grown)
    yield packed[_NUMBER.size : name]
    yield _NUMBER.pack(size + grown)
    yield packed[name + _NUMBER.size : end]


def _header(array: Array) -> bytes:
    code, bits = _CODES[array.dtype.kind], 8 * array.itemsize
    head = _HEADER.pack(_MAGIC, 0, _CPU, 0, array.ndim, code, bits, 1)
    return head + b"".join(map(_NUMBER.pack, (*array.shape, array.nbytes)))


def _size(array: Array) -> int:
    """The bytes of an array as TVM packs it."""
    return len(_header(array)) + array.nbytes


def digest_of(array: Array) -> bytes:
    """A digest of an array's bytes, one row after the other; one in a file that has it already is not read."""
    known: bytes | None = getattr(array, "digest", None) if isinstance(array, np.memmap) else None
    if known is not None:
        return known
    return hashlib.blake2b(_bytes_of(np.ascontiguousarray(array)), digest_size=16).digest()


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


_EMPTY = np.empty(0, np.uint8)
