"""Each x86 vector operation against numpy, and which instructions the code of a profile may have."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics.x86_vectors import VECTORS, X86Vectors
from int8tune.schedules.workload import parse_workload
from int8tune.schedules.x86.conv import ConvX86
from int8tune.schedules.x86.registers import REGISTERS, TAPS, Registers
from tests.support.kernels.kernels import compile_function
from tests.support.run.probes import VECTOR_PROFILES, any_target, host_target

Array = npt.NDArray[Any]
Emit = Callable[..., Any]
LOWEST, HIGHEST = -(2**31), 2**31 - 1
# Whose code is looked at: copied and skipped borders, both rounding rules, sums.
LAYERS = (
    "conv2d-u8s8-1x5x9x12-k3x3x40-s1-p1-float.c-u8",
    "conv2d-s8u8-1x5x9x5-k3x3x19-s2-p1-d2-wz-fixed.c-clamp-s8",
    "dense-s8s8-3x30-o70-s32",
)


def program(emit: Emit, operands: tuple[Array, ...], out: Array) -> Any:
    """`out[row] = emit(row, *buffers)`, an operation's vector, for operands and results of [rows, values]."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        buffers = [T.arg(f"in{i}", T.buffer((array.size,), str(array.dtype))) for i, array in enumerate(operands)]
        target = T.arg("out", T.buffer((out.size,), str(out.dtype)))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with T.serial(0, len(out)) as row:
            width = out.shape[1]
            at = T.ramp(row * width, 1, width) if width > 1 else row
            T.buffer_store(target, emit(row, *buffers), [at])
    return builder.get()


def run(profile: str, emit: Emit, operands: tuple[Array, ...], width: int, dtype: Any) -> Array:
    out = np.full((len(operands[0]), width), 85, dtype)
    executable = compile_function(program(emit, operands, out), host_target(profile))
    arguments = [tvm.runtime.tensor(np.ascontiguousarray(array).reshape(-1)) for array in (*operands, out)]
    executable.jit()["main"](*arguments)
    return np.asarray(arguments[-1].numpy()).reshape(out.shape)


def vector(buffer: Any, row: Any, dtype: str) -> Any:
    return buffer.vload([row * int(dtype.rpartition("x")[2])], dtype)


