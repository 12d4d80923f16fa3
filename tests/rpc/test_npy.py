"""Files of arrays, read without numpy: what numpy reads, or a line that says why not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from int8tune.rpc.session.faults import value_fault
from int8tune.rpc.wire.npy import CaseError, Values, read_npy

SHAPES = [(), (0,), (5,), (2, 3), (3, 1, 4), (2, 3, 4, 5)]


@pytest.mark.parametrize("dtype", ["i1", "u1", "b1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_array_of_numbers_is_read_as_numpy_reads_it(tmp_path: Path, dtype: str, order: str) -> None:
    for index, shape in enumerate(SHAPES):
        array = np.random.default_rng(index).integers(0, 100, shape).astype(dtype)
        np.save(tmp_path / "a.npy", np.asarray(array, order=order))  # type: ignore[call-overload]
        values = read_npy(str(tmp_path / "a.npy"))
        assert values.shape == shape
        assert np.dtype(values.dtype) == array.dtype
        assert bytes(values.content) == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array(["text"]),
        np.array([1 + 2j]),
        np.zeros(2, dtype=[("a", "i4")]),
        np.array([1, 2], dtype=">i4"),
        np.array([np.datetime64("2026-01-01")]),
    ],
    ids=["text", "complex", "fields", "other end first", "dates"],
)
def test_what_is_no_number_is_refused(tmp_path: Path, array: np.ndarray) -> None:  # type: ignore[type-arg]
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(CaseError, match="must hold one array of numbers"):
        read_npy(str(tmp_path / "a.npy"))


def test_what_is_no_file_of_an_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with pytest.raises(CaseError, match="can't be read"):
        read_npy(str(path))
    for content in (
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff{}",
        b"\x93NUMPY\x01\x00\x08\x00" + b"(" * 8,
        b"no" * 40,
    ):
        path.write_bytes(content)
        with pytest.raises(CaseError):
            read_npy(str(path))


def test_a_damaged_file_is_refused_or_read_as_numpy_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(24, dtype=np.int16).reshape(2, 3, 4))
    whole = path.read_bytes()
    rng = random.Random(0)
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole[: rng.randrange(1, len(whole) + 1)])
        for _ in range(rng.randrange(3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            values = read_npy(str(path))
        except CaseError:
            refused += 1
            continue
        read = np.load(path, allow_pickle=False)
        assert (values.shape, bytes(values.content)) == (read.shape, read.tobytes())
    assert refused > 200


def test_a_fault_names_the_first_value_that_differs() -> None:
    expected = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    values = Values(expected.dtype.str, expected.shape, memoryview(expected.tobytes()))
    assert value_fault(expected.tobytes(), values) is None
    got = expected.copy()
    got[1, 2, 0], got[1, 2, 3] = -7, 0
    fault = value_fault(got.tobytes(), values)
    assert fault is not None
    assert fault.text == "2 of 24 values differ, first at (1, 2, 0): expected 20, got -7"


def test_values_are_compared_bit_for_bit() -> None:
    zeros = Values("<f4", (2,), memoryview(np.zeros(2, np.float32).tobytes()))
    fault = value_fault(np.array([0.0, -0.0], np.float32).tobytes(), zeros)
    assert fault is not None
    assert fault.text == "1 of 2 values differ, first at (1,): expected 0.0, got -0.0"
