"""Loops that measure a GPU: the products that its multiprocessors do at most, and how fast they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.cuda.launch import grid, shared_words, threads_of
from int8tune.schedules.gpus import GROUP, WARP, Gpu
from int8tune.schedules.intrinsics.cuda import Instructions

# Sums of a lane that one product of matrices adds to, and its words of weights.
SUMS, WEIGHTS = 4, 2
# Of a peak's loop; its own instructions count for little then.
STEPS_A_TURN = 8
TYPES = ("s8", "s8")
READ_BYTES = 16
# What four warps multiply: rows by columns, both of so many bytes, of which an instruction takes `GROUP_BYTES`.
GROUP_ROWS, GROUP_COLUMNS, GROUP_DEPTH, GROUP_BYTES = 64, 256, 128, 32


@dataclass(frozen=True, slots=True)
class Peak:
    """The size of a peak loop.

    Attributes:
        blocks: enough that each multiprocessor has as many as any other.
        chains: of products that depend on each other, side by side in each warp.
    """

    blocks: int
    threads: int
    chains: int
    steps: int

    @property
    def warps(self) -> int:
        return self.blocks * self.threads // WARP


def write_peak(gpu: Gpu, peak: Peak, *, by_matrices: bool) -> Any:
    """`sums[chain] += bytes(sums[chain]) * weight` in each lane of each warp, `steps` times: (start, weight, out).

    A sum is its own data, so no product is the same twice or known before the loop. `start` is int32 [chains, 32, 4],
    `weight` int32 [32, 2]; `out`, int32 [warps, 32, 4], has the sums of all chains.

    Args:
        by_matrices: whether tensor cores multiply, 16 x 32 by 32 x 8 bytes in a warp (`mma`), or each lane its four
            words by the first of `weight` (`dp4a`).
    """
    instructions = Instructions(gpu)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        start = T.arg("start", T.buffer((peak.chains, WARP, SUMS), "int32"))
        weight = T.arg("weight", T.buffer((WARP, WEIGHTS), "int32"))
        out = T.arg("out", T.buffer((peak.warps, WARP, SUMS), "int32"))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with grid(peak.blocks) as (block,), threads_of(peak.threads) as thread:
            lane = T.Bind(T.truncmod(thread, WARP))
            sums = T.alloc_buffer((peak.chains * SUMS,), "int32", scope="local")
            factors = T.alloc_buffer((WEIGHTS,), "int32", scope="local")
            for index in range(WEIGHTS):
                T.buffer_store(factors, weight[lane, index], [index])
            for chain in range(peak.chains):
                for index in range(SUMS):
                    T.buffer_store(sums, start[chain, lane, index], [chain * SUMS + index])
            assert peak.steps % STEPS_A_TURN == 0
            with T.serial(0, instructions.as_launched(peak.steps // STEPS_A_TURN)):
                for chain in list(range(peak.chains)) * STEPS_A_TURN:
                    _add(instructions, sums, chain * SUMS, factors, by_matrices)
            warp = T.Bind(block * (peak.threads // WARP) + T.truncdiv(thread, WARP))
            for index in range(SUMS):
                total = sums[index]
                for chain in range(1, peak.chains):
                    total = total + sums[chain * SUMS + index]
                T.buffer_store(out, total, [warp, lane, index])
    return builder.get()


def _add(instructions: Instructions, sums: Any, at: int, factors: Any, by_matrices: bool) -> None:
    if by_matrices:
        place = T.address_of(sums[at])
        instructions.multiply(place, place, T.address_of(factors[0]), TYPES)
        return
    for index in range(at, at + SUMS):
        T.buffer_store(sums, instructions.dot(sums[index], factors[0], sums[index], TYPES), [index])


def write_group_peak(gpu: Gpu, peak: Peak) -> Any:
    """`sums += data * weight.T` by four warps of each block, `steps` times: (data, weight, out).

    Both matrices lie in shared memory, where Hopper's tensor cores read them (`wgmma`). `data` is int8 of 64 rows,
    `weight` of 256, each of 128 bytes, whose chunks of 16 are in the order of shared memory (`swizzled`). `out` is
    int32 [warps, 32, 4]: a lane's sums of rows `g` and `g + 8` and their columns `2 (lane % 4)` and the next, with
    `g = lane / 4`, each added up over the 32 products of 8 columns.
    """
    instructions, bytes_of = Instructions(gpu), (GROUP_ROWS * GROUP_DEPTH, GROUP_COLUMNS * GROUP_DEPTH)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        data, weight = (
            T.arg(name, T.buffer((length // 4,), "int32"))
            for name, length in zip(("data", "weight"), bytes_of, strict=True)
        )
        out = T.arg("out", T.buffer((peak.warps, WARP, SUMS), "int32"))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with grid(peak.blocks) as (block,), threads_of(GROUP) as thread:
            shared = T.alloc_buffer((sum(bytes_of),), "int8", scope="shared.dyn")
            words = shared_words(shared)
            _copy_to_shared(words, 0, data, bytes_of[0] // 4, thread)
            _copy_to_shared(words, bytes_of[0] // 4, weight, bytes_of[1] // 4, thread)
            sums = T.alloc_buffer((GROUP_COLUMNS // 2,), "int32", scope="local")
            instructions.publish()
            T.evaluate(T.tvm_storage_sync("shared"))
            with T.serial(0, peak.steps) as step:
                instructions.begin_group()
                for at in range(0, GROUP_DEPTH, GROUP_BYTES):
                    places = (T.address_of(shared[at]), T.address_of(shared[bytes_of[0] + at]))
                    is_added = T.bool(True) if at else step > 0
                    instructions.multiply_group(
                        T.address_of(sums[0]), *places, GROUP_COLUMNS, GROUP_DEPTH, TYPES, is_added
                    )
                instructions.end_group()
                instructions.wait_group(1)
            instructions.wait_group(0)
            warp = T.Bind(block * (GROUP // WARP) + T.truncdiv(thread, WARP))
            for index in range(SUMS):
                total = sums[index]
                for column in range(SUMS, GROUP_COLUMNS // 2, SUMS):
                    total = total + sums[column + index]
                T.buffer_store(out, total, [warp, T.truncmod(thread, WARP), index])
    return builder.get()


def _copy_to_shared(words: Any, at: int, source: Any, count: int, thread: Any) -> None:
    with T.serial(0, count // GROUP) as index:
        T.buffer_store(words, source[index * GROUP + thread], [at + index * GROUP + thread])


def write_read(blocks: int, threads: int, rounds: int) -> Any:
    """`out[thread] = sum over rounds of data[round, thread]`, 16 bytes as int32 at a time: (data, out).

    All threads of all blocks together read a round. `data` is int32 [rounds, blocks * threads, 4].
    """
    count, words = blocks * threads, READ_BYTES // 4
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        data = T.arg("data", T.buffer((rounds * count * words,), "int32"))
        out = T.arg("out", T.buffer((count * words,), "int32"))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        with grid(blocks) as (block,), threads_of(threads) as thread:
            sums = T.alloc_buffer((words,), "int32", scope="local")
            at = T.Bind((block * threads + thread) * words)
            T.buffer_store(sums, T.broadcast(T.int32(0), words), [T.ramp(0, 1, words)])
            with T.serial(0, rounds) as index:
                read = data.vload([index * (count * words) + at], f"int32x{words}")
                T.buffer_store(sums, sums.vload([0], f"int32x{words}") + read, [T.ramp(0, 1, words)])
            T.buffer_store(out, sums.vload([0], f"int32x{words}"), [T.ramp(at, 1, words)])
    return builder.get()
