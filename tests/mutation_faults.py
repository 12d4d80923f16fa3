"""The faults that kernels are given: what each kind is, as edits of TIR and of layouts.

Arguments of kernels are known by their names, which are those of `schedules.arguments`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm_ffi
from mutation import Expressions, Fault, Layouts, Node, Statements, Subject, nodes_in, substituted
from tvm.ir import Call, TensorLoad
from tvm.script import tirx as T
from tvm.target import codegen
from tvm.tirx import (
    GE,
    GT,
    LT,
    Add,
    BitwiseXor,
    Broadcast,
    BufferLoad,
    BufferStore,
    Cast,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IntImm,
    LShift,
    Max,
    Min,
    Mul,
    Ramp,
    RShift,
    SeqStmt,
    Shuffle,
    Sub,
    Var,
)

from schedules.arguments import PAD_VALUE, WEIGHT_ZERO_POINT
from schedules.epilogue import ROUNDER
from schedules.intrinsics.x86_vectors import call
from schedules.template import Kernel
from schedules.workload import Dense

DOTS = ("llvm.x86.avx512.vpdpbusd.512", "llvm.x86.avx512.vpdpbusd.256")
PAIR_SUMS = "llvm.x86.avx2.pmadd.wd"
# By the width of the int8 operands: sums of two products that saturate, and sums of two of those.
SATURATING = {
    64: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
    32: ("llvm.x86.avx2.pmadd.ub.sw", PAIR_SUMS),
}
TRUNCATING = {
    "llvm.x86.avx512.mask.cvtps2dq.512": "llvm.x86.avx512.mask.cvttps2dq.512",
    "llvm.x86.avx.cvt.ps2dq.256": "llvm.x86.avx.cvtt.ps2dq.256",
}
# `round` takes halves away from zero.
OTHER_ROUNDINGS = ("llvm.trunc", "llvm.floor", "llvm.ceil", "llvm.round")
NUDGE = 1 << 30
SMALL = (Broadcast, IntImm, FloatImm)


# ---------------------------------------------------------------------------------------------------- what nodes are


def intrinsic(node: Node) -> str:
    """The LLVM intrinsic that a node calls."""
    if not isinstance(node, Call) or getattr(node.op, "name", "") != "tirx.call_llvm_pure_intrin":
        return ""
    return str(codegen.llvm_get_intrinsic_name(int(node.args[0])))


def operands(node: Call) -> list[Node]:
    return list(node.args)[1:]


def loads(node: Node, name: str) -> bool:
    """Whether a node reads the buffer of this name."""
    return any(load.source.name == name for load in nodes_in(node, (TensorLoad,)))


def is_index(node: Node) -> bool:
    """Whether a node is arithmetic of loop variables alone."""
    return not nodes_in(node, (TensorLoad, Call)) and bool(nodes_in(node, (Var,)))


def type_of(node: Node) -> tvm_ffi.dtype:
    """A node's type, as the text that TVM has for it."""
    return node.ty.dtype


def extents(buffer: Node) -> list[int]:
    return [int(extent) for extent in buffer.shape]


def holds_vectors(buffer: Node) -> bool:
    """Whether a buffer stands for registers: the x86 kernels' writers use such ones against LLVM's wishes."""
    return bool(buffer.dtype.lanes > 1)


def own_load(store: BufferStore) -> Node | None:
    """The load in a store's value of what it writes: a store that accumulates has one."""
    first = [index.base if isinstance(index, Ramp) else index for index in store.indices]
    for load in nodes_in(store.value, (TensorLoad,)):
        bases = [index.base if isinstance(index, Ramp) else index for index in load.indices]
        if load.source.same_as(store.buffer) and all(map(tvm_ffi.structural_equal, first, bases)):
            return load
    return None


def accumulating(node: Node) -> list[BufferStore]:
    return [store for store in nodes_in(node, (BufferStore,)) if own_load(store) is not None]


