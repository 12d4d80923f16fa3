"""Files with holes read as `np.save` would have written them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.tuner.builder.holes import BLOCK_BYTES, save_with_holes

WORDS = BLOCK_BYTES // 4


@pytest.mark.parametrize("size", [0, 1, WORDS - 1, WORDS, 5 * WORDS, 5 * WORDS + 1])
@pytest.mark.parametrize("marks", [(), (0,), (-1,), (0, -1), (WORDS,)])
def test_files_are_those_of_numpy(size: int, marks: tuple[int, ...], tmp_path: Path) -> None:
    array = np.zeros(size, np.int32)
    for mark in marks:
        if -size <= mark < size:
            array[mark] = 7
    save_with_holes(tmp_path / "ours.npy", array)
    np.save(tmp_path / "numpys.npy", array)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


def test_arrays_of_several_axes_and_in_another_order(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(2, 0, 1)
    save_with_holes(tmp_path / "array.npy", array)
    np.testing.assert_array_equal(np.load(tmp_path / "array.npy"), array)


def test_zeros_take_no_disk(tmp_path: Path) -> None:
    array = np.zeros(4096 * WORDS, np.int32)
    array[2048 * WORDS] = 1
    save_with_holes(tmp_path / "array.npy", array)
    assert (tmp_path / "array.npy").stat().st_blocks * 512 < array.nbytes / 10
