"""Faults of sums: products that are left out or saturate, wrong beginnings, missing corrections."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tvm.ir import Call, TensorLoad
from tvm.script import tirx as T
from tvm.tirx import Add, BitwiseXor, BufferStore, Cast, Evaluate, For, IntImm, Mul, SeqStmt, Sub

from int8tune.schedules.arguments import WEIGHT_ZERO_POINT
from int8tune.schedules.intrinsics.x86_vectors import call
from tests.support.mutation.kernels import Node, Subject, nodes_in, substituted
from tests.support.mutation.nodes import (
    DOTS,
    PAIR_SUMS,
    accumulating,
    intrinsic,
    is_accumulator,
    is_index,
    is_parameter,
    like,
    loads,
    loop_with,
    operands,
    own_load,
    two_pair_sums,
    type_of,
    wrapping_add,
)

# By the width of the int8 operands: sums of two products that saturate, and sums of two of those.
SATURATING = {
    64: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
    32: ("llvm.x86.avx2.pmadd.ub.sw", PAIR_SUMS),
}


def without_dot(node: Call, _: Subject) -> Iterator[Node]:
    name, given = intrinsic(node), operands(node) if intrinsic(node) else []
    if name in DOTS or (name == "llvm.vp.add" and intrinsic(given[1]) == PAIR_SUMS):
        yield given[0]


def without_multiply_add(node: Add, _: Subject) -> Iterator[Node]:
    if isinstance(node.a, TensorLoad) and nodes_in(node.b, (Mul,)) and loads(node.b, "weight"):
        yield node.a


def saturating_dot(node: Call, _: Subject) -> Iterator[Node]:
    if intrinsic(node) in DOTS:
        total, data, weight = operands(node)
        yield _saturating_sum(total, data, weight)


def saturating_pair_sums(node: Call, _: Subject) -> Iterator[Node]:
    """Puts bytes that were widened, the even and the odd ones apart, together again."""
    if (parts := two_pair_sums(node)) is not None:
        total, (even, odd), weights = parts
        lanes = type_of(even).lanes
        eight, mask = T.broadcast(T.int16(8), lanes), T.broadcast(T.int16(255), lanes)
        data = T.bitwise_or(even, T.shift_left(odd, eight))
        weight = T.bitwise_or(T.bitwise_and(weights[0], mask), T.shift_left(weights[1], eight))
        packed = (T.reinterpret(value, dtype=f"int8x{2 * lanes}") for value in (data, weight))
        yield _saturating_sum(total, *packed)


def _saturating_sum(total: Node, data: Node, weight: Node) -> Node:
    width = type_of(data).lanes
    products, sums = SATURATING[width]
    ones = T.broadcast(T.int16(1), width // 2)
    pairs = call(products, f"int16x{width // 2}", data, weight)
    return wrapping_add(total, call(sums, f"int32x{width // 4}", pairs, ones))


def product_in_16_bits(node: Mul, _: Subject) -> Iterator[Node]:
    """Products of unsigned bytes by unsigned ones don't fit."""
    if (
        loads(node.b, "weight")
        and all(isinstance(factor, Cast) for factor in (node.a, node.b))
        and type_of(node.a.value) == type_of(node.b.value) == "uint8"
    ):
        yield T.cast(T.cast(node, "int16"), "int32")


def without_start(node: BufferStore, subject: Subject) -> Iterator[Node]:
    """A sum that goes on where the last tile's ended, that starts from one, or not from its bias."""
    if own_load(node) is not None or not is_accumulator(node.buffer, subject):
        return
    yield Evaluate(0)
    yield BufferStore(node.buffer, node.value + like(1, node.value), node.indices)
    if not isinstance(node.value, IntImm):
        yield BufferStore(node.buffer, like(0, node.value), node.indices)


def without_bias(node: Add, _: Subject) -> Iterator[Node]:
    if isinstance(node.b, TensorLoad) and node.b.source.name == "bias":
        yield node.a


def reset_in_reduction(node: SeqStmt, _: Subject) -> Iterator[Node]:
    """A start of sums that is done again in each turn of the loop that adds to them."""
    parts = list(node.seq)
    for first, second in itertools.combinations(range(len(parts)), 2):
        start, loop = parts[first], parts[second]
        stores = nodes_in(start, (BufferStore,))
        if not isinstance(loop, For) or accumulating(start) or len(stores) != 1 or int_of(loop.extent) == 1:
            continue
        if any(_same_target(store, stores[0]) for store in accumulating(loop)):
            parts[second] = loop_with(loop, body=SeqStmt([start, *_flat(loop.body)]))
            yield SeqStmt(parts)
            parts[second] = loop


def int_of(node: Node) -> int | None:
    return int(node) if isinstance(node, IntImm) else None


def _flat(statement: Node) -> list[Node]:
    return list(statement.seq) if isinstance(statement, SeqStmt) else [statement]


def _same_target(store: BufferStore, start: BufferStore) -> bool:
    """Whether both store to the same register, where registers are told apart by constants."""
    if not store.buffer.same_as(start.buffer):
        return False
    pairs = [(int_of(one), int_of(other)) for one, other in zip(store.indices, start.indices, strict=True)]
    return all(one == other for one, other in pairs if one is not None and other is not None)


def restarted(node: Call, _: Subject) -> Iterator[Node]:
    """A product that is not added to what was summed so far."""
    name = intrinsic(node)
    if name in DOTS:
        total, data, weight = operands(node)
        yield call(name, type_of(node), like(0, total), data, weight)
    elif name == "llvm.vp.add" and intrinsic(operands(node)[1]) == PAIR_SUMS:
        yield operands(node)[1]


def without_sign_flip(node: BitwiseXor, _: Subject) -> Iterator[Node]:
    yield node.a


def without_correction(node: Call, _: Subject) -> Iterator[Node]:
    if intrinsic(node) == "llvm.vp.sub":
        left, right, *rest = operands(node)
        yield left
        yield call("llvm.vp.add", type_of(node), left, right, *rest)


def without_scalar_correction(node: Sub, _: Subject) -> Iterator[Node]:
    if isinstance(node.b, Mul) and is_parameter(node.b.a, WEIGHT_ZERO_POINT):
        yield node.a
        yield node.a + node.b


def without_weight_zero_point(node: Sub, _: Subject) -> Iterator[Node]:
    if isinstance(node.a, Cast) and is_parameter(node.b, WEIGHT_ZERO_POINT):
        yield node.a


def other_window_sum(node: Mul, _: Subject) -> Iterator[Node]:
    """The sum not multiplied by the zero point, or without one of its terms."""
    if is_parameter(node.a, WEIGHT_ZERO_POINT):
        yield node.b
        for addition in nodes_in(node.b, (Add,)):
            if nodes_in(addition.a, (TensorLoad,)) and not is_index(addition):
                yield node.a * substituted(node.b, addition, addition.a)


def other_pixel_sum(node: Add, _: Subject) -> Iterator[Node]:
    if (
        isinstance(node.a, TensorLoad)
        and not nodes_in(node.b, (Mul,))
        and type_of(node) == "int32"
        and nodes_in(node.b, (TensorLoad,))
        and not loads(node, "bias")
        and not loads(node, "params")
    ):
        yield node.a
        yield node.a + (node.b + 1)
