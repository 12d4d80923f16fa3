"""The products that a core can do at most: loops that have all operands in registers."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.intrinsics import x86_tiles as tiles
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.written.rows import share
from int8tune.schedules.x86.registers import Registers


def write_peak(vectors: X86Vectors, registers: Registers, threads: int, chains: int, steps: int) -> Any:
    """`sum[chain] = dot(sum[chain], sum[chain], weight)`, `steps` times in each thread: (start, weight, out).

    A sum is its own data, so no product is the same twice or known before the loop. `start` and `out` are int32
    [threads, chains, lanes], `weight` is packed.
    """
    lane = T.ramp(0, 1, registers.lanes)
    shape = (threads, chains, registers.lanes)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        start = T.arg("start", T.buffer(shape, "int32"))
        weight = T.arg("weight", T.buffer((registers.weight_bytes,), "int8"))
        out = T.arg("out", T.buffer(shape, "int32"))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})

        def work(thread: Any) -> None:
            sums = T.alloc_buffer(shape[1:], "int32", scope="local")
            loaded = vectors.load_weight(weight, 0)
            for chain in range(chains):
                T.buffer_store(sums, start[thread, chain, lane], [chain, lane])
            with T.serial(0, steps):
                for chain in range(chains):
                    data = T.reinterpret(sums[chain, lane], dtype=vectors.operand_type)
                    total = vectors.multiply_add(sums[chain, lane], [data] * registers.parts, loaded)
                    T.buffer_store(sums, total, [chain, lane])
            for chain in range(chains):
                T.buffer_store(out, sums[chain, lane], [thread, chain, lane])

        share(threads, threads, work)
    return builder.get()


def write_tile_peak(threads: int, sums_shape: tuple[int, int, int], steps: int) -> Any:
    """`out[thread, chain] = steps * data @ weight` by AMX: (data, weight, out).

    `sums_shape` is [chains, rows, lanes]; data are u8, weights packed s8, both fill a register.
    """
    chains, rows, lanes = sums_shape
    row_bytes = 4 * lanes
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        data = T.arg("data", T.buffer((rows, row_bytes), "uint8"))
        weight = T.arg("weight", T.buffer((row_bytes // 4, lanes, 4), "int8"))
        out = T.arg("out", T.buffer((threads, *sums_shape), "int32"))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})

        def work(thread: Any) -> None:
            tiles.configure([(rows, row_bytes)] * (chains + 2))
            tiles.load(chains, data, (0, 0), row_bytes)
            tiles.load(chains + 1, weight, (0, 0, 0), row_bytes)
            for chain in range(chains):
                tiles.clear(chain)
            with T.serial(0, steps):
                for chain in range(chains):
                    tiles.multiply_add(chain, chains, chains + 1, ("u8", "s8"))
            for chain in range(chains):
                tiles.store(chain, out, (thread, chain, 0, 0), row_bytes)
            tiles.release()

        share(threads, threads, work)
    return builder.get()
