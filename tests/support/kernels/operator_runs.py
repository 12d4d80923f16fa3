"""One operator's kernel, compiled for any profile and run, beside its reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm

from int8tune.compiler.graph import DTYPES, ElementType, Graph, Kind, Operator, Quantization, Value
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.operator_kernels.registry import KERNELS
from int8tune.rpc.local.arena import Arena
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.target import Target
from tests.support.kernels.emulated_arm import CPUS, is_native, run_kernel
from tests.support.kernels.guarded_memory import before_a_guard

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


def value_of(name: str, shape: Shape, element: ElementType, scale: float = 0.02, zero_point: int = 3) -> Value:
    steps = Quantization(np.array([scale], np.float32), np.array([zero_point]), None)
    return Value(name, shape, element, steps if element in ("u8", "s8") else None, None)


def graph_of(kind: Kind, inputs: Sequence[Value], output: Value, **attributes: Any) -> Graph:
    """A graph of one operator of the float rule."""
    names = tuple(value.name for value in inputs)
    operator = Operator(kind, (output.name,), kind.value, names, (output.name,), "float", None, attributes)
    return Graph("one", {value.name: value for value in (*inputs, output)}, (operator,), names, (output.name,))


@np.errstate(all="ignore")  # as `compiler.compile.program_of`: scales may be anything
def run_operator(graph: Graph, target: Target, arrays: Sequence[Array]) -> Array:
    """The output of a graph's only operator by its kernel, which may touch nothing around its arrays."""
    (operator,) = graph.operators
    kernel = KERNELS[operator.kind](graph, operator, target)
    output = graph.values[graph.outputs[0]]
    shapes = [tuple(int(extent) for extent in each.ty.shape) for each in kernel.function.params]
    # An output that is not written stays wrong, whatever it should be.
    junk = np.invert(expected(graph, arrays).view(np.uint8)).view(DTYPES[output.type])
    named = {name: value.constant for name, value in graph.values.items() if value.constant is not None}
    named |= dict(zip(graph.inputs, arrays, strict=True))
    inputs = [named[each] if isinstance(each, str) else each for each in kernel.inputs]
    values = (*map(np.ascontiguousarray, inputs), *kernel.constants, junk)
    given = [each.reshape(shape) for each, shape in zip(values, shapes, strict=True)]
    compiled = compile_function(kernel.function, target)
    if target.profile in CPUS and not is_native():
        return run_kernel(compiled, CPUS[target.profile], [given])[0].reshape(output.shape)
    return run_guarded(compiled.jit()["main"], given[:-1], given[-1]).reshape(output.shape)


def run_guarded(entry: Any, inputs: Sequence[Array], junk: Array) -> Array:
    """A read beyond an input ends the process; a write beside the output is told."""
    arena = Arena(junk.nbytes)
    arena.prepare(junk.nbytes, 0)
    output = arena.view(junk.shape, junk.dtype)
    output[...] = junk
    placed = [before_a_guard(np.ascontiguousarray(each)) for each in inputs]
    entry(*(tvm.runtime.from_dlpack(each) for each in placed), tvm.runtime.from_dlpack(output))
    made = output.copy()
    fault = arena.fault(made, 0)
    assert fault is None, fault
    return made


def expected(graph: Graph, arrays: Sequence[Array]) -> Array:
    found = run_reference(graph, dict(zip(graph.inputs, arrays, strict=True)))
    return np.ascontiguousarray(found[graph.outputs[0]])


def assert_operator_exact(graph: Graph, target: Target, arrays: Sequence[Array], threads: int = 1) -> None:
    made = run_operator(graph, replace(target, threads=threads), arrays)
    np.testing.assert_array_equal(made, expected(graph, arrays))
