"""Operator kernels that are wrong on purpose: what `test_compiler_operator_kernels` draws catches them."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import re
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from zlib import crc32

import pytest

from int8tune.compiler import compile as compiling
from int8tune.compiler.graph import Kind
from int8tune.compiler.operator_kernels.registry import KERNELS
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.schedules.target import Target
from tests.compiler import test_pools as pools
from tests.compiler import test_tflite_fixed as fixed
from tests.compiler import test_vector_kernels as vectors
from tests.compiler.test_numbers import assert_chains_exact, assert_quotients_rounded
from tests.compiler.test_operator_kernels import (
    LONG,
    assert_every_product_exact,
    assert_every_shift_exact,
    assert_large_mean_exact,
    assert_products_rounded,
    assert_sums_rounded,
    exact,
)
from tests.support.kernels import operator_runs
from tests.support.models.compiled import assert_exact
from tests.support.mutation.source_mutants import Mutant, mutants_of
from tests.support.run.probes import host_target

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

PACKAGE = "int8tune.compiler.operator_kernels"
LIMIT_S = 100.0
# Of the functions of `kernel`, those that compute: the others divide loops, which changes no value.
KERNEL_FUNCTIONS = frozenset({"stored", "bounded", "in_steps", "nearest_even", "nearest_away", "rounded_alone"})
# One in three of all mutants is looked at.
EVERY = 3

# What these propose is compared with the whole table before it is taken: a wrong one is left out.
PROPOSALS = frozenset({"step_between", "row_of"})
SHARED_ROWS = "who shares the rows among threads changes no value"
OF_ZERO = "only a sum of 0 is told from others, whose magnitude is 0"
NO_ALIAS = "a promise to the compiler that arguments don't overlap, which they don't"
NO_SCHEDULE = "says that schedules may change the function, which none does"
SATURATED = "they differ below zero, where unsigned values are 0"
OF_NO_VALUE = "0 times a slope is 0, too"
OTHER_WAY = "both ways that it chooses from are of the same values"
TWICE = "some vectors, blocks or groups of channels are computed twice"
AGAIN = "all windows are computed again, as the rule says"
ONE_ROW = "windows of one row of an image have none below"
NOTHING = "an output without values"
PROVEN = "which quotients are looked at, all of which are right"
LAST_BIT = "the last of a reciprocal's 31 bits, of which an output has 8"

LET_THROUGH: Mapping[str, str] = {
    "average_pool: total < 0: 0 -> 1": OF_ZERO,
    "average_pool: tirx.Select(total < 0, -1, 1): total < 0 -> total <= 0": OF_ZERO,
    "resize: total < 0: 0 -> 1": OF_ZERO,
    "resize: tirx.Select(total < 0, -1, 1): total < 0 -> total <= 0": OF_ZERO,
    "_concat_values: T.parallel(0, rows) if target.threads > 1 and rows > 1 else T.serial(0, rows): "
    "target.threads > 1 and rows > 1 -> target.threads > 1 or rows > 1": SHARED_ROWS,
    "_concat_values: target.threads > 1 and rows > 1: target.threads > 1 -> target.threads >= 1": SHARED_ROWS,
    "_concat_values: target.threads > 1 and rows > 1: rows > 1 -> rows >= 1": SHARED_ROWS,
    "_concat_values: target.threads > 1: 1 -> 2": SHARED_ROWS,
    "_concat_values: rows > 1: 1 -> 2": SHARED_ROWS,
    "resize: tirx.floor(total + 0.5).astype: tirx.floor(total + 0.5) -> tirx.trunc(total + 0.5)": SATURATED,
    "prelu: tirx.Select(data >= 0, _scaled(data, constants.above), _scaled(data * slope, constants.below)): "
    "data >= 0 -> data > 0": OF_NO_VALUE,
    "_concat_values: True: True -> False": NO_ALIAS,
    "_concat_values: {'global_symbol': 'main', 'tirx.noalias': True}: True -> False": NO_ALIAS,
    "_fixed_share: (_long(sums[row]) << headroom[row]) - (1 << 31) + int(INT32.max) + 1 >> 1: "
    "(_long(sums[row]) << headroom[row]) - (1 << 31) + int(INT32.max) + 1 -> "
    "(_long(sums[row]) << headroom[row]) - (1 << 31) + int(INT32.max) - 1": LAST_BIT,
    "_fixed_share: (_long(sums[row]) << headroom[row]) - (1 << 31) + int(INT32.max) + 1: 1 -> 2": LAST_BIT,
    "in_steps: reciprocal(scale, high - low + 1): high - low + 1 -> high - low - 1": PROVEN,
    "in_steps: high - low + 1: high - low -> high + low": PROVEN,
    "in_steps: high - low + 1: 1 -> 2": PROVEN,
    "transpose: target.threads if math.prod(data.shape) >= LEAST_SHARED_VALUES else 1: 1 -> 2": SHARED_ROWS,
    "_vectors_of: True: True -> False": NO_SCHEDULE,
    "_vectors_of: (index * blocks // threads, (index + 1) * blocks // threads): (index + 1) * blocks // threads -> "
    "(index + 1) * blocks * threads": TWICE,
    "_vectors_of: {'global_symbol': 'main', 'tirx.noalias': True}: True -> False": NO_ALIAS,
    "_windows: axes[-1] + 1: 1 -> 2": OTHER_WAY,
    "_windows: list(axes) != list(range(first, behind)) or inner == 1: inner == 1 -> inner != 1": OTHER_WAY,
    "_windows: inner == 1: 1 -> 2": OTHER_WAY,
    "_windows: (1, taps): 1 -> 2": ONE_ROW,
    "_Loops: threads > 1: 1 -> 2": SHARED_ROWS,
    "_Loops: self._axis(index + 1, moved, at + place * size, 1): 1 -> 2": SHARED_ROWS,
    "_Loops: length < LANES: length < LANES -> length <= LANES": OTHER_WAY,
    "_Writer: threads if size >= LEAST_SHARED_RESULTS else 1: threads if size >= LEAST_SHARED_RESULTS else 1 -> "
    "1 if size >= LEAST_SHARED_RESULTS else threads": SHARED_ROWS,
    "_Writer: threads if size >= LEAST_SHARED_RESULTS else 1: size >= LEAST_SHARED_RESULTS -> "
    "size > LEAST_SHARED_RESULTS": SHARED_ROWS,
    "_Writer: {'global_symbol': 'main', 'tirx.noalias': True}: True -> False": NO_ALIAS,
    "_Writer: length % width: length % width -> length + width": TWICE,
    "write_transpose: not stays and min(extents[-1], extents[ranks[-1]]) < count: "
    "min(extents[-1], extents[ranks[-1]]) < count -> min(extents[-1], extents[ranks[-1]]) <= count": OTHER_WAY,
    "_Blocks: -(-self.extents[rows] // self.count): -self.extents[rows] // self.count -> "
    "-self.extents[rows] * self.count": TWICE,
    "_Blocks: outer and self.extents[outer[0]] >= threads: self.extents[outer[0]] >= threads -> "
    "self.extents[outer[0]] > threads": SHARED_ROWS,
    "_Writer: math.prod(windows.image) < LEAST_SHARED_VALUES: math.prod(windows.image) < LEAST_SHARED_VALUES -> "
    "math.prod(windows.image) <= LEAST_SHARED_VALUES": SHARED_ROWS,
    "AverageSlide: tirx.const(0, 'int16'): 0 -> 1": OF_ZERO,
    "MaximumSlide: self.types[1]: 1 -> 2": OTHER_WAY,
    "rows_of: vectors is None or math.prod(data.shape[axis + 1:]) != 1 or data.shape[axis] < vectors.width: "
    "vectors is None -> vectors is not None": OTHER_WAY,
    "rows_of: vectors is None or math.prod(data.shape[axis + 1:]) != 1 or data.shape[axis] < vectors.width: "
    "data.shape[axis] < vectors.width -> data.shape[axis] <= vectors.width": OTHER_WAY,
    "_is_any: _every(-1, lanes): -1 -> 1": OTHER_WAY,
    "_is_any: _every(0, lanes): 0 -> 1": AGAIN,
    "_is_any: -1: 1 -> 2": OTHER_WAY,
    "write_slide: True: True -> False": NO_SCHEDULE,
    "AverageSlide: -1: 1 -> 2": OTHER_WAY,
    "max_pool: math.prod(windows.kernel) <= MOST_TAPS: math.prod(windows.kernel) <= MOST_TAPS -> "
    "math.prod(windows.kernel) < MOST_TAPS": OTHER_WAY,
    "_write: -(-channels // width): -channels // width -> -channels * width": TWICE,
    "WindowSums: T.min(end, extent) if last > extent else end: last > extent -> last >= extent": OTHER_WAY,
    "_Writer: target.vector_lanes * _BYTES_OF_A_LANE // item_bytes: target.vector_lanes * _BYTES_OF_A_LANE -> "
    "target.vector_lanes + _BYTES_OF_A_LANE": OTHER_WAY,
    "_Writer: target.vector_lanes * _BYTES_OF_A_LANE // item_bytes: target.vector_lanes * _BYTES_OF_A_LANE // "
    "item_bytes -> target.vector_lanes * _BYTES_OF_A_LANE * item_bytes": OTHER_WAY,
    "_Writer: {'8': 1, '6': 2}: 1 -> 2": OTHER_WAY,
    "_Writer: slide.types[1]: 1 -> 2": OTHER_WAY,
    "_Writer: min(MOST_VECTORS, MOST_KEPT // self.columns, whole): MOST_KEPT // self.columns -> "
    "MOST_KEPT * self.columns": OTHER_WAY,
    "_Writer: -1: 1 -> 2_1": OTHER_WAY,
    "_Writer: -(-self.channels // (vectors * self.lanes)) * vectors: -(-self.channels // (vectors * self.lanes)) -> "
    "-self.channels // (vectors * self.lanes)": OTHER_WAY,
    "_Writer: windows.padding[0] > 0 or last > windows.image[1]: last > windows.image[1] -> "
    "last >= windows.image[1]": OTHER_WAY,
    "_Writer: (extent - self.columns + padding) // stride: extent - self.columns + padding -> "
    "extent - self.columns - padding": OTHER_WAY,
    "_Writer: max(0, -((self.kept - padding) // stride)): 0 -> 1": OTHER_WAY,
    "_Writer: -((self.kept - padding) // stride): (self.kept - padding) // stride -> "
    "(self.kept - padding) * stride": OTHER_WAY,
    "_high_product: 1 << 30: 30 -> 31": LAST_BIT,
    "_high_product: 1 << 30: 1 -> 2": LAST_BIT,
    "concat: vectors is not None and all((_fills(part, rows, vectors) for part in parts)): vectors is not None -> "
    "vectors is None": OTHER_WAY,
    "_fills: part.value.type in BYTES and (part.table is None or part.length * rows >= vectors.width): "
    "part.table is None or part.length * rows >= vectors.width -> "
    "part.table is None and part.length * rows >= vectors.width": OTHER_WAY,
    "_fills: part.table is None or part.length * rows >= vectors.width: part.length * rows >= vectors.width -> "
    "part.length * rows > vectors.width": OTHER_WAY,
    "_concat_vectors: -(-rows // of_block): -rows // of_block -> -rows * of_block": TWICE,
    "_rows_of_block: -(-width // shortest): -width // shortest -> -width * shortest": OTHER_WAY,
    "_rows_of_block: [1]: 1 -> 2": NOTHING,
    "_look_up: length % vectors.width == 0: length % vectors.width -> length + vectors.width": OTHER_WAY,
}
"""Mutants that no drawn operator shows, by place, and why."""


# LLVM takes a difference of integers for one that does not wrap around: a bound before it is idle, but for a promise.
IDLE_BOUND = re.compile(r"nearest_even\(bounded\(.*: bounded\((?P<value>.+)\) -> (?P=value)$")


def module_of(kind: Kind) -> str:
    return KERNELS[kind].__module__.rsplit(".", 1)[-1]


KINDS: dict[str, list[Kind]] = {}
for each in KERNELS:
    KINDS.setdefault(module_of(each), []).append(each)
# Each of these is part of several kinds' kernels.
KINDS |= {
    "kernel": [Kind.QUANTIZE, Kind.MULTIPLY, Kind.RESIZE],
    "tables": [Kind.LOOKUP, Kind.CONCAT],
    "pool_slides": [Kind.MAX_POOL, Kind.AVERAGE_POOL],
    "sliding": [Kind.MAX_POOL, Kind.AVERAGE_POOL],
}


def _looked_up(profile: str) -> None:
    for length in (64, 300):
        vectors.test_tables_of_bytes(profile, length)
    for threads in (1, 2):
        vectors.test_tables_of_many_bytes_on_threads(threads)


def _softmax_of_rows(profile: str) -> None:
    vectors.test_softmax_of_rows(profile, 0.05)
    vectors.test_softmax_of_rows(profile, 0.003)
    vectors.test_softmax_of_shares_that_are_ties(profile)
    vectors.test_softmax_on_threads()


def _spread_over_axes(profile: str) -> None:
    exact(Kind.DIVIDE, host_target(profile), LONG, True)
    vectors.test_products_spread_over_axes(profile)
    for shape in vectors.LARGE:
        vectors.test_products_on_threads(shape)


def _concatenated(profile: str) -> None:
    for rows, lengths in vectors.CONCATENATED:
        vectors.assert_concatenated(profile, rows, lengths)
    vectors.test_parts_of_rows_on_threads()


def _moved_in_blocks(profile: str) -> None:
    for element in vectors.MOVED:
        vectors.test_transpositions(profile, element)
    assert not importlib.import_module(f"{PACKAGE}.transposition").is_copy((3, 5), (1, 0))
    vectors.test_a_large_transposition_on_threads()


def _summed_over_windows(profile: str) -> None:
    _averaged(profile)
    for axes in vectors.AXES:
        vectors.test_means_of_axes(profile, axes)


def _averaged(profile: str) -> None:
    for include_pad in (False, True):
        pools.test_averages_of_windows(profile, include_pad)
    for channels in pools.CHANNELS:
        pools.test_sums_in_doubt_are_averaged_in_order(profile, channels)
    pools.test_averages_of_words_keep_to_bounds()
    pools.test_windows_at_the_border_may_all_be_in_doubt(profile)
    pools.test_numbers_are_rounded_before_they_are_added()
    graph = read_tflite(fixed.POOLS["of more than binary32 has whole"], "pool")
    with tempfile.TemporaryDirectory() as folder:
        assert_exact(graph, host_target(profile), fixed.barely_below_a_half(), Path(folder))


def _slid_over_images(profile: str) -> None:
    _averaged(profile)
    pools.test_largest_of_windows(profile)
    for element, taps in itertools.product(("u8", "s8"), pools.TAPS):
        pools.test_halves_of_the_fixed_rule_go_away_from_zero(element, taps)
    for kind in (Kind.MAX_POOL, Kind.AVERAGE_POOL):
        pools.test_rows_are_shared_among_threads(kind)


# What drawn operators are too small for.
JUDGES: dict[str, Callable[[str], None]] = {
    "concat": _concatenated,
    "lookup": _looked_up,
    "mean": _summed_over_windows,
    "pointwise": _spread_over_axes,
    "pool": _slid_over_images,
    "pool_slides": _slid_over_images,
    "sliding": _slid_over_images,
    "softmax_rows": _softmax_of_rows,
    "transposition": _moved_in_blocks,
    "windows": _summed_over_windows,
}


def all_mutants() -> Iterator[tuple[str, Mutant]]:
    for module in dict.fromkeys((*KINDS, *JUDGES)):
        spec = importlib.util.find_spec(f"{PACKAGE}.{module}")
        assert spec is not None
        assert spec.origin is not None
        functions = KERNEL_FUNCTIONS if module == "kernel" else None
        for mutant in mutants_of(Path(spec.origin).read_text(encoding="utf-8"), functions):
            is_left_out = mutant.place in LET_THROUGH or IDLE_BOUND.search(mutant.place) is not None
            if not is_left_out and mutant.place.partition(":")[0] not in PROPOSALS:
                yield module, mutant


MUTANTS = [(module, mutant) for module, mutant in all_mutants() if crc32(mutant.place.encode()) % EVERY == 0]


@pytest.mark.timeout(240)
@pytest.mark.thorough
@pytest.mark.parametrize(("module", "mutant"), MUTANTS, ids=lambda each: getattr(each, "place", each))
def test_mutants_are_caught(module: str, mutant: Mutant, native: Target) -> None:
    assert verdict(module, mutant, native) == "caught"


@pytest.mark.thorough
def test_the_source_itself_is_not_caught(native: Target) -> None:
    spec = importlib.util.find_spec(f"{PACKAGE}.multiply")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    assert verdict("multiply", Mutant("", lambda: source), native) == "survived"


def verdict(module: str, mutant: Mutant, target: Target) -> str:
    """`caught`, also by a crash or by taking too long, or `survived`."""
    child = os.fork()
    if child == 0:
        _judge(module, mutant, target)
    ended = os.pidfd_open(child)
    in_time = bool(select.select([ended], [], [], LIMIT_S)[0])
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(ended)
    return "survived" if in_time and status == 0 else "caught"


def _judge(module: str, mutant: Mutant, target: Target) -> NoReturn:
    """The child's whole life: it leaves with 0 where every kernel is exact."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        compiling.KERNELS = operator_runs.KERNELS = _kernels_with(module, mutant)
        if module in JUDGES:
            JUDGES[module](target.profile)
        for kind in KINDS.get(module, ()):
            exact(kind, target, LONG, True)
            if kind is Kind.ELEMENTWISE:
                assert_products_rounded(target)
                assert_chains_exact(target)
            if kind is Kind.QUANTIZE:
                assert_quotients_rounded(target)
            if kind in (Kind.MULTIPLY, Kind.SQUARED_DIFFERENCE):
                assert_every_product_exact(target)
            if kind is Kind.WORD_ARITHMETIC:
                assert_every_shift_exact(target)
            if kind is Kind.WORD_SUMS:
                assert_sums_rounded(target)
            if kind is Kind.MEAN:
                assert_large_mean_exact(2.0**8, target)
        code = 0
    finally:
        os._exit(code)


def _kernels_with(module: str, mutant: Mutant) -> dict[Kind, Callable[..., Any]]:
    """The table of kernels as it is with the mutant in place of its module."""
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]
    name = f"{PACKAGE}.{module}"
    wrong = ModuleType(name)
    wrong.__package__ = PACKAGE
    sys.modules[name] = wrong
    exec(compile(mutant.source, name, "exec"), vars(wrong))
    kernels: dict[Kind, Callable[..., Any]] = importlib.import_module(f"{PACKAGE}.registry").KERNELS
    return kernels
