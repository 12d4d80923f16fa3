"""A program as a Relax module, built and linked. This module imports TVM.

Kernels are called by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Value
from int8tune.compiler.islands.scheduling import with_whole_vectors
from int8tune.compiler.operator_kernels.kernel import TYPES
from int8tune.compiler.program import Array, Call, Program, known_of, main_of, watched_of
from int8tune.compiler.reasons import reason_of
from int8tune.compiler.toolchain.kernel_cache import KernelCache, KernelCounts
from int8tune.compiler.toolchain.kernel_objects import KernelError, kernel_objects
from int8tune.compiler.toolchain.linker import BLOB, link_objects
from int8tune.compiler.toolchain.object_file import write_data_object
from int8tune.compiler.toolchain.stand_ins import StandIns
from int8tune.compiler.whole_program import WholeProgram
from int8tune.results.text import clipped, printable
from int8tune.schedules.lowering import llvm_options
from int8tune.schedules.target import Target

ABOUT, INITIAL = "about", "initial"


def build_executable(
    programs: Sequence[Program],
    wholes: Mapping[int, WholeProgram],
    target: Target,
    about: str,
    kernels: Sequence[Any],
    stand_ins: StandIns,
) -> Any:
    """The Relax executable: `main` takes the model's inputs and what it keeps from run to run, and makes its
    outputs and what it keeps; `initial` gives what that is at first; `about` gives a text as u8 values.

    Programs behind the first one, whose inputs have other shapes, are `main_1` and so on. `watched_0` and so on are
    the same, call by call; `known_0` and so on give the constants of those that are one function.

    Args:
        wholes: programs that are one function, by their numbers.
        kernels: modules that have the programs' kernels.
        stand_ins: get what is large of the constants.
    """
    module = _module(programs, wholes, about, stand_ins).with_attr("external_mods", list(kernels))
    return relax.build(module, target=tvm.target.Target(llvm_options(target)))


def compiled_kernels(
    programs: Sequence[Program],
    wholes: Mapping[int, WholeProgram],
    target: Target,
    folder: Path,
    cache: KernelCache | None,
    report: Callable[[int, int], None],
) -> tuple[list[Any], KernelCounts]:
    """Modules of the programs' kernels, each once, and of whole programs, and how many of them were compiled.

    Args:
        folder: where their object files are written.
        report: told how many kernels are compiled, of how many.

    Raises:
        ModelError: TVM can't build what its importer made of a part of the file.
    """
    kernels, wide = {}, with_whole_vectors(target)
    for program in programs:
        floats = {call.kernel for call in program.calls if call.is_float}
        kernels.update({name: (each, wide if name in floats else target) for name, each in program.kernels.items()})
    for each in wholes.values():
        kernels[each.name] = each.functions, target
    try:
        return kernel_objects(kernels, folder, cache, report)
    except KernelError as error:
        program = next(program for program in programs if error.kernel in program.kernels)
        raise _refusal(program, error.kernel, error.cause) from error.cause


def _refusal(program: Program, kernel: str, error: Exception) -> Exception:
    """The fault of the file where TVM can't build what its importer made of it; else the error itself."""
    call = next((call for call in program.calls if call.kernel == kernel), None)
    if call is None or not call.is_float:
        return error
    reason = reason_of(error)
    what = f"`{clipped(call.layers[0])}` ({clipped(call.computes)}) can't be compiled in float: {reason}"
    return ModelError(printable(f"{program.graph.name}: {what}"))


def export(executable: Any, stand_ins: StandIns, library: Path, target: Target) -> None:
    """Link an executable and its large constants into a shared library; what it is linked of is written beside that.

    Raises:
        RuntimeError: the linker failed.
    """

    triple = str(target.tvm.get("mtriple") or tvm.target.codegen.llvm_get_system_triple())

    def link(output: str, objects: Sequence[str], **_: Any) -> None:
        link_objects(Path(output), [Path(name) for name in objects])

    def pack(module: Any, *_: Any) -> str:
        """Write what is no code, above all constants; TVM would have LLVM make it, in twice the memory."""
        packed = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")(module).numpy()
        compiled = library.with_suffix(".constants.o")
        parts = list(stand_ins.restored(packed.tobytes()))
        write_data_object(compiled, BLOB, parts, triple.partition("-")[0])
        return str(compiled)

    link.object_format = "o"  # type: ignore[attr-defined]
    executable.mod.export_library(str(library), fcompile=link, fpack_imports=pack, workspace_dir=str(library.parent))


