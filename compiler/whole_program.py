"""A program as one function that calls its kernels one after the other. This module imports TVM.

Between two kernels nothing is allocated, looked up or counted: what is between them has a place in one block of memory
(`compiler.memory_plan`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Value
from int8tune.compiler.matrices.product_kernel import SYMBOL_PREFIX
from int8tune.compiler.memory_plan import memory_plan
from int8tune.compiler.operator_kernels.kernel import TYPES
from int8tune.compiler.program import Array, Program
from int8tune.compiler.toolchain.kernel_key import SYMBOL, function_digest
from int8tune.schedules.written.signature import flat_argument


class Field(IntEnum):
    """Parts of DLTensor and TVMFFIAny, as TVM numbers them (`TVMStructFieldKind`)."""

    ADDRESS = 0
    DATA = 1
    SHAPE = 2
    STRIDES = 3
    AXES = 4
    OFFSET = 8
    DEVICE = 9
    DEVICE_TYPE = 10
    KIND = 13
    ZERO = 14
    VALUE = 15


# What TVM's calling convention has for a pointer to a DLTensor (`kTVMFFIDLTensorPtr`).
ARRAY_KIND = 7
CPU = 1
MOST_CALLS = 2000
"""A longer program is called call by call: LLVM's time grows with the function."""


class Caller:
    """Calls of functions as TVM's runtime makes them, written into a PrimFunc.

    Their arguments are arrays of one axis, of which each call changes the addresses alone: kernels know the shapes and
    types of their arguments, and don't look (`schedules.lowering`).
    """

    def __init__(self, most: int) -> None:
        """Write the memory for the arguments of a call, so many at most."""
        self._arrays = T.Bind(T.tvm_stack_alloca("array", most))
        self._packed = T.Bind(T.tvm_stack_alloca("tvm_ffi_any", most))
        self._result = T.Bind(T.tvm_stack_alloca("tvm_ffi_any", 1))
        shape = T.Bind(T.tvm_stack_alloca("shape", 1))
        with T.serial(0, most) as index:
            array = T.tvm_struct_get(self._arrays, index, Field.ADDRESS, "handle")
            _set(self._arrays, index, {**_array_fields(), Field.SHAPE: shape})
            _set(self._packed, index, {Field.KIND: T.int32(ARRAY_KIND), Field.ZERO: T.int32(0), Field.VALUE: array})

    def point(self, index: Any, address: Any) -> None:
        """Let an argument be the memory at an address."""
        _set(self._arrays, index, {Field.DATA: address})

    def call(self, name: str, count: int) -> None:
        """Call a function with so many arguments.

        TVM's own expression for it declares a function again with each call, and LLVM gives each a name of its own.
        """
        _set(self._result, 0, {Field.KIND: T.int32(0), Field.ZERO: T.int32(0), Field.VALUE: T.int64(0)})
        code = T.call_extern("int32", SYMBOL_PREFIX + name, _null(), self._packed, T.int32(count), self._result)
        with T.If(code != 0), T.Then():
            T.evaluate(T.tvm_throw_last_error())


