"""A program as a Relax module, built and linked. This module imports TVM.

Kernels are compiled one by one, as `schedules.lowering` has them compiled when they are tuned, and called by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from int8tune.compiler.graph import Value
from int8tune.compiler.operator_kernels.kernel import TYPES
from int8tune.compiler.program import Array, Call, Program
from int8tune.compiler.replacing import replaced
from int8tune.compiler.toolchain.linker import link_objects
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.target import Target

MAIN, ABOUT = "main", "about"


def build_executable(program: Program, target: Target, about: str, report: Callable[[int, int], None]) -> Any:
    """The Relax executable: `main` takes the model's inputs, `about` gives a text as u8 values.

    Args:
        report: told how many kernels are compiled, of how many.
    """
    kernels: list[Any] = []
    for function in program.kernels.values():
        report(len(kernels), len(program.kernels))
        kernels.append(compile_function(function, target).mod)
    report(len(kernels), len(kernels))
    module = _module(program, about).with_attr("external_mods", kernels)
    host = tvm.target.Target(dict(target.tvm))
    return relax.build(module, target=host)


def export(executable: Any, library: Path) -> None:
    """Link an executable into a shared library, which is replaced whole or not at all.

    Raises:
        NoLinkerError: nothing is there to link with.
        ExportError: the file can't be written; an older one is as it was.
        RuntimeError: the linker failed.
    """

    def link(output: str, objects: Sequence[str], **_: Any) -> None:
        link_objects(Path(output), [Path(name) for name in objects])

    link.object_format = "o"  # type: ignore[attr-defined]
    # Asked for only where a model has no kernels, which know it.
    link.get_target_triple = tvm.target.codegen.llvm_get_system_triple  # type: ignore[attr-defined]
    with replaced(library) as made:
        executable.export_library(str(made), fcompile=link, workspace_dir=str(made.parent))


def _module(program: Program, about: str) -> Any:
    values, builder = program.graph.values, relax.BlockBuilder()
    inputs = [relax.Var(f"input_{index}", _type(values[name])) for index, name in enumerate(program.graph.inputs)]
    with builder.function(MAIN, inputs):
        known: dict[str, Any] = dict(zip(program.graph.inputs, inputs, strict=True))
        with builder.dataflow():
            for call in program.calls:
                known[call.output] = builder.emit(_call(call, known, values[call.output]))
            outputs = [
                known[name] if name in known else _constant(values[name].constant) for name in program.graph.outputs
            ]
            made = builder.emit_output(relax.Tuple(outputs) if len(outputs) != 1 else outputs[0])
        builder.emit_func_output(made)
    with builder.function(ABOUT, []):
        builder.emit_func_output(relax.const(np.frombuffer(about.encode(), np.uint8)))
    return builder.get()


def _call(call: Call, known: dict[str, Any], output: Value) -> Any:
    arguments = [known[each] if isinstance(each, str) else _constant(each) for each in call.arguments]
    if not call.kernel:
        return relax.op.reshape(arguments[0], output.shape)
    return relax.op.call_dps_packed(call.kernel, arguments, _type(output))


def _constant(array: Array | None) -> Any:
    """A constant of the array's own type: Relax takes 64-bit numbers for 32-bit ones, where it is not told."""
    assert array is not None
    return relax.const(np.asarray(array, order="C"), str(array.dtype))


def _type(value: Value) -> Any:
    return relax.TensorType(value.shape, TYPES[value.type])
