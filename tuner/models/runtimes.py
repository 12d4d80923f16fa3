"""Runtimes of whole models: this library's, and others that read the same files.

Each imports its library where it is used only: in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from int8tune.compiler.program import Array
from int8tune.compiler.tflite_reader.blocks import has_blocks
from int8tune.compiler.tflite_reader.file import schema_of
from int8tune.tuner.bench.peers.onnxruntime import session_of
from int8tune.tuner.bench.peers.openvino import OPTIONS


class LoadedModel(Protocol):
    """A model in a runtime, with its buffers in place."""

    def bind(self, inputs: Sequence[Array]) -> None:
        """Take inputs, in the order and of the forms of the model's file."""

    def run(self) -> None:
        """Compute the outputs of the inputs that were taken last. Nothing else."""

    def outputs(self) -> list[Array]:
        """What the last `run` computed, in the order of the model's file."""


class Runtime(Protocol):
    """A library that runs models.

    Attributes:
        name: as the command line has it.
        requires: names of the distributions that it needs, its own first.
        suffixes: of the files that it reads.
    """

    @property
    def name(self) -> str: ...

    @property
    def requires(self) -> tuple[str, ...]: ...

    @property
    def suffixes(self) -> tuple[str, ...]: ...

    def load(self, path: Path, threads: int) -> LoadedModel:
        """Prepare a model to run on so many threads."""


class Int8Tune:
    """This library's compiled models."""

    name = "int8tune"
    requires = ()
    suffixes = (".so",)

    def load(self, path: Path, threads: int) -> LoadedModel:  # noqa: ARG002
        from int8tune.compiler.compiled_model import CompiledModel

        return Compiled(CompiledModel(path))


class Compiled:
    """A compiled model of this library."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def bind(self, inputs: Sequence[Array]) -> None:
        self._bound = self._model.bind(inputs)

    def run(self) -> None:
        self._bound.run()

    def outputs(self) -> list[Array]:
        made: list[Array] = self._bound.outputs()
        return made

    def profile(self, inputs: Sequence[Array], runs: int) -> Array:
        """Seconds of each call [calls, runs], in the order in which they run."""
        return np.array([each.times_s for each in self._model.profile(inputs, runs)])


@dataclass(frozen=True, slots=True)
class OnnxRuntime:
    """ONNX Runtime on CPUs.

    Attributes:
        optimizes: as it does by default; without, its outputs say how far rounding alone leads.
        keeps_int8: layers of s8 data are integers, too (`session_of`).
    """

    name: str = "onnxruntime"
    optimizes: bool = True
    keeps_int8: bool = False
    requires: tuple[str, ...] = ("onnxruntime",)
    suffixes: tuple[str, ...] = (".onnx",)

    def load(self, path: Path, threads: int) -> LoadedModel:
        return _Session(session_of(str(path), threads, self.optimizes, self.keeps_int8))


class _Session:
    def __init__(self, session: Any) -> None:
        self._session = session

    def bind(self, inputs: Sequence[Array]) -> None:
        self._binding = self._session.io_binding()
        self._inputs = [np.ascontiguousarray(array) for array in inputs]
        for form, array in zip(self._session.get_inputs(), self._inputs, strict=True):
            self._binding.bind_input(form.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for form in self._session.get_outputs():
            self._binding.bind_output(form.name, "cpu")

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[Array]:
        return [np.asarray(output) for output in self._binding.copy_outputs_to_cpu()]


@dataclass(frozen=True, slots=True)
class OpenVino:
    """OpenVINO on CPUs, tuned for latency.

    Attributes:
        precision: of what is not quantized; where it is left out, OpenVINO takes bf16 on CPUs that have it.
    """

    name: str = "openvino"
    precision: str | None = None
    requires: tuple[str, ...] = ("openvino",)
    suffixes: tuple[str, ...] = (".onnx", ".tflite")

    def load(self, path: Path, threads: int) -> LoadedModel:
        import openvino

        core = openvino.Core()
        options = {**OPTIONS, "INFERENCE_NUM_THREADS": threads}
        if self.precision is not None:
            options["INFERENCE_PRECISION_HINT"] = self.precision
        return _Request(core.compile_model(core.read_model(str(path)), "CPU", options))


class _Request:
    def __init__(self, compiled: Any) -> None:
        self._request, self._count = compiled.create_infer_request(), len(compiled.outputs)

    def bind(self, inputs: Sequence[Array]) -> None:
        import openvino

        self._inputs = [np.ascontiguousarray(array) for array in inputs]
        for index, array in enumerate(self._inputs):
            self._request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))

    def run(self) -> None:
        self._request.infer(share_outputs=True)

    def outputs(self) -> list[Array]:
        return [np.array(self._request.get_output_tensor(index).data) for index in range(self._count)]


class LiteRt:
    """LiteRT with its default delegate, XNNPACK."""

    name = "litert"
    requires = ("ai-edge-litert",)
    suffixes = (".tflite",)

    def load(self, path: Path, threads: int) -> LoadedModel:
        from ai_edge_litert.interpreter import Interpreter

        return _Interpreter(Interpreter(str(path), num_threads=threads))


class LiteRtReference:
    """LiteRT's reference kernels: what a quantized TFLite model means."""

    name = "litert-reference"
    requires = ("ai-edge-litert",)
    suffixes = (".tflite",)

    def load(self, path: Path, threads: int) -> LoadedModel:  # noqa: ARG002
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        data = path.read_bytes()
        if has_blocks(schema_of(data, path.name).Model.GetRootAs(data, 0)):
            # Of scales for blocks only the default delegate makes what they stand for.
            return _Interpreter(Interpreter(str(path)))
        try:
            return _Interpreter(Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF))
        except ValueError:  # some operators on numbers, such as ELU and ROUND, have no reference kernel
            kinds = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
            return _Interpreter(Interpreter(str(path), experimental_op_resolver_type=kinds))


