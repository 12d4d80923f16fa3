"""Kernels that measure the device itself: its int8 peak and the bandwidth of its memories.

Probes have fixed inputs and known outputs, so they are verified like any candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.arm.conv import PROFILES as ARM_PROFILES
from int8tune.schedules.gpus import GROUP, WARP, Gpu
from int8tune.schedules.target import Target
from int8tune.schedules.x86.amx import PROFILE as AMX_PROFILE
from int8tune.schedules.x86.amx_form import LANES, REGISTER_ROWS, ROW_BYTES
from int8tune.schedules.x86.registers import REGISTERS, TAPS, Registers

# Chains of dependent sums that run side by side: more than the instruction's latency times its throughput.
# A multiply-add needs a register for the weights of each chain, too.
MULTIPLY_ADD_CHAINS = 12
# Registers that sum what a bandwidth probe reads: in flight together, and no more than any target has.
READ_REGISTERS = 12
# Registers that chains of dot products leave to weights and products.
DOT_RESERVE = 4
PEAK_STEPS = 8000
# Registers of sums beside one of data and one of weights, and the products of each.
TILE_CHAINS, TILE_STEPS = 6, 800
LINE_BYTES = 64
# What is read is dense up to here. Beyond, all is zero but a row for each so many bytes, so that its file has holes:
# hundreds of MiB would take longer to write than all else of a device's check.
MOST_DENSE_BYTES, BYTES_PER_ROW = 32 << 20, 16 << 20
# Of a GPU's peak loop, the blocks of each multiprocessor, and what is in them.
GPU_BLOCKS, GPU_THREADS, GPU_CHAINS, GPU_STEPS = 2, 256, 8, 1000
MATRIX_PRODUCTS = 16 * 8 * 32


@dataclass(frozen=True, slots=True)
class Probe:
    """A PrimFunc with one case.

    Attributes:
        work: what one call does, int8 operations (a multiply and an add are two) or bytes read.
    """

    function: Any
    inputs: tuple[npt.NDArray[Any], ...]
    expected: npt.NDArray[Any]
    work: int


def word_probe(target: Target) -> Probe:
    """A GPU's loop of dot products of four bytes (DP4A), which its templates without tensor cores are held against."""
    assert target.gpu is not None
    return gpu_peak_probe(target.gpu, by_matrices=False)


def peak_probe(target: Target) -> Probe:
    """A loop of the target's fastest exact int8 multiply-add, on registers or one cache line, in each thread."""
    if target.profile == AMX_PROFILE:
        return _tile_probe(target.threads)
    if target.profile in REGISTERS:
        return _dot_probe(target.profile, target.threads)
    if target.profile in ARM_PROFILES:
        return _arm_probe(ARM_PROFILES[target.profile], target.threads)
    if target.gpu is not None:
        by_groups = target.gpu.has_group_products
        return gpu_group_probe(target.gpu) if by_groups else gpu_peak_probe(target.gpu, by_matrices=True)
    return _multiply_add_probe(target.vector_lanes, target.threads)


def _arm_probe(has_dot: bool, threads: int) -> Probe:
    """Products of s8: a dot product adds four neighbours; else those of both halves share 16 bits, then neighbours."""
    from int8tune.schedules.arm.peak_kernel import PEAK_CHAINS, write_peak

    rng = np.random.default_rng(0)
    start = rng.integers(-(2**31), 2**31, (threads, PEAK_CHAINS, 4)).astype(np.int32)
    weight = rng.integers(-127, 128, 16).astype(np.int8)
    total = start.copy()
    for _ in range(PEAK_STEPS):
        products = total.view(np.int8).astype(np.int32) * weight
        shape = (4, 4) if has_dot else (2, 4, 2)
        total += products.reshape(*total.shape[:2], *shape).sum(axis=-1 if has_dot else (-3, -1), dtype=np.int32)
    return Probe(write_peak(has_dot, threads, PEAK_STEPS), (start, weight), total, 2 * 4 * start.size * PEAK_STEPS)