def is_accumulator(buffer: Node, subject: Subject) -> bool:
    return any(store.buffer.same_as(buffer) for store in accumulating(subject.function))


def has_border(subject: Subject) -> bool:
    return not isinstance(subject.workload, Dense) and any(subject.workload.window.padding)


def like(value: Any, node: Node) -> Node:
    """A constant of a node's type."""
    constant = getattr(T, type_of(node).with_lanes(1))(value)
    return T.broadcast(constant, type_of(node).lanes) if type_of(node).lanes > 1 else constant


def moved(index: Node, by: int) -> Node:
    return Ramp(index.base + by, index.stride, index.lanes) if isinstance(index, Ramp) else index + by


# ------------------------------------------------------------------------------------------------------- dropped tap


def without_dot(node: Call, _: Subject) -> Iterator[Node]:
    name, given = intrinsic(node), operands(node) if intrinsic(node) else []
    if name in DOTS or (name == "llvm.vp.add" and intrinsic(given[1]) == PAIR_SUMS):
        yield given[0]


def without_multiply_add(node: Add, _: Subject) -> Iterator[Node]:
    if isinstance(node.a, TensorLoad) and nodes_in(node.b, (Mul,)) and loads(node.b, "weight"):
        yield node.a


# -------------------------------------------------------------------------------------------------------- wrong tail


def shifted_load(node: TensorLoad, subject: Subject) -> Iterator[Node]:
    """A read one value off. Not of accumulators and parameters, which are other faults."""
    if node.source.name == "params" or is_accumulator(node.source, subject) or holds_vectors(node.source):
        return
    for indices in _shifted(node.source, node.indices):
        yield BufferLoad(node.source, indices)


def shifted_store(node: BufferStore, subject: Subject) -> Iterator[Node]:
    if own_load(node) is not None or is_accumulator(node.buffer, subject) or isinstance(node.value, IntImm):
        return
    if holds_vectors(node.buffer):
        return
    if (
        loads(node.value, "params")
        and not loads(node.value, "weight")
        and node.buffer.name != "out"
        and not has_border(subject)
    ):
        return
    for indices in _shifted(node.buffer, node.indices):
        yield BufferStore(node.buffer, node.value, indices)


def _shifted(buffer: Node, indices: Sequence[Node]) -> Iterator[list[Node]]:
    for axis, extent in enumerate(extents(buffer)):
        for by in (1, -1) if extent > 1 else ():
            yield [moved(index, by) if at == axis else index for at, index in enumerate(indices)]


def moved_bound(node: Node, _: Subject) -> Iterator[Node]:
    """The bound of a tile's start, or of a part of the image.

    A last tile is not moved to behind its place: of what it then skips, its neighbour has stored some already.
    """
    if is_index(node) and isinstance(node.b, IntImm):
        for by in (-1,) if isinstance(node, Min) else (1, -1):
            yield type(node)(node.a, node.b + by)


def shorter_loop(node: For, _: Subject) -> Iterator[Node]:
    """A loop without its last turn."""
    if (
        isinstance(node.extent, IntImm)
        and int(node.extent) > 1
        and node.kind != ForKind.VECTORIZED
        and not all(isinstance(store.value, IntImm) for store in nodes_in(node, (BufferStore,)))
    ):
        yield _loop(node, extent=node.extent - 1)


def _loop(node: For, **changed: Any) -> For:
    names = ("loop_var", "min", "extent", "kind", "body", "thread_binding", "annotations", "step")
    return For(**{name: getattr(node, name) for name in names} | changed)


# ---------------------------------------------------------------------------------------------------- wrong rounding


def other_conversion(node: Call, _: Subject) -> Iterator[Node]:
    name = intrinsic(node)
    if name in TRUNCATING:
        value, *rest = operands(node)
        yield call(TRUNCATING[name], type_of(node), value, *rest)
        for rounding in OTHER_ROUNDINGS:
            yield call(name, type_of(node), call(rounding, type_of(value), value), *rest)


