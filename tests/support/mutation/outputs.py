"""Faults on the way from a sum to an output: rounding, zero point, saturation, clamp."""

from __future__ import annotations

from collections.abc import Iterator

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.script import tirx as T
from tvm.tirx import (
    EQ,
    GE,
    GT,
    Add,
    BitwiseAnd,
    BitwiseOr,
    Broadcast,
    BufferLoad,
    Cast,
    FloatImm,
    IntImm,
    LShift,
    Max,
    Min,
    Mul,
    RShift,
    Select,
)

from int8tune.schedules.arguments import PAD_VALUE, REST_ROW
from int8tune.schedules.epilogue import ROUNDER
from int8tune.schedules.intrinsics.x86_vectors import call
from int8tune.schedules.numerics import Requantize
from tests.support.mutation.kernels import Node, Subject, nodes_in
from tests.support.mutation.nodes import constant_of, extents, intrinsic, is_index, like, loads, operands, type_of

TRUNCATING = {
    "llvm.x86.avx512.mask.cvtps2dq.512": "llvm.x86.avx512.mask.cvttps2dq.512",
    "llvm.x86.avx.cvt.ps2dq.256": "llvm.x86.avx.cvtt.ps2dq.256",
}
# `round` takes halves away from zero.
OTHER_ROUNDINGS = ("llvm.trunc", "llvm.floor", "llvm.ceil", "llvm.round")
NUDGE = 1 << 30


def other_conversion(node: Call, _: Subject) -> Iterator[Node]:
    name = intrinsic(node)
    if name in TRUNCATING:
        value, *rest = operands(node)
        yield call(TRUNCATING[name], type_of(node), value, *rest)
        for rounding in OTHER_ROUNDINGS:
            yield call(name, type_of(node), call(rounding, type_of(value), value), *rest)


def other_addition_of_rounder(node: Add, _: Subject) -> Iterator[Node]:
    constant = constant_of(node.b)
    if isinstance(constant, FloatImm) and constant.value == ROUNDER:
        for rounding in OTHER_ROUNDINGS:
            yield call(rounding, type_of(node.a), node.a) + node.b


def in_binary64(node: Mul, _: Subject) -> Iterator[Node]:
    """Neither the sum nor the product rounded to 24 bits."""
    if loads(node.b, "rescale") and isinstance(node.a, Cast) and type_of(node).startswith("float32"):
        wide = tvm_ffi.dtype("float64").with_lanes(type_of(node).lanes)
        product = T.cast(node.a.value, wide) * T.cast(node.b, wide)
        yield T.cast(call("llvm.roundeven", wide, product), type_of(node))


def is_rest(node: Call) -> bool:
    """Whether this is the fine rule's product with the rest of a scale, whose last bits no output has."""
    rows = [
        (int(load.indices[0]), extents(load.source)[0])
        for load in nodes_in(operands(node)[1], (TensorLoad,))
        if load.source.name == "rescale" and len(load.indices) == 2
    ]
    return rows == [(REST_ROW, Requantize("fine").rows)]


def unfused(node: Call, _: Subject) -> Iterator[Node]:
    if intrinsic(node) == "llvm.fma" and not is_rest(node):
        left, right, addend = operands(node)
        yield call("llvm.arithmetic.fence", type_of(node), left * right) + addend


def fused(node: Add, _: Subject) -> Iterator[Node]:
    """A product that is not rounded before something is added to it."""
    if intrinsic(node.a) == "llvm.arithmetic.fence":
        (product,) = operands(node.a)
        if isinstance(product, Mul):
            yield call("llvm.fma", type_of(node), product.a, product.b, node.b)


def sum_in_binary64(node: Call, _: Subject) -> Iterator[Node]:
    """The sum is not rounded to 24 bits before it is multiplied; neither is the product with its offset, but once."""
    if intrinsic(node) != "llvm.fma" or is_rest(node):
        return
    if loads(operands(node)[1], "rescale") and isinstance(operands(node)[0], Cast):
        total, scale, offset = operands(node)
        wide = tvm_ffi.dtype("float64").with_lanes(type_of(node).lanes)
        product = T.cast(total.value, wide) * T.cast(scale, wide)
        yield T.cast(product + T.cast(offset, wide), type_of(node))


def without_sign(node: BitwiseOr, _: Subject) -> Iterator[Node]:
    """An offset that has not the sign of its sum: none, or the other one."""
    if loads(node.b, "rescale") and isinstance(node.a, BitwiseAnd):
        yield node.b
        yield (node.a ^ node.a.b) | node.b


