"""Dot products of four bytes that sum two products in 16 bits first, and so are wrong: for `test_schedules_mutants`."""

# No postponed annotations here: TVMScript reads the buffer types of a function's parameters from its annotations.
# ruff: noqa: N803
from typing import Any

from tvm.script import tirx as T


def _saturated(value: Any) -> Any:
    return T.min(T.max(value, -32768), 32767)


def _wrapped(value: Any) -> Any:
    return T.cast(T.cast(value, "int16"), "int32")


def _byte(word: Any, tap: int) -> Any:
    return T.cast(T.bitwise_and(T.shift_right(word, T.uint32(8 * tap)), T.uint32(255)), "int32")


def _broadcast(narrow: Any) -> Any:
    def pair(A: Any, B: Any, lane: Any, tap: int) -> Any:
        products = [T.cast(A[at], "int32") * T.cast(B[lane, at], "int32") for at in (tap, tap + 1)]
        return narrow(products[0] + products[1])

    @T.prim_func(s_tir=True)
    def implementation(
        A: T.Buffer((4,), "uint8", offset_factor=1),
        B: T.Buffer((16, 4), "int8", offset_factor=1),
        C: T.Buffer((16,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:16], A[0:4], B[0:16, 0:4])
            T.writes(C[0:16])
            for i in T.serial(0, 16):
                C[i] = C[i] + pair(A, B, i, 0) + pair(A, B, i, 2)

    return implementation


def _packed(narrow: Any) -> Any:
    def pair(A: Any, B: Any, lane: Any, tap: int) -> Any:
        products = [_byte(A[lane], at) * T.cast(B[lane, at], "int32") for at in (tap, tap + 1)]
        return narrow(products[0] + products[1])

    @T.prim_func(s_tir=True)
    def implementation(
        A: T.Buffer((16,), "uint32", offset_factor=1),
        B: T.Buffer((16, 4), "int8", offset_factor=1),
        C: T.Buffer((16,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(C[0:16], A[0:16], B[0:16, 0:4])
            T.writes(C[0:16])
            for i in T.serial(0, 16):
                C[i] = C[i] + pair(A, B, i, 0) + pair(A, B, i, 2)

    return implementation


saturate, wrap = _broadcast(_saturated), _broadcast(_wrapped)
packed_saturate, packed_wrap = _packed(_saturated), _packed(_wrapped)
