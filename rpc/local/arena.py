"""Where a kernel writes the output that is verified: memory that its process shares with the server."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from int8tune.rpc.session.faults import Fault, guard_fault, value_fault
from int8tune.rpc.wire.npy import Values

GUARD_BYTES = 4096


class Arena:
    """One output at a time, on a page boundary, between two guard zones of `GUARD_BYTES`.

    Before a run the output is filled with a byte and the guard zones with a pattern, both by `salt`: an element that is
    not written, or a byte outside that is, can equal what it should be by chance, but not for every salt.
    """

    def __init__(self, largest_output_bytes: int) -> None:
        self._memory = np.frombuffer(mmap.mmap(-1, largest_output_bytes + 2 * GUARD_BYTES), np.uint8)

    def view(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """The output as an array."""
        count = int(np.prod(shape, dtype=np.int64))
        size = count * np.dtype(dtype).itemsize
        return self._memory[GUARD_BYTES : GUARD_BYTES + size].view(dtype).reshape(shape)

    def prepare(self, output_bytes: int, salt: int) -> None:
        before, output, after = self._zones(output_bytes)
        before[:], after[:] = _guard(salt)
        output[:] = (0xA5 + 0x3B * salt) & 0xFF

    def fault(self, expected: NDArray[Any], salt: int) -> Fault | None:
        """Compare with `expected` bit for bit, after `prepare` with the same salt and a run."""
        output = self.view(expected.shape, expected.dtype)
        return self._guard_fault(expected.nbytes, salt) or _value_fault(output, expected)

    def _guard_fault(self, output_bytes: int, salt: int) -> Fault | None:
        before, _, after = self._zones(output_bytes)
        guard_before, guard_after = _guard(salt)
        offsets = np.concatenate(
            [np.flatnonzero(before != guard_before) - GUARD_BYTES, np.flatnonzero(after != guard_after) + output_bytes]
        )
        if offsets.size == 0:
            return None
        return guard_fault(output_bytes, offsets.size, int(offsets[0]))

    def _zones(self, output_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        end = GUARD_BYTES + output_bytes
        return self._memory[:GUARD_BYTES], self._memory[GUARD_BYTES:end], self._memory[end : end + GUARD_BYTES]


def _guard(salt: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    places = np.arange(2 * GUARD_BYTES)
    pattern = (places * 131 + salt * 17 + 89).astype(np.uint8)
    return pattern[:GUARD_BYTES], pattern[GUARD_BYTES:]


def _value_fault(got: NDArray[Any], expected: NDArray[Any]) -> Fault | None:
    bits = f"u{expected.dtype.itemsize}"
    if np.array_equal(got.reshape(-1).view(bits), expected.reshape(-1).view(bits)):
        return None
    must_be = Values(expected.dtype.str, expected.shape, memoryview(expected.tobytes()))
    return value_fault(got.tobytes(), must_be)
