"""The comparison of outputs, bit for bit, with guard zones and changing sentinels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from int8tune.rpc.local.arena import GUARD_BYTES, Arena

EXPECTED = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
FLOATS = np.array([0.0, 1.0, np.nan], dtype=np.float32)


def after(write: Callable[[NDArray[Any]], None], expected: NDArray[Any] = EXPECTED, salt: int = 0) -> str:
    """The class and text of the fault, after a run that wrote `expected` and then did `write`."""
    arena = Arena(expected.nbytes)
    arena.prepare(expected.nbytes, salt)
    output = arena.view(expected.shape, expected.dtype)
    output[...] = expected
    write(output)
    fault = arena.fault(expected, salt)
    return f"{fault.error_class}: {fault.text}" if fault else ""


def bytes_around(output: NDArray[Any]) -> NDArray[np.uint8]:
    """The whole arena, of which `output` is the middle."""
    base: Any = output
    while isinstance(base.base, np.ndarray):
        base = base.base
    return np.asarray(base, dtype=np.uint8)


def test_right_output_has_no_fault() -> None:
    for expected in (EXPECTED, FLOATS, np.array(7, dtype=np.uint8)):
        assert after(lambda _: None, expected) == ""


def test_first_wrong_value_is_named() -> None:
    def write(output: NDArray[Any]) -> None:
        output[0, 2, 1] += 5
        output[1, 0, 0] = -1

    assert after(write) == "WrongValues: 2 of 24 values differ, first at (0, 2, 1): expected 9, got 14"


def test_bits_are_compared_not_values() -> None:
    def negative_zero(output: NDArray[Any]) -> None:
        output[0] = -0.0

    assert after(negative_zero, FLOATS) == "WrongValues: 1 of 3 values differ, first at (0,): expected 0.0, got -0.0"


@pytest.mark.parametrize("offset", [-GUARD_BYTES, -1, 96, 96 + GUARD_BYTES - 1])
def test_one_byte_outside_is_found(offset: int) -> None:
    def write(output: NDArray[Any]) -> None:
        bytes_around(output)[GUARD_BYTES + offset] ^= 1

    assert after(write) == f"OutOfBounds: bytes written outside of the 96 of the output: 1, first at byte {offset}"


def test_any_byte_written_everywhere_is_found_in_two_of_three_runs() -> None:
    """A kernel that never writes its last element, or always writes one byte too many, can be lucky but not always."""
    for byte in range(256):
        expected = np.full(64, byte, dtype=np.uint8)
        skipped, exceeded = [], []
        for salt in range(3):
            arena = Arena(expected.nbytes)
            arena.prepare(expected.nbytes, salt)
            output = arena.view(expected.shape, expected.dtype)
            output[:-1] = byte
            skipped.append(arena.fault(expected, salt))
            output[-1] = byte
            bytes_around(output)[GUARD_BYTES + 64] = byte
            exceeded.append(arena.fault(expected, salt))
        assert sum(fault is not None for fault in skipped) >= 2
        assert sum(fault is not None for fault in exceeded) >= 2


def test_output_is_aligned_for_every_vector() -> None:
    assert Arena(100).view((100,), np.uint8).ctypes.data % 4096 == 0
