"""A model as one kernel with one case, which a device measures as any other. This module imports TVM.

Its arguments are the model's inputs, all constants, the memory between its kernels, and one output that has those of
the model one behind the other, as a device takes them (`rpc.request.Program`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.compile import program_of
from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import DTYPES, Graph
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.memory_plan import bytes_of
from int8tune.compiler.program import Array
from int8tune.compiler.report import Report, ignore
from int8tune.compiler.schedule_choice import Chooser
from int8tune.compiler.toolchain.kernel_cache import KernelCache
from int8tune.compiler.toolchain.kernel_key import SYMBOL, function_digest
from int8tune.compiler.toolchain.kernel_objects import kernel_objects
from int8tune.compiler.toolchain.linker import link_objects
from int8tune.compiler.whole_program import MOST_CALLS, Caller, WholeProgram
from int8tune.rpc.request import Case, Program
from int8tune.schedules.target import Target
from int8tune.schedules.written.signature import flat_argument


def write_model_kernel(
    graph: Graph,
    inputs: Sequence[Array],
    target: Target,
    schedules: Chooser,
    folder: Path,
    report: Report = ignore,
    cache: KernelCache | None = None,
) -> Program:
    """Compile a model for a CPU, and write its library and its case into a folder.

    Args:
        inputs: an array for each input of the graph, in its form; outputs must be what the reference makes of them.

    Raises:
        ModelError: the model can't be a kernel that is compared bit for bit, or has operators that nothing computes.
        NoLinkerError: nothing is there to link with.
    """
    require_comparable(graph)
    program = program_of(graph, target, schedules, report)
    if len(program.calls) > MOST_CALLS:
        raise ModelError(f"{graph.name}: {len(program.calls):,} calls, {MOST_CALLS:,} at most run as one kernel")
    whole = WholeProgram(program)
    entry = _entry(whole)
    name = f"model_{function_digest(entry)}"
    functions = {**program.kernels, whole.name: whole.function, name: entry.with_attr(SYMBOL, name)}
    kernel_objects(
        {symbol: (function, target) for symbol, function in functions.items()},
        folder,
        cache,
        lambda done, total: report("building kernels", done, total),
    )
    library = folder / "model.so"
    report("linking", 0, 1)
    link_objects(library, [folder / f"{symbol}.o" for symbol in functions])
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    return Program(str(library), digest, name, (_case(whole, inputs, folder),))


def require_comparable(graph: Graph) -> None:
    """Raises: ModelError: outputs depend on the CPU's last bits, or on the runs before."""
    if found := float_operators(graph):
        names = ", ".join(sorted(found))
        raise ModelError(f"{graph.name}: last bits of what is computed in float differ from CPU to CPU: {names}")
    if graph.states:
        raise ModelError(f"{graph.name}: its outputs depend on the runs before")


def _entry(whole: WholeProgram) -> Any:
    """The PrimFunc (inputs, constants, memory, output), each of one axis."""
    parts, size_bytes = _output_parts(whole)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        given, known = whole.declare_arguments()
        memory = flat_argument("memory", whole.memory_bytes, "uint8")
        output = flat_argument("output", size_bytes, "uint8")
        T.func_attr({SYMBOL: "main", "tirx.noalias": True})
        firsts = [*(each[0] for each in (*given, *known)), *(output[part.start] for part in parts), memory[0]]
        caller = Caller(len(firsts))
        for at, first in enumerate(firsts):
            caller.point(at, T.address_of(first))
        caller.call(whole.name, len(firsts))
        for part, behind in zip(parts, [*(part.start for part in parts[1:]), size_bytes], strict=True):
            with T.serial(part.stop, behind) as place:
                T.buffer_store(output, T.uint8(0), [place])
    return builder.get()


def _output_parts(whole: WholeProgram) -> tuple[list[range], int]:
    """Where in one array of bytes each output is, and how many bytes all have; those between them are zeros."""
    graph, parts, end = whole.program.graph, list[range](), 0
    for name in graph.outputs:
        value = graph.values[name]
        size_bytes = math.prod(value.shape) * np.dtype(DTYPES[value.type]).itemsize
        parts.append(range(end, end + size_bytes))
        end += bytes_of(value)
    return parts, end


def _case(whole: WholeProgram, inputs: Sequence[Array], folder: Path) -> Case:
    """What the kernel takes, and what it must make of it, written into files."""
    graph, (parts, size_bytes) = whole.program.graph, _output_parts(whole)
    made = run_reference(graph, dict(zip(graph.inputs, inputs, strict=True)))
    expected = np.zeros(size_bytes, np.uint8)
    for part, name in zip(parts, graph.outputs, strict=True):
        expected[part.start : part.stop] = np.ascontiguousarray(made[name]).reshape(-1).view(np.uint8)
    arrays = [*inputs, *whole.constants, np.zeros(whole.memory_bytes, np.uint8), expected]
    files = [str(folder / f"{at}.npy") for at in range(len(arrays))]
    for file, array in zip(files, arrays, strict=True):
        np.save(file, np.ascontiguousarray(array).reshape(-1))
    return Case(tuple(files[:-1]), files[-1])