@pytest.fixture(params=VECTOR_PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def vectors(profile: str) -> X86Vectors:
    return VECTORS[profile]


@pytest.fixture
def registers(profile: str) -> Registers:
    return REGISTERS[profile]


def test_the_same_profiles_have_vectors_and_registers() -> None:
    assert list(VECTORS) == list(REGISTERS)
    for profile, vectors in VECTORS.items():
        target = any_target(profile)
        assert vectors.lanes == REGISTERS[profile].lanes == target.vector_lanes
        assert REGISTERS[profile].count == target.vector_registers


def dot_operands(lanes: int) -> tuple[Array, Array, Array]:
    """Sums, u8 data and s8 weights, [rows, lanes] and [rows, lanes, 4]: constant, alternating, at the ends, random."""
    rng = np.random.default_rng(0)
    turns = np.arange(TAPS) % 2
    data = [np.full(TAPS, value) for value in (0, 1, 127, 128, 255)] + [turns * 255, 255 - turns * 255]
    weight = [np.full(TAPS, value) for value in (-128, -127, -1, 1, 127)] + [turns * 255 - 128, 127 - turns * 255]
    pairs = [(a, w) for a in data for w in weight]
    fixed = [np.stack([np.tile(pair[i], (lanes, 1)) for pair in pairs]) for i in (0, 1)]
    drawn = [rng.choice([0, 255], (40, lanes, TAPS)), rng.choice([-128, 127], (40, lanes, TAPS))]
    random = [rng.integers(0, 256, (200, lanes, TAPS)), rng.integers(-128, 128, (200, lanes, TAPS))]
    all_data, all_weight = (np.concatenate([fixed[i], drawn[i], random[i]]) for i in (0, 1))
    total = rng.choice([0, -1, LOWEST, HIGHEST, 12345], (len(all_data), lanes))
    return total.astype(np.int32), all_data.astype(np.uint8), all_weight.astype(np.int8)


def expected_dots(total: Array, data: Array, weight: Array) -> Array:
    sums = total.astype(np.int64) + (data.astype(np.int64) * weight).sum(axis=2)
    wrapped: Array = (sums & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return wrapped


def test_dot_is_exact_and_wraps(profile: str, vectors: X86Vectors) -> None:
    lanes = vectors.lanes
    operands = dot_operands(lanes)

    def emit(row: Any, total: Any, data: Any, weight: Any) -> Any:
        words, bytes_ = f"int32x{lanes}", f"int8x{4 * lanes}"
        unsigned = T.reinterpret(vector(data, row, f"u{bytes_}"), dtype=bytes_)
        return vectors.dot(vector(total, row, words), unsigned, vector(weight, row, bytes_))

    assert np.array_equal(run(profile, emit, operands, lanes, np.int32), expected_dots(*operands))


def test_dot_of_packed_weights_and_a_word_is_exact(profile: str, vectors: X86Vectors, registers: Registers) -> None:
    lanes = vectors.lanes
    total, data, weight = dot_operands(lanes)
    words = np.ascontiguousarray(data[:, :1]).view(np.int32).reshape(-1, 1)
    packed = registers.pack(weight.astype(np.int16)).reshape(len(weight), -1)

    def emit(row: Any, total: Any, words: Any, weight: Any) -> Any:
        operand = vectors.data_operand(vectors.broadcast_word(words[row]))
        return vectors.multiply_add(vector(total, row, f"int32x{lanes}"), operand, vectors.load_weight(weight, row))

    expected = expected_dots(total, np.broadcast_to(data[:, :1], data.shape), weight)
    assert np.array_equal(run(profile, emit, (total, words, packed), lanes, np.int32), expected)


def test_broadcast_word(profile: str, vectors: X86Vectors) -> None:
    words = np.array([[0], [-1], [0x04030201], [LOWEST]], np.int32)
    found = run(profile, lambda row, words: vectors.broadcast_word(words[row]), (words,), 4 * vectors.lanes, np.int8)
    assert np.array_equal(found.view(np.int32), np.repeat(words, vectors.lanes, axis=1))


def test_nearest_int_takes_ties_to_even_and_what_does_not_fit_to_the_lowest(profile: str, vectors: X86Vectors) -> None:
    lanes, halves = vectors.lanes, np.arange(-40, 40) + 0.5
    near = np.array([0.49999997, 0.50000006, 8388607.5, -8388607.5, 16777217.0, 2147483520.0, -2147483648.0, -0.0])
    beyond = np.array([2147483648.0, -2147483904.0, 3e38, -3e38, np.inf, -np.inf, np.nan])
    drawn = np.random.default_rng(0).normal(0, 1e4, 401)
    values = np.concatenate([halves, near, -near, beyond, drawn]).astype(np.float32)
    values = np.resize(values, (-(-len(values) // lanes), lanes))
    found = run(profile, lambda row, v: vectors.nearest_int(vector(v, row, f"float32x{lanes}")), (values,), lanes, "i4")
    with np.errstate(invalid="ignore"):
        fits = (values >= LOWEST) & (values < 2.0**31)
        expected = np.where(fits, np.rint(np.where(fits, values, 0).astype(np.float64)), LOWEST).astype(np.int32)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("fused", [True, False])
def test_products_are_rounded_before_a_sum_or_not(profile: str, vectors: X86Vectors, fused: bool) -> None:
    lanes, rng = vectors.lanes, np.random.default_rng(2)
    # Their products and sums are exact in float64, and rarely in float32.
    operands = tuple(rng.integers(-(2**24), 2**24, (100, lanes)).astype(np.float32) for _ in range(3))

    def emit(row: Any, *buffers: Any) -> Any:
        left, right, addend = (vector(buffer, row, f"float32x{lanes}") for buffer in buffers)
        return vectors.fused(left, right, addend) if fused else vectors.unfused(left * right) + addend

    left, right, addend = operands
    once = (left.astype(np.float64) * right + addend).astype(np.float32)
    twice = left * right + addend
    assert not np.array_equal(once, twice)
    assert np.array_equal(run(profile, emit, operands, lanes, np.float32), once if fused else twice)


def integers(dtype: str, width: int, low: int, high: int) -> tuple[Array, Array]:
    """Two operands [rows, width]: limits of all narrower types, and random values."""
    rng = np.random.default_rng(1)
    limits = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, -32769, 65535, low, high]
    values = np.array([value for value in limits if low <= value <= high])
    rows = np.concatenate([rng.choice(values, (60, width)), rng.integers(low, high + 1, (20, width))]).astype(dtype)
    return rows, np.roll(rows, 7)


def packed(low: Array, high: Array, lowest: int, highest: int, dtype: Any) -> Array:
    """Within each 128 bits, the values of the first operand, then those of the second, saturated."""
    per_part = 16 // low.itemsize
    parts = [np.clip(rows, lowest, highest).astype(dtype).reshape(len(rows), -1, 1, per_part) for rows in (low, high)]
    return np.concatenate(parts, axis=2).reshape(len(low), -1)


def test_pack_32_to_16(profile: str, vectors: X86Vectors) -> None:
    lanes = vectors.lanes
    operands = integers("int32", lanes, LOWEST, HIGHEST)

    def emit(row: Any, low: Any, high: Any) -> Any:
        return vectors.pack_32_to_16(*(vector(values, row, f"int32x{lanes}") for values in (low, high)))

    expected = packed(*operands, -32768, 32767, np.int16)
    assert np.array_equal(run(profile, emit, operands, 2 * lanes, np.int16), expected)


@pytest.mark.parametrize("signed", [True, False])
def test_pack_16_to_8(profile: str, vectors: X86Vectors, signed: bool) -> None:
    values = 2 * vectors.lanes
    operands = integers("int16", values, -32768, 32767)

    def emit(row: Any, low: Any, high: Any) -> Any:
        kind = f"int16x{values}"
        return vectors.pack_16_to_8(vector(low, row, kind), vector(high, row, kind), signed)

    bounds = (-128, 127) if signed else (0, 255)
    expected = packed(*operands, *bounds, np.int8 if signed else np.uint8)
    assert np.array_equal(run(profile, emit, operands, 2 * values, expected.dtype), expected)


def test_add_saturated_16(profile: str, vectors: X86Vectors) -> None:
    values = 2 * vectors.lanes
    left, right = integers("int16", values, -32768, 32767)

    def emit(row: Any, left: Any, right: Any) -> Any:
        return vectors.add_saturated_16(*(vector(rows, row, f"int16x{values}") for rows in (left, right)))

    expected = np.clip(left.astype(np.int32) + right, -32768, 32767).astype(np.int16)
    assert np.array_equal(run(profile, emit, (left, right), values, np.int16), expected)


@pytest.mark.parametrize("name", ["add", "subtract"])
def test_sums_and_differences_wrap(profile: str, vectors: X86Vectors, name: str) -> None:
    lanes = vectors.lanes
    left, right = integers("int32", lanes, LOWEST, HIGHEST)

    def emit(row: Any, left: Any, right: Any) -> Any:
        return getattr(vectors, name)(*(vector(rows, row, f"int32x{lanes}") for rows in (left, right)))

    expected = getattr(np, name)(left, right)
    assert np.array_equal(run(profile, emit, (left, right), lanes, np.int32), expected)


@pytest.mark.parametrize("length", [2, 4, 16, 64])
def test_sum_of_wraps(profile: str, vectors: X86Vectors, length: int) -> None:
    rows, _ = integers("int32", length, LOWEST, HIGHEST)
    found = run(profile, lambda row, v: vectors.sum_of(vector(v, row, f"int32x{length}")), (rows,), 1, np.int32)
    expected = rows.astype(np.int64).sum(axis=1, keepdims=True) & 0xFFFFFFFF
    assert np.array_equal(found, expected.astype(np.uint32).view(np.int32))


@cache
def assembly(key: str, profile: str) -> str:
    workload, target, template = parse_workload(key), any_target(profile), ConvX86()
    kernel = template.apply(workload, target, template.space(workload, target).default)
    return str(compile_function(kernel.function, target).mod.inspect_source("asm"))


@pytest.mark.parametrize("key", LAYERS)
@pytest.mark.matrix(at_most=4)
def test_code_has_the_dot_product_of_its_profile_and_no_other(profile: str, key: str) -> None:
    dots = re.findall(r"\s((?:\{vex\}\s)?vpdpbusd|vpmaddwd|vpmaddubsw)\s.*%([xyz]mm)", assembly(key, profile))
    assert (
        set(dots)
        == {
            "x86-avx512vnni": {("vpdpbusd", "zmm")},
            "x86-avxvnni": {("{vex}\tvpdpbusd", "ymm")},
            "x86-avx2": {("vpmaddwd", "ymm")},
        }[profile]
    )


@pytest.mark.parametrize("profile", ["x86-avxvnni", "x86-avx2"])
@pytest.mark.parametrize("key", LAYERS)
def test_code_for_256_bits_has_nothing_of_avx512(profile: str, key: str) -> None:
    text = assembly(key, profile)
    assert "%ymm" in text
    assert re.findall(r"%zmm\d+|%[xy]mm(?:1[6-9]|[23]\d)\b|%k[0-7]|\{evex\}|\{1to\d+\}", text) == []
