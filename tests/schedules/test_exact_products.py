"""The oracle's products and its own binary32: the same as by integers, where values are as large as can be."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from int8tune.schedules.oracle import reference as oracle
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.exact_products import MOST_EXACT, Columns
from int8tune.schedules.oracle.row_blocks import for_row_blocks
from int8tune.schedules.workload import parse_workload
from tests.plain_oracle import plain_reference

# Depths around those up to which one piece is exact: 2^24 / (255 * 255) is 258.01, 2^24 / (128 * 128) is 1024.
DEPTHS = (1, 257, 258, 259, 1023, 1024, 1025, 1026, 33025)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("row", "column"), [(-128, -128), (255, -128), (255, 255), (-255, 255), (255, 127), (1, -128), (0, 5)]
)
def test_the_largest_sums_are_exact(row: int, column: int, depth: int) -> None:
    """Magnitudes one less at one place make every partial sum odd: a rounded one would show."""
    rows = np.full((3, depth), row, np.float32)
    rows[1, 0] -= np.sign(row)
    rows[2, ::2] *= -1
    columns = np.full((2, depth), column, np.float32)
    columns[1, depth // 2] -= np.sign(column)
    found = Columns(columns, 255).product(rows)
    np.testing.assert_array_equal(found, rows.astype(np.int64) @ columns.astype(np.int64).T)


def test_sums_between_the_integers_of_binary32_are_exact() -> None:
    """One piece of depth 1026 would round: 1024 products reach 2^24, and 2^24 + 1 is no binary32."""
    rows = np.full((1, 1026), -128, np.float32)
    rows[0, 1025] = 1
    columns = np.full((1, 1026), -128, np.float32)
    columns[0, 1025] = 1
    columns[0, 1024] = 0
    assert Columns(columns, 128).product(rows).tolist() == [[2**24 + 1]]
    assert int(np.float32(2**24 + 1)) == 2**24


@pytest.mark.parametrize(("largest", "depth"), [(255, 258), (148, 446), (128, 516)])
def test_pieces_are_as_deep_as_is_exact(largest: int, depth: int) -> None:
    columns = Columns(np.full((1, 4), -254 if largest == 128 else 255, np.float32)[:, :4], largest)
    bound = 254 if largest == 128 else 255
    assert columns.depth == MOST_EXACT // (largest * bound)
    assert columns.depth * largest * bound <= MOST_EXACT < (columns.depth + 1) * largest * bound
    assert abs(columns.depth - depth) <= 2


def test_values_without_an_exact_product_are_refused() -> None:
    with pytest.raises(ValueError, match="products must be at most 16777216: 4097 x 4096"):
        Columns(np.array([[4096]], np.float32), 4097)


def test_columns_that_are_the_same_are_multiplied_once() -> None:
    rng = np.random.default_rng(0)
    few = rng.integers(-128, 128, (3, 40)).astype(np.float32)
    columns = few[rng.integers(0, 3, 50)]
    rows = rng.integers(-255, 256, (7, 40)).astype(np.float32)
    made = Columns(columns, 255)
    assert made._matrix.shape == (40, 3)
    np.testing.assert_array_equal(made.product(rows), rows.astype(np.int64) @ columns.astype(np.int64).T)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("dense-u8u8-70x4100-o33-wz-float.c-u8", marks=pytest.mark.thorough),
        "dense-s8s8-70x1100-o33-s32",
        pytest.param("dense-u8s8-300x640-o288-fixed.c-u8", marks=pytest.mark.thorough),
        pytest.param("conv2d-u8s8-2x9x7x60-k3x2x40-s2x1-p1.0.2.1-g2-fused.cx-u8", marks=pytest.mark.thorough),
        "conv2d-u8u8-2x9x7x120-k3x3x40-s1-p1-d2-wz-float.c-u8",
        pytest.param("conv2d-u8s8-1x14x14x32-k3x3x64-s1-p1-float.c-addu8-u8", marks=pytest.mark.thorough),
        "dwconv2d-u8s8-2x12x13x24-k3x3x2-s2-p1-fixed.c-u8",
    ],
)
def test_it_agrees_with_the_plain_oracle(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares every adversarial case, in blocks of few rows on three threads."""
    monkeypatch.setattr(oracle, "_VALUES", 3000)
    monkeypatch.setattr(oracle, "_STEP_VALUES", 100)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    workload = parse_workload(key)
    for name, operands in adversarial_operands(workload, 3):
        found = oracle.reference(workload, operands)
        np.testing.assert_array_equal(found, plain_reference(workload, operands), name)


def test_the_processors_binary32_rounds_as_integers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 32, (4000, 8))
    total = rng.integers(-(2**31), 2**31, bits.shape) >> bits
    total[0], total[1] = -(2**31), 2**31 - 1
    total[2:40] = rng.integers(-(2**25), 2**25, (38, 8)) | 1
    scale = (2.0 ** rng.uniform(-24, 3, 8)).astype(np.float32)
    scale[:4] = 0.5, 2.0**-7, 1.5, 2.0**20
    expected = oracle.scale_binary32(total, scale)
    np.testing.assert_array_equal(oracle.scale_rounded(total, scale), expected)
    monkeypatch.setattr(oracle, "_rounds_to_nearest", lambda: False)
    np.testing.assert_array_equal(oracle.scale_rounded(total, scale), expected)
    with pytest.raises(ArithmeticError, match="this process does not round to the nearest number"):
        oracle.scale_fine(total, scale, 0 * scale, 0 * scale)


def test_another_rounding_mode_is_noticed() -> None:
    import ctypes

    libm, upward = ctypes.CDLL("libm.so.6"), 0x800
    assert oracle._rounds_to_nearest()
    before = libm.fegetround()
    libm.fesetround(upward)
    try:
        noticed = not oracle._rounds_to_nearest()
    finally:
        libm.fesetround(before)
    assert noticed


def test_an_error_in_a_block_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    def fail(rows: slice) -> None:
        if rows.start == 30:
            raise MemoryError

    with pytest.raises(MemoryError):
        for_row_blocks(fail, 50, 10)


WITHOUT_ROOM = """
import os, resource, threading, time
os.sched_getaffinity = lambda _: set(range(16))
from int8tune.schedules.oracle.row_blocks import for_row_blocks
threading.stack_size(64 << 20)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)
done, names = [], set()
def work(rows):
    names.add(threading.current_thread().name)
    time.sleep(0.02)
    done.append(rows.start)
for_row_blocks(work, 200, 1)
assert sorted(done) == list(range(200))
print(len(names))
"""


def test_rows_are_done_by_as_many_threads_as_there_is_room_for() -> None:
    """A machine may have many cores and a limit on addresses, into which not all threads' stacks fit."""
    words = [sys.executable, "-c", WITHOUT_ROOM]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert 1 < int(done.stdout or 0) < 16, done.stderr
