"""The kernel that calls a layer's own kernel for one pair of matrices after the other. This module imports TVM.

The layer's kernel is compiled by itself, as it was when it was tuned, and called by name. It takes its arguments to
begin with a cache line: matrices that don't are copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.matrices.places import place_of
from int8tune.compiler.matrices.values import Argument
from int8tune.schedules.written.rows import copy_row
from int8tune.schedules.written.signature import flat_argument

SYMBOL_PREFIX = "__tvm_ffi_"
"""What TVM puts before a function's name; the linker finds it, as it is of another module of the library."""


def scratch_of(arguments: Sequence[Argument], threads: int) -> list[tuple[str, int]]:
    """Type and length of the arrays that a kernel needs besides its arguments: for those that are copied."""
    return [(each.dtype, threads * each.lines) for each in arguments if not each.is_aligned]


def write_product(kernel: str, arguments: Sequence[Argument], batch: tuple[int, ...], threads: int) -> Any:
    """The PrimFunc that calls a kernel of one pair of matrices for a whole batch, each of its arguments of one axis.

    It takes all of the arguments, then what `scratch_of` says.

    Args:
        kernel: the name of the function.
        arguments: the last one is the output.
        threads: which share the batch.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        _ProductWriter(kernel, arguments, batch).write(threads)
    return builder.get()


class _ProductWriter:
    """Emits one kernel."""

    def __init__(self, kernel: str, arguments: Sequence[Argument], batch: tuple[int, ...]) -> None:
        self.kernel, self.arguments, self.batch = kernel, arguments, batch

    def write(self, threads: int) -> None:
        self.buffers = [flat_argument(each.name, each.stride * each.count, each.dtype) for each in self.arguments]
        copied = [each.name for each in self.arguments if not each.is_aligned]
        scratch = scratch_of(self.arguments, threads)
        self.scratch = {
            name: flat_argument(f"{name} copy", length, dtype)
            for name, (dtype, length) in zip(copied, scratch, strict=True)
        }
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        turns = math.prod(self.batch)
        if threads == 1:
            self._turns(0, 0, turns)
            return
        with T.parallel(0, threads) as thread:
            self._turns(thread, thread * turns // threads, (thread + 1) * turns // threads)

    def _turns(self, thread: Any, first: Any, behind: Any) -> None:
        with T.serial(first, behind) as turn:
            places = [place_of(turn, self.batch, [step * each.stride for step in each.at]) for each in self.arguments]
            self._call(places, [self._taken(each, place, thread) for each, place in enumerate(places)])

    def _taken(self, index: int, place: Any, thread: Any) -> tuple[Any, Any]:
        """The buffer that the kernel takes for an argument, and where in it."""
        argument = self.arguments[index]
        if argument.is_aligned:
            return self.buffers[index], place
        return self.scratch[argument.name], T.Bind(T.int32(thread) * argument.lines)

    def _call(self, places: Sequence[Any], taken: Sequence[tuple[Any, Any]]) -> None:
        *inputs, output = range(len(self.arguments))
        for index in inputs:
            if not self.arguments[index].is_aligned:
                length = self.arguments[index].length
                copy_row(*taken[index], self.buffers[index], places[index], length, signed=False)
        arrays = [_array(*place, each) for place, each in zip(taken, self.arguments, strict=True)]
        no_context = T.reinterpret(T.uint64(0), dtype="handle")
        T.evaluate(T.call_cpacked(SYMBOL_PREFIX + self.kernel, *arrays, no_context))
        if not self.arguments[output].is_aligned:
            length = self.arguments[output].length
            copy_row(self.buffers[output], places[output], *taken[output], length, signed=False)


def _array(buffer: Any, start: Any, argument: Argument) -> Any:
    """A part of a buffer as an array of one axis."""
    shape = T.tvm_stack_make_shape(argument.length)
    zero = T.Cast(argument.dtype, 0) if argument.dtype != "int32" else T.int32(0)
    return T.tvm_stack_make_array(T.address_of(buffer[start]), shape, 0, 1, zero, 0)