class WholeProgram:
    """A program's function, and what is known of it.

    Attributes:
        constants: its arguments behind the program's inputs, each once.
        memory_bytes: of its last argument.
        plan: `size_bytes` of a last output, which is its memory, come behind the program's outputs.
        name: has its digest.
        bound_name: of the function of one argument, the addresses of all of the program's: a call from Python takes
            ten nanoseconds for each argument.
        functions: both in one module, as LLVM takes its time for a module whatever it has.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.plan = program, memory_plan(program)
        found: dict[int, Array] = {}
        arguments = [each for call in program.calls if call.kernel for each in call.arguments]
        sources = [self._source(each) for each in (*arguments, *(source for _, source in self.plan.copies))]
        found.update((id(each), each) for each in sources if not isinstance(each, str))
        self.constants = list(found.values())
        self._places = {key: index for index, key in enumerate(found)}
        self.memory_bytes = max(self.plan.size_bytes, 1)
        function, graph = self._write(), program.graph
        self.name = f"program_{function_digest(function)}"
        count = len(graph.given) + len(self.constants) + len(graph.needed) + 1
        self.bound_name = f"bound_{self.name}"
        self.function = function.with_attr(SYMBOL, self.name)
        self.functions = tvm.IRModule({self.name: self.function, self.bound_name: bound_function(self.name, count)})

    def _write(self) -> Any:
        """The PrimFunc (inputs, constants, outputs, memory), each of one axis."""
        graph = self.program.graph
        with IRBuilder() as builder, T.prim_func(s_tir=True):
            T.func_name("main")
            given, self._constants = self.declare_arguments()
            self._inputs = dict(zip(graph.given, given, strict=True))
            self._outputs = [self._value(f"out_{index}", graph.values[each]) for index, each in enumerate(graph.needed)]
            self._memory = flat_argument("memory", self.memory_bytes, "uint8")
            T.func_attr({SYMBOL: "main", "tirx.noalias": True})
            calls = [call for call in self.program.calls if call.kernel]
            caller = Caller(max((len(call.arguments) + len(call.outputs) for call in calls), default=1))
            for call in calls:
                arguments = (*call.arguments, *call.outputs)
                for index, each in enumerate(arguments):
                    caller.point(index, self._address(self._source(each)))
                caller.call(call.kernel, len(arguments))
            for index, source in self.plan.copies:
                if math.prod(graph.values[graph.needed[index]].shape):
                    self._copy(index, source)
        return builder.get()

    def declare_arguments(self) -> tuple[list[Any], list[Any]]:
        """The buffers of the inputs and of the constants, in the function that is being built."""
        graph = self.program.graph
        given = [self._value(f"in_{index}", graph.values[each]) for index, each in enumerate(graph.given)]
        known = [
            flat_argument(f"known_{index}", max(each.size, 1), str(each.dtype))
            for index, each in enumerate(self.constants)
        ]
        return given, known

    def _value(self, name: str, value: Value) -> Any:
        return flat_argument(name, max(math.prod(value.shape), 1), TYPES[value.type])

    def _address(self, source: str | Array) -> Any:
        if isinstance(source, str) and source in self.plan.offsets:
            return T.address_of(self._memory[self.plan.offsets[source]])
        return T.address_of(self._buffer(source)[0])

    def _buffer(self, source: str | Array) -> Any:
        if not isinstance(source, str):
            return self._constants[self._places[id(source)]]
        if source in self.plan.outputs:
            return self._outputs[self.plan.outputs[source]]
        return self._inputs[source]

    def _copy(self, index: int, argument: str | Array) -> None:
        """An output that another value is, too."""
        source, out = self._source(argument), self._outputs[index]
        buffer = self._buffer(source)
        with T.serial(0, out.shape[0]) as place:
            T.buffer_store(out, buffer[place], [place])

    def _source(self, argument: str | Array) -> str | Array:
        return self.plan.source_of(argument) if isinstance(argument, str) else argument


def bound_function(name: str, count: int) -> Any:
    """The PrimFunc (addresses) that calls a function with the arrays at these, each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        addresses = flat_argument("addresses", count, "int64")
        T.func_attr({SYMBOL: "main", "tirx.noalias": True})
        caller = Caller(count)
        with T.serial(0, count) as index:
            caller.point(index, T.reinterpret(addresses[index], dtype="handle"))
        caller.call(name, count)
    return builder.get().with_attr(SYMBOL, f"bound_{name}")


def _set(struct: Any, index: Any, values: Mapping[Field, Any]) -> None:
    for field, value in values.items():
        T.evaluate(T.tvm_struct_set(struct, index, field, value))


def _array_fields() -> dict[Field, Any]:
    return {
        Field.STRIDES: _null(),
        Field.AXES: T.int32(1),
        Field.OFFSET: T.uint64(0),
        Field.DEVICE: T.int32(0),
        Field.DEVICE_TYPE: T.int32(CPU),
    }


def _null() -> Any:
    return T.reinterpret(T.uint64(0), dtype="handle")


def whole_programs(programs: Sequence[Program]) -> dict[int, WholeProgram]:
    """Those that are not too long, by their numbers."""
    short = {index: each for index, each in enumerate(programs) if len(each.calls) <= MOST_CALLS}
    return {index: WholeProgram(each) for index, each in short.items()}
