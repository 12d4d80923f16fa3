"""The probes as TIR, written as they are to run."""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
from typing import Any

from tvm.script import tirx as T


def peak_multiply_add(threads: int, chains: int, steps: int, lanes: int) -> Any:
    """`out[thread, chain, lane] = sum over steps of data[step] * weight[chain, lane]`, widened to int32."""

    @T.prim_func(s_tir=True)
    def peak(
        data: T.Buffer((steps,), "uint8"),
        weight: T.Buffer((chains, lanes), "int8"),
        out: T.Buffer((threads, chains, lanes), "int32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        for thread in T.parallel(threads):
            acc = T.alloc_buffer((chains, lanes), "int32", scope="local")
            for i in T.unroll(chains):
                for lane in T.vectorized(lanes):
                    acc[i, lane] = 0
            for step in range(steps):
                for i in T.unroll(chains):
                    for lane in T.vectorized(lanes):
                        acc[i, lane] = acc[i, lane] + T.cast(data[step], "int32") * T.cast(weight[i, lane], "int32")
            for i in T.unroll(chains):
                for lane in T.vectorized(lanes):
                    out[thread, i, lane] = acc[i, lane]

    return peak


def read_lines(lines: int, words: int, chains: int) -> Any:
    """`out[chain] = sum of data[line]` over the lines of each chain, a line of int32 words at a time."""

    @T.prim_func(s_tir=True)
    def read(data: T.Buffer((lines, words), "int32"), out: T.Buffer((chains, words), "int32")):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        acc = T.sblock_alloc_buffer((chains, words), "int32")
        for i in T.unroll(chains):
            for word in T.vectorized(words):
                acc[i, word] = 0
        for line in range(lines // chains):
            for i in T.unroll(chains):
                for word in T.vectorized(words):
                    acc[i, word] = acc[i, word] + data[line * chains + i, word]
        for i in T.unroll(chains):
            for word in T.vectorized(words):
                out[i, word] = acc[i, word]

    return read