def without_offset(node: BitwiseOr, _: Subject) -> Iterator[Node]:
    if loads(node.b, "rescale") and isinstance(node.a, BitwiseAnd):
        yield node.a


def other_exception(node: EQ, _: Subject) -> Iterator[Node]:
    if loads(node.b, "rescale"):
        yield GE(node.a, node.b)
        yield GT(node.a, node.b)
        for by in (1, -1):
            yield EQ(node.a, node.b + like(by, node.b))


def other_offset(node: Select, _: Subject) -> Iterator[Node]:
    """No exceptions, nothing else, or all others."""
    if isinstance(node.condition, EQ):
        yield node.false_value
        yield node.true_value
        yield Select(node.condition, node.false_value, node.true_value)


def other_row(node: TensorLoad, _: Subject) -> Iterator[Node]:
    """Another row of the rescale values, as far as they have rows of their own."""
    if node.source.name == "rescale" and len(node.indices) == 2:
        for other in range(extents(node.source)[0]):
            if other != int(node.indices[0]):
                yield BufferLoad(node.source, [T.int32(other), node.indices[1]])


def other_nudge(node: Add, _: Subject) -> Iterator[Node]:
    constant = constant_of(node.b)
    if isinstance(constant, IntImm) and type_of(constant) == "int64" and int(constant) == NUDGE:
        for nudge in (0, NUDGE // 2, NUDGE - 1):
            yield node.a + like(nudge, node.a)


def other_threshold(node: Node, _: Subject) -> Iterator[Node]:
    """Another threshold of the right shift, which rounds half away from zero."""
    if isinstance(node, GT) and isinstance(node.b, Add) and isinstance(node.b.a, RShift):
        yield GE(node.a, node.b)
        yield GT(node.a, node.b.a)
        yield GT(node.a, node.b + like(1, node.b))


def without_right_rounding(node: Add, _: Subject) -> Iterator[Node]:
    if isinstance(node.a, RShift) and isinstance(node.b, Cast) and isinstance(node.b.value, GT):
        yield node.a


def rounded_once(node: Add, _: Subject) -> Iterator[Node]:
    """Rounds scalars once: the doubled product's high half is not rounded for itself."""
    if not (isinstance(node.b, Cast) and isinstance(node.b.value, GT) and isinstance(node.a, RShift)):
        return
    high, right = node.a.a, node.a.b
    if isinstance(high, Cast) and type_of(high) == "int32" and isinstance(high.value, RShift):
        count = T.cast(right, "int64") + T.int64(31)
        product = high.value.a.a
        yield T.cast(T.shift_right(product + T.shift_left(T.int64(1), count - T.int64(1)), count), "int32")


def without_left_shift(node: LShift, _: Subject) -> Iterator[Node]:
    if isinstance(node.b, Max) and loads(node.b, "rescale"):
        yield node.a


def without_zero_point(node: Call, _: Subject) -> Iterator[Node]:
    """Not added, or added with wrap-around."""
    if intrinsic(node) == "llvm.sadd.sat":
        left, right = operands(node)
        yield left
        yield left + right


def other_parameter(node: TensorLoad, _: Subject) -> Iterator[Node]:
    if node.source.name == "params" and int(node.indices[0]) != PAD_VALUE:
        for other in range(extents(node.source)[0]):
            if other != int(node.indices[0]):
                yield BufferLoad(node.source, [T.int32(other)])


def other_clamp(node: Node, _: Subject) -> Iterator[Node]:
    if loads(node.b, "params") and not is_index(node):
        yield node.a
        yield (Max if isinstance(node, Min) else Min)(node.a, node.b)
        for by in (1, -1):
            yield type(node)(node.a, node.b + like(by, node.b) if by > 0 else node.b - like(1, node.b))


def without_saturation(node: Call, _: Subject) -> Iterator[Node]:
    """Values that are cut to 16 bits instead."""
    if "packssdw" in intrinsic(node):
        low, high = (T.shift_right(T.shift_left(v, like(16, v)), like(16, v)) for v in operands(node))
        yield call(intrinsic(node), type_of(node), low, high)


def other_signedness(node: Call, _: Subject) -> Iterator[Node]:
    name = intrinsic(node)
    for one, other in (("packuswb", "packsswb"), ("packsswb", "packuswb")):
        if one in name:
            yield call(name.replace(one, other), type_of(node), *operands(node))


def without_largest(node: Min, _: Subject) -> Iterator[Node]:
    """Values that don't fit an int32 are not kept from conversion."""
    if (
        isinstance(node.b, Broadcast)
        and isinstance(node.a, Call)
        and "reinterpret" in str(node.a.op)
        and isinstance(node.b.value, IntImm)
    ):
        yield node.a
