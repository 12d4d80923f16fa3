"""Sine and cosine of numbers in binary32, in vectors. This module imports TVM.

An angle's distance from the nearest quarter of a turn is found in binary64, by two fused steps, so that of numbers
below 2^30 no bit is lost; its sine and cosine are polynomials of Cephes (S. Moshier). A part of 256 numbers one of
which is larger is computed one by one, by libm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.islands.functions import bound, polynomial
from int8tune.schedules.written.rows import share
from int8tune.schedules.written.signature import flat_argument

PART, LANES = 256, 16
# The bits of 2^30, and all but the sign.
LARGE, MAGNITUDE = int(np.float32(2.0**30).view(np.int32)), 0x7FFFFFFF
# 1.5 * 2^52: numbers around it are whole. A quarter of a turn, and what binary64 lacks of it.
SHIFT, QUARTER, REST = 6755399441055744.0, math.pi / 2, 6.123233995736766e-17
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1, 1.0)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5, 1.0)
# Quarters of a turn that a function is ahead of the sine.
AHEAD = {"sin": 0, "cos": 1}


def write_angles(function: str, length: int, threads: int) -> Any:
    """The PrimFunc (values, out), each of one axis, of `sin` or `cos`."""
    part = min(PART, length)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        values, out = flat_argument("values", length, "float32"), flat_argument("out", length, "float32")
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})

        def store(place: Any, value: Any) -> None:
            T.buffer_store(out, value, [place])

        def one(index: Any) -> None:
            # The last part overlaps its neighbour.
            at = T.Bind(T.min(index * PART, length - part))
            with T.If(_largest(values, at, part) < LARGE):
                with T.Then():
                    _each(part, lambda place: store(at + place, _angle(values[at + place], AHEAD[function])))
                with T.Else(), T.serial(0, part) as place:
                    store(at + place, getattr(tirx, function)(values[at + place]))

        share(math.ceil(length / PART), threads, one)
    return builder.get()


def _each(count: int, body: Callable[[Any], None]) -> None:
    """A body for each place, in vectors where they are whole."""
    whole, rest = divmod(count, LANES)
    if whole:
        with T.serial(0, whole) as step, T.vectorized(0, LANES) as lane:
            body(step * LANES + lane)
    if rest:
        with T.serial(0, rest) as place:
            body(whole * LANES + place)


def _largest(values: Any, at: Any, count: int) -> Any:
    """The bits of the largest magnitude of a part; those of infinity and NaN are larger than any number's."""
    largest = T.alloc_buffer((LANES,), "int32", scope="local")
    with T.vectorized(0, LANES) as lane:
        T.buffer_store(largest, T.int32(0), [lane])

    def take(place: Any, lane: Any) -> None:
        bits = T.bitwise_and(T.reinterpret(values[at + place], dtype="int32"), T.int32(MAGNITUDE))
        T.buffer_store(largest, T.max(largest[lane], bits), [lane])

    whole = count // LANES
    for step in range(whole):
        with T.vectorized(0, LANES) as lane:
            take(step * LANES + lane, lane)
    for place in range(whole * LANES, count):
        take(place, place % LANES)
    found = largest[0]
    for lane in range(1, LANES):
        found = T.Bind(T.max(found, largest[lane]))
    return found


def _angle(x: Any, ahead: int) -> Any:
    wide = x.astype("float64")

    def of_quarters(shifted: Any) -> Any:
        n = shifted - _wide(SHIFT)
        near = _fused(-n, _wide(REST), _fused(-n, _wide(QUARTER), wide))
        quarter = tirx.reinterpret("int64", shifted).astype("int32") + tirx.const(ahead, "int32")
        return bound(near.astype("float32"), lambda r: _of_quarter(r, quarter))

    name = tirx.Var("quarters", "float64")
    return tirx.Let(name, wide * _wide(2 / math.pi) + _wide(SHIFT), of_quarters(name))


def _of_quarter(r: Any, quarter: Any) -> Any:
    """The sine of r and so many quarters of a turn."""
    one, two, none = (tirx.const(value, "int32") for value in (1, 2, 0))
    square = r * r
    sine, cosine = r * polynomial(square, SINE), polynomial(square, COSINE)
    value = tirx.Select(tirx.bitwise_and(quarter, one) == none, sine, cosine)
    return tirx.Select(tirx.bitwise_and(quarter, two) == none, value, -value)


def _wide(value: float) -> Any:
    return tirx.const(value, "float64")


def _fused(left: Any, right: Any, addend: Any) -> Any:
    return tirx.call_llvm_pure_intrin("float64", "llvm.fma", left, right, addend)
