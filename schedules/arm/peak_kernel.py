"""The products that an ARM core can do at most: a loop that has all operands in registers."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arm.tiling import LANES, REGISTER_BYTES
from int8tune.schedules.intrinsics import arm_vectors as arm
from int8tune.schedules.written.accumulators import Accumulators
from int8tune.schedules.written.rows import share

# Registers of sums; a few more hold weights and products.
PEAK_CHAINS = 20


def write_peak(has_dot: bool, threads: int, steps: int) -> Any:
    """`sum[chain] += bytes(sum[chain]) * weight`, `steps` times in each thread: (start, weight, out).

    A sum is its own data, so no product is the same twice or known before the loop. `start` and `out` are int32
    [threads, chains, 4], `weight` has 16 bytes, none of them -128.
    """
    shape = (threads, PEAK_CHAINS, LANES)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        start = T.arg("start", T.buffer(shape, "int32"))
        weight = T.arg("weight", T.buffer((REGISTER_BYTES,), "int8"))
        out = T.arg("out", T.buffer(shape, "int32"))
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        lane = T.ramp(0, 1, LANES)

        def add(total: Any, loaded: Any) -> Any:
            data = T.reinterpret(total, dtype=f"int8x{REGISTER_BYTES}")
            if has_dot:
                return arm.add_dot_products(total, data, loaded)
            low, high = ([arm.half(value, part, "int8") for value in (data, loaded)] for part in (0, 1))
            return arm.add_pairs(total, arm.add_products(arm.product_bytes(*low), *high))

        def work(thread: Any) -> None:
            sums = Accumulators(PEAK_CHAINS, 1, LANES)
            loaded = T.Bind(weight.vload([0], f"int8x{REGISTER_BYTES}"))
            for chain in range(PEAK_CHAINS):
                sums[chain, 0] = start[thread, chain, lane]
            with T.serial(0, steps):
                for chain in range(PEAK_CHAINS):
                    sums[chain, 0] = add(sums[chain, 0], loaded)
            for chain in range(PEAK_CHAINS):
                T.buffer_store(out, sums[chain, 0], [thread, chain, lane])

        share(threads, threads, work)
    return builder.get()