def other_addition_of_rounder(node: Add, _: Subject) -> Iterator[Node]:
    constant = node.b.value if isinstance(node.b, Broadcast) else node.b
    if isinstance(constant, FloatImm) and constant.value == ROUNDER:
        for rounding in OTHER_ROUNDINGS:
            yield call(rounding, type_of(node.a), node.a) + node.b


def in_binary64(node: Mul, _: Subject) -> Iterator[Node]:
    """Neither the sum nor the product rounded to 24 bits."""
    if loads(node.b, "rescale") and isinstance(node.a, Cast) and type_of(node).startswith("float32"):
        wide = tvm_ffi.dtype("float64").with_lanes(type_of(node).lanes)
        product = T.cast(node.a.value, wide) * T.cast(node.b, wide)
        yield T.cast(call("llvm.roundeven", wide, product), type_of(node))


def unfused(node: Call, _: Subject) -> Iterator[Node]:
    if intrinsic(node) == "llvm.fma":
        left, right, addend = operands(node)
        yield call("llvm.arithmetic.fence", type_of(node), left * right) + addend


def fused(node: Add, _: Subject) -> Iterator[Node]:
    """A product that is not rounded before something is added to it."""
    if intrinsic(node.a) == "llvm.arithmetic.fence":
        (product,) = operands(node.a)
        if isinstance(product, Mul):
            yield call("llvm.fma", type_of(node), product.a, product.b, node.b)