class _Interpreter:
    def __init__(self, interpreter: Any) -> None:
        self._interpreter = interpreter
        interpreter.allocate_tensors()

    def bind(self, inputs: Sequence[Array]) -> None:
        for form, array in zip(self._interpreter.get_input_details(), inputs, strict=True):
            self._interpreter.set_tensor(form["index"], array)

    def run(self) -> None:
        self._interpreter.invoke()

    def outputs(self) -> list[Array]:
        forms = self._interpreter.get_output_details()
        return [np.array(self._interpreter.get_tensor(form["index"])) for form in forms]


class Tvm:
    """TVM's own importers and default pipeline, which compute quantized models in floats.

    It takes seconds to compile a model and, for want of schedules, up to seconds to run it.
    """

    name = "tvm"
    requires = ("apache-tvm",)
    suffixes = (".onnx", ".tflite")

    def load(self, path: Path, threads: int) -> LoadedModel:
        import tvm
        from tvm import relax
        from tvm.target import codegen

        target = tvm.target.Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": threads})
        with target:
            executable = tvm.compile(_imported(path), target)
        tvm.get_global_func("runtime.config_threadpool")(1, threads)
        return _Machine(relax.VirtualMachine(executable, tvm.cpu())["main"])


def _imported(path: Path) -> Any:
    """A model as TVM's importer for its format makes it."""
    if path.suffix.lower() == ".tflite":
        import tflite
        from tvm.relax.frontend.tflite import from_tflite

        return from_tflite(tflite.Model.GetRootAsModel(path.read_bytes(), 0))
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    return from_onnx(onnx.load(path), keep_params_in_input=False)


class _Machine:
    def __init__(self, main: Any) -> None:
        self._main = main

    def bind(self, inputs: Sequence[Array]) -> None:
        from tvm import runtime

        self._inputs = [runtime.tensor(np.ascontiguousarray(array)) for array in inputs]

    def run(self) -> None:
        self._made = self._main(*self._inputs)

    def outputs(self) -> list[Array]:
        made = [self._made] if hasattr(self._made, "numpy") else list(self._made)
        return [output.numpy() for output in made]


OWN = Int8Tune()
# What a model means, by what its file's name ends in.
REFERENCES: dict[str, Runtime] = {
    ".tflite": LiteRtReference(),
    ".onnx": OnnxRuntime("onnxruntime-int8", keeps_int8=True),
}
PEERS: tuple[Runtime, ...] = (OnnxRuntime(), OpenVino(), LiteRt())
# Those that run models which are not quantized in another way: in the precision of their numbers.
UNQUANTIZED: dict[str, Runtime] = {"openvino": OpenVino("openvino-f32", "f32")}
# References as they compute in another order: ONNX Runtime without its optimizations, LiteRT with them.
REORDERED: dict[str, Runtime] = {
    "onnxruntime-int8": OnnxRuntime("onnxruntime-plain", False),
    "litert-reference": LiteRt(),
}
# Peers that take part where they are asked for by name.
ON_REQUEST: tuple[Runtime, ...] = (Tvm(),)
RUNTIMES: dict[str, Runtime] = {
    runtime.name: runtime
    for runtime in (OWN, *PEERS, *ON_REQUEST, *REFERENCES.values(), *UNQUANTIZED.values(), *REORDERED.values())
}