def _module(programs: Sequence[Program], wholes: Mapping[int, WholeProgram], about: str, stand_ins: StandIns) -> Any:
    builder = relax.BlockBuilder()
    for index, program in enumerate(programs):
        if index in wholes:
            _write_whole(builder, main_of(index), known_of(index), wholes[index], stand_ins)
        _write(builder, watched_of(index) if index in wholes else main_of(index), program, stand_ins)
    states = programs[0].graph.states
    with builder.function(INITIAL, []):
        builder.emit_func_output(relax.Tuple([_constant(state.initial) for state in states]))
    with builder.function(ABOUT, []):
        builder.emit_func_output(relax.const(np.frombuffer(about.encode(), np.uint8)))
    return builder.get()


def _write(builder: Any, name: str, program: Program, stand_ins: StandIns) -> None:
    """Write the function of a program."""
    values = program.graph.values
    inputs = [relax.Var(f"input_{index}", _type(values[label])) for index, label in enumerate(program.graph.given)]
    with builder.function(name, inputs):
        known: dict[str, Any] = dict(zip(program.graph.given, inputs, strict=True))
        with builder.dataflow():
            for call in program.calls:
                made = builder.emit(_call(call, known, [values[name] for name in call.outputs], stand_ins))
                fields = [made] if len(call.outputs) == 1 else [made[index] for index in range(len(call.outputs))]
                known.update(zip(call.outputs, map(builder.emit, fields) if len(fields) > 1 else fields, strict=True))
            outputs = [
                known[name] if name in known else _constant(values[name].constant) for name in program.graph.needed
            ]
            made = builder.emit_output(relax.Tuple(outputs) if len(outputs) != 1 else outputs[0])
        builder.emit_func_output(made)


def _write_whole(builder: Any, name: str, known: str, whole: WholeProgram, stand_ins: StandIns) -> None:
    """Write the function of a program that calls one kernel; its memory is a last output, which nobody gets.

    Args:
        known: the name of the function that gives the kernel's constants, for those who call the kernel themselves.
    """
    graph = whole.program.graph
    inputs = [relax.Var(f"input_{index}", _type(graph.values[label])) for index, label in enumerate(graph.given)]
    types = [_type(graph.values[name]) for name in graph.needed]
    types.append(relax.TensorType((whole.memory_bytes,), "uint8"))
    constants = [_constant(stand_ins.of(each)) for each in whole.constants]
    with builder.function(known, []):
        builder.emit_func_output(relax.Tuple(constants))
    with builder.function(name, inputs):
        with builder.dataflow():
            arguments = [*inputs, *constants]
            made = builder.emit(relax.op.call_dps_packed(whole.name, arguments, types))
            outputs = [builder.emit(made[index]) for index in range(len(graph.needed))]
            result = builder.emit_output(relax.Tuple(outputs) if len(outputs) != 1 else outputs[0])
        builder.emit_func_output(result)


def _call(call: Call, known: dict[str, Any], outputs: Sequence[Value], stand_ins: StandIns) -> Any:
    if not call.kernel:
        (data,) = call.arguments
        return relax.op.reshape(known[data] if isinstance(data, str) else _constant(data), outputs[0].shape)
    arguments = [known[each] if isinstance(each, str) else _constant(stand_ins.of(each)) for each in call.arguments]
    return relax.op.call_dps_packed(call.kernel, arguments, [_type(output) for output in outputs])


def _constant(array: Array | None) -> Any:
    """A constant of the array's own type: Relax takes 64-bit numbers for 32-bit ones, where it is not told."""
    assert array is not None
    array = np.asarray(array, order="C")
    return relax.const(array, str(array.dtype))


def _type(value: Value) -> Any:
    return relax.TensorType(value.shape, TYPES[value.type])