def other_nudge(node: Add, _: Subject) -> Iterator[Node]:
    constant = node.b.value if isinstance(node.b, Broadcast) else node.b
    if isinstance(constant, IntImm) and type_of(constant) == "int64" and int(constant) == NUDGE:
        for nudge in (0, NUDGE // 2, NUDGE - 1):
            yield node.a + like(nudge, node.a)


def other_threshold(node: Node, _: Subject) -> Iterator[Node]:
    """Of the right shift, which rounds half away from zero."""
    if isinstance(node, GT) and isinstance(node.b, Add) and isinstance(node.b.a, RShift):
        yield GE(node.a, node.b)
        yield GT(node.a, node.b.a)
        yield GT(node.a, node.b + like(1, node.b))


def without_right_rounding(node: Add, _: Subject) -> Iterator[Node]:
    if isinstance(node.a, RShift) and isinstance(node.b, Cast) and isinstance(node.b.value, GT):
        yield node.a


def rounded_once(node: Add, _: Subject) -> Iterator[Node]:
    """Of scalars: the doubled product's high half is not rounded for itself."""
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


# ------------------------------------------------------------------------------------------------ saturating product


def saturating_dot(node: Call, _: Subject) -> Iterator[Node]:
    if intrinsic(node) in DOTS:
        total, data, weight = operands(node)
        yield _saturating_sum(total, data, weight)


def saturating_pair_sums(node: Call, _: Subject) -> Iterator[Node]:
    """Of bytes that were widened, the even and the odd ones apart: put together again."""
    if (parts := _two_pair_sums(node)) is not None:
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
    return _wrapping_add(total, call(sums, f"int32x{width // 4}", pairs, ones))


def _wrapping_add(left: Node, right: Node) -> Node:
    lanes = type_of(left).lanes
    return call("llvm.vp.add", type_of(left), left, right, T.broadcast(T.bool(True), lanes), T.int32(lanes))


def _two_pair_sums(node: Call) -> tuple[Node, tuple[Node, Node], tuple[Node, Node]] | None:
    """Of `total + even data * even weights + odd data * odd weights`: total, data, weights."""
    if intrinsic(node) != "llvm.vp.add":
        return None
    inner, odd = operands(node)[:2]
    if intrinsic(inner) != "llvm.vp.add" or intrinsic(odd) != PAIR_SUMS:
        return None
    total, even = operands(inner)[:2]
    pairs = operands(even), operands(odd)
    return total, (pairs[0][0], pairs[1][0]), (pairs[0][1], pairs[1][1])


def product_in_16_bits(node: Mul, _: Subject) -> Iterator[Node]:
    """Products of unsigned bytes by unsigned ones don't fit."""
    if (
        loads(node.b, "weight")
        and all(isinstance(factor, Cast) for factor in (node.a, node.b))
        and type_of(node.a.value) == type_of(node.b.value) == "uint8"
    ):
        yield T.cast(T.cast(node, "int16"), "int32")


# --------------------------------------------------------------------------------------------------- swapped channel


def other_accumulator(node: BufferStore, _: Subject) -> Iterator[Node]:
    """A product that is added to the sum of another register."""
    if (load := own_load(node)) is None:
        return
    for axis, extent in enumerate(extents(node.buffer)[:-1]):
        for by in (1, extent - 1) if extent > 1 else ():
            at = [_turned(index, by, extent) if i == axis else index for i, index in enumerate(node.indices)]
            instead = [_turned(index, by, extent) if i == axis else index for i, index in enumerate(load.indices)]
            yield BufferStore(node.buffer, substituted(node.value, load, BufferLoad(node.buffer, instead)), at)


def other_sum(node: TensorLoad, subject: Subject) -> Iterator[Node]:
    """The sum of another register, where sums are used."""
    if not is_accumulator(node.source, subject):
        return
    for axis, extent in enumerate(extents(node.source)[:-1]):
        for by in (1, extent - 1) if extent > 1 else ():
            at = [_turned(index, by, extent) if i == axis else index for i, index in enumerate(node.indices)]
            yield BufferLoad(node.source, at)


def _turned(index: Node, by: int, extent: int) -> Node:
    return T.int32((int(index) + by) % extent) if isinstance(index, IntImm) else T.floormod(index + by, extent)


def exchanged_registers(node: Call, _: Subject) -> Iterator[Node]:
    """The operands of a pack."""
    if ".pack" in intrinsic(node):
        low, high = operands(node)
        if not tvm_ffi.structural_equal(low, high):
            yield call(intrinsic(node), type_of(node), high, low)


def exchanged_values(node: Shuffle, _: Subject) -> Iterator[Node]:
    """The first value of a shuffle and one that is another: the first is always used.

    Of sums, of what is stored, and of a residual; several words may have the same pixel.
    """
    if str(type_of(node).with_lanes(1)) == "int32" or isinstance(list(node.vectors)[-1], Broadcast):
        yield from _exchanged(node)


def exchanged_outputs(node: BufferStore, _: Subject) -> Iterator[Node]:
    if node.buffer.name == "out" and isinstance(node.value, Shuffle):
        for value in _exchanged(node.value):
            yield BufferStore(node.buffer, value, node.indices)


def _exchanged(node: Shuffle) -> Iterator[Node]:
    indices = [int(index) for index in node.indices]
    for other in {next((i for i, index in enumerate(indices) if index != indices[0]), 0), len(indices) - 1}:
        if indices[other] != indices[0]:
            changed = list(indices)
            changed[0], changed[other] = changed[other], changed[0]
            yield Shuffle(list(node.vectors), changed)


def exchanged_rows(node: Call, subject: Subject) -> Iterator[Node]:
    """Rows of taps in a word. In a border, both may have the same pad values."""
    if ".vpermi2var." in intrinsic(node) and not has_border(subject):
        first, order, second = operands(node)
        if not tvm_ffi.structural_equal(first, second):
            yield call(intrinsic(node), type_of(node), second, order, first)


def exchanged_parts(node: Call, _: Subject) -> Iterator[Node]:
    """The even bytes of the data by the odd weights."""
    if (parts := _two_pair_sums(node)) is not None:
        total, data, weights = parts
        for which, weight in zip((1, 0), weights, strict=True):
            total = _wrapping_add(total, call(PAIR_SUMS, type_of(total), data[which], weight))
        yield total


def exchanged_lanes(node: For, _: Subject) -> Iterator[Node]:
    """Neighbours in a vectorized loop that stores outputs."""
    if node.kind == ForKind.VECTORIZED and isinstance(node.body, BufferStore) and node.body.buffer.name == "out":
        other = T.bitwise_xor(node.loop_var, 1)
        at = [substituted(index, node.loop_var, other) for index in node.body.indices]
        yield _loop(node, body=BufferStore(node.body.buffer, node.body.value, at))


def other_byte(node: LShift, _: Subject) -> Iterator[Node]:
    """A byte at another place of a word that is gathered."""
    if isinstance(node.a, Cast) and isinstance(node.b, IntImm) and type_of(node.a.value) == "uint8":
        yield T.shift_left(node.a, T.uint32((int(node.b) + 8) % 32))


@dataclass(frozen=True, slots=True)
class ChangedLayout:
    """A layout with something else in the place of one of its attributes."""

    what: str
    data_offset: int
    weight_offset: int
    channels: npt.NDArray[np.int64]
    border_taps: npt.NDArray[np.bool_]
    pack: Callable[..., Any]

    def __repr__(self) -> str:
        return self.what


def changed(kernel: Kernel, what: str, **instead: Any) -> Kernel:
    names = ("data_offset", "weight_offset", "channels", "border_taps", "pack")
    return replace(kernel, layout=ChangedLayout(what, **{n: getattr(kernel.layout, n) for n in names} | instead))


def exchanged_positions(kernel: Kernel) -> Iterator[Kernel]:
    """Biases and rescale values of two channels exchanged.

    Positions of the same channel overlap, and the last one's outputs stay; those behind the last channel have none.
    """
    channels = kernel.layout.channels
    last = {int(channel): place for place, channel in enumerate(channels)}
    used = [last[channel] for channel in sorted(last)[:-1]]
    for one, other in itertools.pairwise(used):
        order = channels.copy()
        order[[one, other]] = order[[other, one]]
        yield changed(kernel, f"channels: positions {one} and {other} exchanged", channels=order)


# ------------------------------------------------------------------------------------------------- stale accumulator


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
            parts[second] = _loop(loop, body=SeqStmt([start, *_flat(loop.body)]))
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


# ---------------------------------------------------------------------------------------- wrong zero point or clamp


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


# ------------------------------------------------------------------------------ signs, window sums, the image's border


def without_sign_flip(node: BitwiseXor, _: Subject) -> Iterator[Node]:
    yield node.a


def without_correction(node: Call, _: Subject) -> Iterator[Node]:
    if intrinsic(node) == "llvm.vp.sub":
        left, right, *rest = operands(node)
        yield left
        yield call("llvm.vp.add", type_of(node), left, right, *rest)


def without_scalar_correction(node: Sub, _: Subject) -> Iterator[Node]:
    if isinstance(node.b, Mul) and _is_parameter(node.b.a, WEIGHT_ZERO_POINT):
        yield node.a
        yield node.a + node.b


def without_weight_zero_point(node: Sub, _: Subject) -> Iterator[Node]:
    if isinstance(node.a, Cast) and _is_parameter(node.b, WEIGHT_ZERO_POINT):
        yield node.a


def other_window_sum(node: Mul, _: Subject) -> Iterator[Node]:
    """The sum not multiplied by the zero point, or without one of its terms."""
    if _is_parameter(node.a, WEIGHT_ZERO_POINT):
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


def _is_parameter(node: Node, which: int) -> bool:
    return isinstance(node, TensorLoad) and node.source.name == "params" and int(node.indices[0]) == which


def other_pad_value(node: Cast, subject: Subject) -> Iterator[Node]:
    pads = [load for load in nodes_in(node.value, (TensorLoad,)) if _is_parameter(load, PAD_VALUE)]
    if pads and has_border(subject):
        yield like(0, node)
        for other in set(range(extents(pads[0].source)[0])) - {PAD_VALUE}:
            yield substituted(node, pads[0], BufferLoad(pads[0].source, [T.int32(other)]))
        yield T.cast(node.value + 1, type_of(node))


def other_kernel_rows(node: For, _: Subject) -> Iterator[Node]:
    """A tap outside of the image that is not skipped, or one inside that is."""
    for name in ("min", "extent"):
        bound = getattr(node, name)
        for limit in nodes_in(bound, (Min, Max)):
            for side in ("a", "b"):
                for by in (1, -1):
                    sides = {"a": limit.a, "b": limit.b}
                    sides[side] = sides[side] + by
                    yield _loop(node, **{name: substituted(bound, limit, type(limit)(sides["a"], sides["b"]))})


def other_border_taps(kernel: Kernel) -> Iterator[Kernel]:
    """The data's zero point taken from one tap too many or too few."""
    for border_class, tap in np.ndindex(kernel.layout.border_taps.shape):
        taps = kernel.layout.border_taps.copy()
        taps[border_class, tap] ^= True
        yield changed(kernel, f"border_taps: class {border_class}, tap {tap} flipped", border_taps=taps)


# --------------------------------------------------------------------------------------------------------- the kinds

KINDS: dict[str, tuple[Fault, ...]] = {
    "dropped tap": (Expressions((Call,), without_dot), Expressions((Add,), without_multiply_add)),
    "wrong tail": (
        Expressions((TensorLoad,), shifted_load),
        Statements((BufferStore,), shifted_store),
        Expressions((Min, Max, GE, LT), moved_bound),
        Statements((For,), shorter_loop),
    ),
    "wrong rounding": (
        Expressions((Call,), other_conversion),
        Expressions((Add,), other_addition_of_rounder),
        Expressions((Mul,), in_binary64),
        Expressions((Call,), unfused),
        Expressions((Add,), fused),
        Expressions((Add,), other_nudge),
        Expressions((GT,), other_threshold),
        Expressions((Add,), without_right_rounding),
        Expressions((Add,), rounded_once),
        Expressions((LShift,), without_left_shift),
    ),
    "saturating product": (
        Expressions((Call,), saturating_dot),
        Expressions((Call,), saturating_pair_sums),
        Expressions((Mul,), product_in_16_bits),
    ),
    "swapped channel": (
        Statements((BufferStore,), other_accumulator),
        Expressions((TensorLoad,), other_sum),
        Expressions((Call,), exchanged_registers),
        Expressions((Shuffle,), exchanged_values),
        Statements((BufferStore,), exchanged_outputs),
        Expressions((Call,), exchanged_rows),
        Expressions((Call,), exchanged_parts),
        Statements((For,), exchanged_lanes),
        Expressions((LShift,), other_byte),
        Layouts(exchanged_positions),
    ),
    "stale accumulator": (
        Statements((BufferStore,), without_start),
        Expressions((Add,), without_bias),
        Statements((SeqStmt,), reset_in_reduction),
    ),
    "wrong zero point or clamp": (
        Expressions((Call,), without_zero_point),
        Expressions((TensorLoad,), other_parameter),
        Expressions((Min, Max), other_clamp),
        Expressions((Call,), without_saturation),
        Expressions((Call,), other_signedness),
        Expressions((Min,), without_largest),
    ),
    "missing sign flip": (Expressions((BitwiseXor,), without_sign_flip),),
    "missing window sum": (
        Expressions((Call,), without_correction),
        Expressions((Sub,), without_scalar_correction),
        Expressions((Sub,), without_weight_zero_point),
        Expressions((Mul,), other_window_sum),
        Expressions((Add,), other_pixel_sum),
    ),
    "wrong border": (
        Expressions((Cast,), other_pad_value),
        Statements((For,), other_kernel_rows),
        Layouts(other_border_taps),
    ),
}
