"""What LLVM makes of loops of few turns."""

from __future__ import annotations

import re
from functools import reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tvm import te, tirx

from int8tune.compiler.operator_kernels.kernel import bounded, nearest_even
from int8tune.schedules import lowering
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.target import PROFILES
from tests.support.kernels.operator_runs import run_guarded
from tests.support.run.probes import host_target

pytestmark = pytest.mark.promise(1)

IMAGES, HEIGHT, ROWS, DOWN, ACROSS, PADDING = 3, 7, 5, 7, 3, 3
NATIVE = [profile.name for profile in PROFILES if not profile.name.startswith("arm")]
ONE_OF_SEVERAL = re.compile(r"llvm\.masked\.store\.[\w.]+\(.*<i1 true(?:, i1 false)+>\)")


def averages_as_bytes(columns: int) -> Any:
    """Averages of windows [7, 3] at every other column of s8: too much for a loop of few turns to be written out."""
    image = te.placeholder((IMAGES, HEIGHT, columns, 1), dtype="int8", name="image")
    turns = columns // 2 + 1
    counts = te.placeholder((ROWS, turns), dtype="float32", name="counts")

    def number(n: Any, y: Any, x: Any, c: Any) -> Any:
        inside = tirx.all(y >= PADDING, x >= 1, y < PADDING + HEIGHT, x < 1 + columns)
        stored = (image[n, y - PADDING, x - 1, c].astype("int32") + 90).astype("float32")
        return tirx.if_then_else(inside, stored, tirx.const(0.0, "float32"))

    numbers = te.compute((IMAGES, ROWS + DOWN - 1, columns + ACROSS, 1), number)

    def made(n: Any, y: Any, x: Any, c: Any) -> Any:
        taps = (numbers[n, y + down, 2 * x + across, c] for down, across in product(range(DOWN), range(ACROSS)))
        steps = nearest_even(bounded(reduce(add, taps) / counts[y, x] - 90))
        return tirx.min(tirx.max(steps, -128), 127).astype("int8")

    return te.create_prim_func([image, counts, te.compute((IMAGES, ROWS, turns, 1), made)])


@pytest.mark.parametrize("profile", NATIVE)
@pytest.mark.parametrize("columns", [9, 13, 17, 25])
@pytest.mark.matrix(at_most=8)
def test_nothing_is_written_behind_a_short_loop(profile: str, columns: int) -> None:
    rng, turns = np.random.default_rng(columns), columns // 2 + 1
    image = rng.integers(-128, 128, (IMAGES, HEIGHT, columns, 1)).astype(np.int8)
    counts = rng.integers(1, 9, (ROWS, turns)).astype(np.float32)
    padded = np.pad(image[..., 0].astype(np.float32) + 90, ((0, 0), (PADDING, PADDING), (1, 2)))
    sums = sliding_window_view(padded, (DOWN, ACROSS), (1, 2))[:, :ROWS, : 2 * turns : 2].sum((3, 4))
    expected = np.rint(sums / counts - 90).clip(-128, 127).astype(np.int8)[..., None]
    entry = compile_function(averages_as_bytes(columns), host_target(profile)).jit()["main"]
    np.testing.assert_array_equal(run_guarded(entry, [image, counts], ~expected), expected)


def test_llvm_would_write_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """When LLVM has no masked store of one byte in this loop any more, the test above has to find another one."""
    target, function = host_target("x86-avx512vnni"), averages_as_bytes(17)
    assert not ONE_OF_SEVERAL.search(compile_function(function, target).mod.inspect_source("ll"))
    monkeypatch.setattr(lowering, "llvm_options", lambda target: dict(target.tvm))
    assert ONE_OF_SEVERAL.search(compile_function(function, target).mod.inspect_source("ll"))
