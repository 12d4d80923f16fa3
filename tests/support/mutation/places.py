"""Faults of places: one value off, another register, another channel, the border of the image."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.script import tirx as T
from tvm.tirx import Broadcast, BufferLoad, BufferStore, Cast, For, ForKind, IntImm, LShift, Max, Min, Shuffle

from int8tune.schedules.arguments import PAD_VALUE
from int8tune.schedules.intrinsics.x86_vectors import call
from int8tune.schedules.template import Kernel
from tests.support.mutation.kernels import Node, Subject, nodes_in, substituted
from tests.support.mutation.nodes import (
    PAIR_SUMS,
    extents,
    has_border,
    holds_vectors,
    intrinsic,
    is_accumulator,
    is_index,
    is_parameter,
    like,
    loads,
    loop_with,
    moved,
    operands,
    own_load,
    registers_of,
    two_pair_sums,
    type_of,
    wrapping_add,
)


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
        yield loop_with(node, extent=node.extent - 1)


def other_accumulator(node: BufferStore, _: Subject) -> Iterator[Node]:
    """A product that is added to the sum of another register."""
    if (load := own_load(node)) is None:
        return
    for axis, extent in enumerate(registers_of(node.buffer)):
        for by in (1, extent - 1) if extent > 1 else ():
            at = [_turned(index, by, extent) if i == axis else index for i, index in enumerate(node.indices)]
            instead = [_turned(index, by, extent) if i == axis else index for i, index in enumerate(load.indices)]
            yield BufferStore(node.buffer, substituted(node.value, load, BufferLoad(node.buffer, instead)), at)


def other_sum(node: TensorLoad, subject: Subject) -> Iterator[Node]:
    """The sum of another register, where sums are used."""
    if not is_accumulator(node.source, subject):
        return
    for axis, extent in enumerate(registers_of(node.source)):
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
    if (parts := two_pair_sums(node)) is not None:
        total, data, weights = parts
        for which, weight in zip((1, 0), weights, strict=True):
            total = wrapping_add(total, call(PAIR_SUMS, type_of(total), data[which], weight))
        yield total


def exchanged_lanes(node: For, _: Subject) -> Iterator[Node]:
    """Neighbours in a vectorized loop that stores outputs."""
    if node.kind == ForKind.VECTORIZED and isinstance(node.body, BufferStore) and node.body.buffer.name == "out":
        other = T.bitwise_xor(node.loop_var, 1)
        at = [substituted(index, node.loop_var, other) for index in node.body.indices]
        yield loop_with(node, body=BufferStore(node.body.buffer, node.body.value, at))


def other_byte(node: LShift, _: Subject) -> Iterator[Node]:
    """A byte at another place of a word that is gathered."""
    if isinstance(node.a, Cast) and isinstance(node.b, IntImm) and type_of(node.a.value) == "uint8":
        yield T.shift_left(node.a, T.uint32((int(node.b) + 8) % 32))


def other_pad_value(node: Cast, subject: Subject) -> Iterator[Node]:
    pads = [load for load in nodes_in(node.value, (TensorLoad,)) if is_parameter(load, PAD_VALUE)]
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
                    yield loop_with(node, **{name: substituted(bound, limit, type(limit)(sides["a"], sides["b"]))})


def other_border_taps(kernel: Kernel) -> Iterator[Kernel]:
    """The data's zero point taken from one tap too many or too few."""
    for border_class, tap in np.ndindex(kernel.layout.border_taps.shape):
        taps = kernel.layout.border_taps.copy()
        taps[border_class, tap] ^= True
        yield changed(kernel, f"border_taps: class {border_class}, tap {tap} flipped", border_taps=taps)


@dataclass(frozen=True, slots=True)
class ChangedLayout:
    """A layout with something else in the place of one of its attributes."""

    what: str
    data_offset: int
    channels: npt.NDArray[np.int64]
    border_taps: npt.NDArray[np.bool_]
    pack: Callable[..., Any]
    packed_zero_point: Callable[..., int]

    def __repr__(self) -> str:
        return self.what


def changed(kernel: Kernel, what: str, **instead: Any) -> Kernel:
    names = ("data_offset", "channels", "border_taps", "pack", "packed_zero_point")
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
