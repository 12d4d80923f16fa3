"""The dot product of four bytes a lane as a TVM tensor intrinsic that is exact. This module imports TVM.

TVM has such intrinsics, but the one for AVX512-VNNI does not compile with its own LLVM, and the one for AVX-512 adds
products in 16 bits, which saturate.
"""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
# ruff: noqa: N803
from typing import Any

from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

from int8tune.schedules.intrinsics.x86_vectors import VECTORS, X86Vectors
from int8tune.schedules.target import Target
from int8tune.schedules.x86.registers import TAPS


def register_dot(target: Target) -> str | None:
    """Register the dot product of a target's vectors with TVM; its name, or None where a target has none."""
    vectors = VECTORS.get(target.profile)
    if vectors is None:
        return None
    name = f"int8tune.dot_{vectors.lanes}x{TAPS}.{target.profile}"
    if TensorIntrin.get(name, allow_missing=True) is None:
        TensorIntrin.register(name, _description(vectors.lanes), _implementation(vectors))
    return name


def _description(lanes: int) -> Any:
    """What it computes: to int32 [lanes] it adds products of u8 [4] and s8 [lanes, 4]."""

    @T.prim_func(s_tir=True)
    def description(
        A: T.Buffer((TAPS,), "uint8", offset_factor=1),
        B: T.Buffer((lanes, TAPS), "int8", offset_factor=1),
        C: T.Buffer((lanes,), "int32", offset_factor=1),
    ):
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:TAPS], B[0:lanes, 0:TAPS])
            T.writes(C[0:lanes])
            for i in range(lanes):
                for k in range(TAPS):
                    with T.sblock("update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")

    return description


def _implementation(vectors: X86Vectors) -> Any:
    lanes = vectors.lanes

    def dot(data: Any, weight: Any, sums: Any) -> Any:
        word = T.reinterpret(data.vload([0], f"uint8x{TAPS}"), dtype="int32")
        weights = weight.vload([0, 0], f"int8x{TAPS * lanes}")
        return vectors.dot(sums.vload([0], f"int32x{lanes}"), vectors.broadcast_word(word), weights)

    @T.prim_func(s_tir=True)
    def implementation(
        A: T.Buffer((TAPS,), "uint8", offset_factor=1),
        B: T.Buffer((lanes, TAPS), "int8", offset_factor=1),
        C: T.Buffer((lanes,), "int32", offset_factor=1),
    ):
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:TAPS], B[0:lanes, 0:TAPS])
            T.writes(C[0:lanes])
            C[T.ramp(T.int32(0), 1, lanes)] = dot(A, B, C)

    return implementation
