"""What the nodes of a kernel's TIR are, for the faults that change them.

Arguments of kernels are known by their names, which are those of `schedules.arguments`.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.script import tirx as T
from tvm.target import codegen
from tvm.tirx import Broadcast, BufferStore, For, Ramp, Var

from int8tune.schedules.intrinsics.x86_vectors import call
from int8tune.schedules.workload import Dense
from tests.support.mutation.kernels import Node, Subject, nodes_in

DOTS = ("llvm.x86.avx512.vpdpbusd.512", "llvm.x86.avx512.vpdpbusd.256")
PAIR_SUMS = "llvm.x86.avx2.pmadd.wd"


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


def type_of(node: Node) -> Any:
    """A node's type, as the text that TVM has for it."""
    return node.ty.dtype


def extents(buffer: Node) -> list[int]:
    return [int(extent) for extent in buffer.shape]


def holds_vectors(buffer: Node) -> bool:
    """Whether a buffer stands for registers: the x86 kernels' writers use such ones against LLVM's wishes."""
    return bool(buffer.dtype.lanes > 1)


def registers_of(buffer: Node) -> list[int]:
    """How many registers a buffer of sums has, axis by axis: lanes have an axis of their own, or are in the type."""
    return extents(buffer) if holds_vectors(buffer) else extents(buffer)[:-1]


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


def loop_with(node: For, **changed: Any) -> For:
    names = ("loop_var", "min", "extent", "kind", "body", "thread_binding", "annotations", "step")
    return For(**{name: getattr(node, name) for name in names} | changed)


def wrapping_add(left: Node, right: Node) -> Node:
    lanes = type_of(left).lanes
    return call("llvm.vp.add", type_of(left), left, right, T.broadcast(T.bool(True), lanes), T.int32(lanes))


def two_pair_sums(node: Call) -> tuple[Node, tuple[Node, Node], tuple[Node, Node]] | None:
    """The parts of `total + even data * even weights + odd data * odd weights`: total, data, weights."""
    if intrinsic(node) != "llvm.vp.add":
        return None
    inner, odd = operands(node)[:2]
    if intrinsic(inner) != "llvm.vp.add" or intrinsic(odd) != PAIR_SUMS:
        return None
    total, even = operands(inner)[:2]
    pairs = operands(even), operands(odd)
    return total, (pairs[0][0], pairs[1][0]), (pairs[0][1], pairs[1][1])


def is_parameter(node: Node, which: int) -> bool:
    return isinstance(node, TensorLoad) and node.source.name == "params" and int(node.indices[0]) == which


def constant_of(node: Node) -> Node:
    """The scalar that a vector repeats, or the node itself."""
    return node.value if isinstance(node, Broadcast) else node
