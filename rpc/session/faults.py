"""What is wrong with an output. This module loads no numpy: devices of bundles have none."""

from __future__ import annotations

import itertools
import math
import operator
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from int8tune.rpc.wire.npy import UNSIGNED, Values

_SHOWN: dict[str, Mapping[int, str]] = {
    "b": {1: "?"},
    "u": UNSIGNED,
    "i": {1: "b", 2: "h", 4: "i", 8: "q"},
    "f": {2: "e", 4: "f", 8: "d"},
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an output: `WrongValues` or `OutOfBounds`, and one line for a person."""

    error_class: str
    text: str


def guard_fault(output_bytes: int, changed: int, first: int) -> Fault:
    """What is wrong where so many bytes of the guard zones changed."""
    text = f"bytes written outside of the {output_bytes} of the output: {changed}, first at byte {first}"
    return Fault("OutOfBounds", text)


def value_fault(got: bytes | memoryview, expected: Values) -> Fault | None:
    """Where an output, as many bytes as are expected, differs from what it must be, bit for bit."""
    if got == expected.content:
        return None
    bits = UNSIGNED[expected.itemsize]
    pairs = memoryview(got).cast(bits), memoryview(expected.content).cast(bits)
    wrong = sum(map(operator.ne, *pairs))
    first = next(itertools.compress(itertools.count(), map(operator.ne, *pairs)))
    numbers = [_number(values, first, expected) for values in (expected.content, got)]
    text = (
        f"{wrong} of {math.prod(expected.shape)} values differ, first at {_place(first, expected.shape)}: "
        f"expected {numbers[0]}, got {numbers[1]}"
    )
    return Fault("WrongValues", text)


def _number(content: bytes | memoryview, index: int, values: Values) -> int | float | bool:
    (number,) = struct.unpack_from(_SHOWN[values.kind][values.itemsize], content, index * values.itemsize)
    return number  # type: ignore[no-any-return]


def _place(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The position in an array of the value that is so many values behind the first one."""
    place: list[int] = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        place.insert(0, rest)
    return tuple(place)