def gpu_group_probe(gpu: Gpu) -> Probe:
    """Products of s8 by four warps, which read both matrices from shared memory (`wgmma`)."""
    from int8tune.schedules.cuda.probe_kernels import (
        GROUP_COLUMNS,
        GROUP_DEPTH,
        GROUP_ROWS,
        SUMS,
        Peak,
        write_group_peak,
    )

    rng = np.random.default_rng(0)
    peak = Peak(GPU_BLOCKS * gpu.multiprocessors, GROUP, 1, GPU_STEPS)
    data, weight = (
        rng.integers(-128, 128, (rows, GROUP_DEPTH)).astype(np.int8) for rows in (GROUP_ROWS, GROUP_COLUMNS)
    )
    products = data.astype(np.int32) @ weight.T.astype(np.int32) * np.int32(peak.steps)
    # Rows by warp, half of 16 and lane; columns by eight, lane and pair.
    of_lanes = products.reshape(4, 2, 8, GROUP_COLUMNS // 8, 4, 2).sum(axis=3, dtype=np.int32).transpose(0, 2, 3, 1, 4)
    of_block = of_lanes.reshape(GROUP // WARP, WARP, SUMS)
    expected = np.ascontiguousarray(np.tile(of_block, (peak.blocks, 1, 1)))
    work = 2 * GROUP_ROWS * GROUP_COLUMNS * GROUP_DEPTH * peak.steps * peak.blocks
    return Probe(write_group_peak(gpu, peak), (_in_shared(data), _in_shared(weight)), expected, work)


def _in_shared(matrix: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """Rows of 128 bytes as they are to lie in shared memory: each eight have their chunks in eight orders."""
    from int8tune.schedules.cuda.channel_order import CHUNK_BYTES, swizzled

    chunks = matrix.reshape(len(matrix), -1, CHUNK_BYTES)
    lies = np.empty_like(chunks)
    for row, chunk in np.ndindex(*chunks.shape[:2]):
        lies[row, swizzled(row, chunk, chunks.shape[1])] = chunks[row, chunk]
    return lies.reshape(-1).view(np.int32)


def gpu_peak_probe(gpu: Gpu, *, by_matrices: bool) -> Probe:
    """Products of s8 by tensor cores, or by dot products of four bytes (`schedules.cuda.probe_kernels`)."""
    from int8tune.schedules.cuda.probe_kernels import SUMS, WEIGHTS, Peak, write_peak

    rng = np.random.default_rng(0)
    peak = Peak(GPU_BLOCKS * gpu.multiprocessors, GPU_THREADS, GPU_CHAINS, GPU_STEPS)
    start = rng.integers(-(2**31), 2**31, (peak.chains, WARP, SUMS)).astype(np.int32)
    weight = rng.integers(-(2**31), 2**31, (WARP, WEIGHTS)).astype(np.int32)
    total = start.copy()
    for _ in range(peak.steps):
        total += _warp_products(total, weight) if by_matrices else _word_products(total, weight[:, :1])
    expected = np.broadcast_to(total.sum(axis=0, dtype=np.int32), (peak.warps, WARP, SUMS))
    products = MATRIX_PRODUCTS if by_matrices else WARP * SUMS * TAPS
    work = 2 * products * peak.chains * peak.steps * peak.warps
    return Probe(write_peak(gpu, peak, by_matrices=by_matrices), (start, weight), np.ascontiguousarray(expected), work)


def _word_products(words: npt.NDArray[np.int32], weight: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The sum of the products of the four bytes of each word and of its lane's weight."""
    data, factors = (np.ascontiguousarray(array).view(np.int8).astype(np.int32) for array in (words, weight))
    products = data.reshape(*words.shape, TAPS) * factors[:, None]
    return np.asarray(products.sum(axis=-1, dtype=np.int32))


def _warp_products(words: npt.NDArray[np.int32], weight: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """What lanes get of 16 x 32 by 32 x 8 bytes that they have (PTX ISA, `mma.m16n8k32`).

    Lane `4 i + j` has of rows `i` and `i + 8` the word `j` of both halves of 32 bytes, and so of column `i`; and gets
    the sums of columns `2 j` and `2 j + 1` of row `i`, then of row `i + 8`.
    """
    chains = len(words)
    data = words.reshape(chains, 8, 4, 2, 2).transpose(0, 4, 1, 3, 2).reshape(chains, 16, 8)
    factors = weight.reshape(8, 4, 2).transpose(0, 2, 1).reshape(8, 8)
    rows = np.ascontiguousarray(data).view(np.int8).astype(np.int32)
    columns = np.ascontiguousarray(factors).view(np.int8).astype(np.int32)
    sums = rows @ columns.T
    return np.ascontiguousarray(sums.reshape(chains, 2, 8, 4, 2).transpose(0, 2, 3, 1, 4).reshape(chains, WARP, 4))


def _dot_probe(profile: str, threads: int) -> Probe:
    from int8tune.schedules.intrinsics.x86_vectors import VECTORS
    from int8tune.schedules.x86.peak_kernel import write_peak

    rng, registers = np.random.default_rng(0), REGISTERS[profile]
    chains, lanes = registers.count - DOT_RESERVE, registers.lanes
    start = rng.integers(-(2**31), 2**31, (threads, chains, lanes)).astype(np.int32)
    weight = rng.integers(-128, 128, (lanes, TAPS)).astype(np.int16)
    function = write_peak(VECTORS[profile], registers, threads, chains, PEAK_STEPS)
    inputs = (start, registers.pack(weight))
    return Probe(function, inputs, _own_dots(registers, start, weight), 2 * start.size * PEAK_STEPS * TAPS)


def _tile_probe(threads: int) -> Probe:
    from int8tune.schedules.x86.peak_kernel import write_tile_peak

    rng, shape = np.random.default_rng(0), (TILE_CHAINS, REGISTER_ROWS, LANES)
    data = rng.integers(0, 256, (REGISTER_ROWS, ROW_BYTES)).astype(np.uint8)
    weight = rng.integers(-128, 128, (ROW_BYTES // TAPS, LANES, TAPS)).astype(np.int8)
    product = data.astype(np.int32) @ weight.transpose(0, 2, 1).reshape(ROW_BYTES, LANES).astype(np.int32)
    expected = np.broadcast_to(product * TILE_STEPS, (threads, *shape)).astype(np.int32)
    work = 2 * threads * TILE_STEPS * TILE_CHAINS * product.size * ROW_BYTES
    return Probe(write_tile_peak(threads, shape, TILE_STEPS), (data, weight), expected, work)


def _own_dots(registers: Registers, start: npt.NDArray[np.int32], weight: npt.NDArray[np.int16]) -> npt.NDArray[Any]:
    """What `write_peak` computes: operands of one part are four u8 a lane, those of two are two int16, used twice."""
    parts = registers.parts
    factors = weight.reshape(-1, TAPS // parts, parts).sum(axis=2, dtype=np.int32)
    values, total = np.uint8 if parts == 1 else np.int16, start.copy()
    for _ in range(PEAK_STEPS):
        data = total.view(values).reshape(*start.shape, TAPS // parts)
        total += np.einsum("hclt,lt->hcl", data, factors, dtype=np.int32, casting="unsafe")
    return total


def _multiply_add_probe(lanes: int, threads: int) -> Probe:
    from int8tune.schedules.compute_probes import peak_multiply_add

    rng, chains = np.random.default_rng(0), MULTIPLY_ADD_CHAINS
    data = rng.integers(0, 256, PEAK_STEPS).astype(np.uint8)
    weight = rng.integers(-128, 128, (chains, lanes)).astype(np.int8)
    expected = np.repeat((weight.astype(np.int64) * int(data.astype(np.int64).sum()))[None], threads, axis=0)
    function = peak_multiply_add(threads, chains, PEAK_STEPS, lanes)
    return Probe(function, (data, weight), expected.astype(np.int32), 2 * threads * chains * PEAK_STEPS * lanes)


def bandwidth_probe(target: Target, size_bytes: int) -> Probe:
    """A loop that reads `size_bytes` (rounded down to whole lines) and sums them as int32."""
    from int8tune.schedules.compute_probes import read_lines

    if target.gpu is not None:
        return _gpu_bandwidth_probe(target.gpu, size_bytes)
    chains = READ_REGISTERS * 4 * target.vector_lanes // LINE_BYTES
    lines = max(chains, size_bytes // LINE_BYTES // chains * chains)
    words = LINE_BYTES // 4
    data, expected = _numbers_and_sums(lines // chains, chains * words)
    function = read_lines(lines, words, chains)
    return Probe(function, (data.reshape(lines, words),), expected.reshape(chains, words), data.nbytes)


def _numbers_and_sums(rounds: int, width: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """What a probe reads, in `rounds` rows of `width`, and what each column adds up to."""
    count = rounds * width
    if 4 * count <= MOST_DENSE_BYTES:
        return np.arange(count, dtype=np.int32), _sums_of_counting(rounds, width)
    data = np.zeros((rounds, width), np.int32)  # memory is taken where it is written
    rows = np.linspace(0, rounds - 1, 4 * count // BYTES_PER_ROW).astype(int)  # the first and the last among them
    data[rows] = np.random.default_rng(0).integers(-(2**31), 2**31, (len(rows), width))
    return data.reshape(-1), data[rows].sum(axis=0, dtype=np.int32)


def _sums_of_counting(rounds: int, width: int) -> npt.NDArray[np.int32]:
    """What 0, 1, 2, ... in `rounds` rows of `width` add up to, column by column, in the low 32 bits."""
    first = width * (rounds * (rounds - 1) // 2) & 0xFFFFFFFF
    sums = first + rounds * np.arange(width, dtype=np.uint64)
    return sums.astype(np.uint32).view(np.int32)


def _gpu_bandwidth_probe(gpu: Gpu, size_bytes: int) -> Probe:
    from int8tune.schedules.cuda.probe_kernels import READ_BYTES, write_read

    blocks = GPU_BLOCKS * gpu.multiprocessors
    count, words = blocks * GPU_THREADS, READ_BYTES // 4
    rounds = max(1, size_bytes // (count * READ_BYTES))
    data, expected = _numbers_and_sums(rounds, count * words)
    return Probe(write_read(blocks, GPU_THREADS, rounds), (data,), expected, data.nbytes)
