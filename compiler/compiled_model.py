"""Compiled models, loaded and run. Only TVM's runtime is needed; what is loaded is code, so trust where it comes from."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compiler.about import About, read_about
from compiler.errors import CompiledModelError
from compiler.program import Array
from compiler.strict_json import clipped, printable
from rpc.capabilities import usable_features
from rpc.tile_registers import TILE_FEATURES, allow_tile_registers

DTYPES = {"f32": np.float32, "u8": np.uint8, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64}


@dataclass(frozen=True, slots=True)
class CallTime:
    """The time of one call of a model's, in the order in which they run.

    Attributes:
        layers: names in the original model of what it computes.
        computes: a workload's key, or what the model's file calls the operator.
        times_s: seconds, one for each run of the model.
    """

    layers: tuple[str, ...]
    computes: str
    times_s: tuple[float, ...]


class CompiledModel:
    """A model that was compiled by `compiler.compile`.

    Attributes:
        about: what it says of itself: inputs, outputs, calls.
    """

    def __init__(self, library: Path) -> None:
        """Load a library.

        Raises:
            CompiledModelError: it is no compiled model, or this CPU can't run it.
        """
        import tvm
        from tvm import relax

        self._tvm, self._library = tvm, printable(str(library))
        if not library.is_file():
            raise CompiledModelError(f"{self._library}: a compiled model must be a file")
        try:
            self._machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
            self.about = read_about(bytes(self._machine["about"]().numpy()).decode())
        except Exception as error:  # whatever the loader, the machine or the text raise says the same
            reason = printable(clipped(str(error).strip().splitlines()[-1])) if str(error).strip() else ""
            raise CompiledModelError(f"{self._library}: no compiled model: {reason}") from None
        self._require_cpu()
        tvm.get_global_func("runtime.config_threadpool")(1, self.about.threads)
        self._main = self._machine["main"]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of the model, in the order of `about.outputs`.

        Args:
            inputs: arrays in the order, and of the shapes and types, of `about.inputs`.

        Raises:
            CompiledModelError: an input has another form.
        """
        return [output.numpy() for output in self._outputs(self._main(*self._tensors(inputs)))]

    def time_s(self, inputs: Sequence[Array], runs: int) -> float:
        """Mean seconds of a run, over so many, one after the other."""
        tensors, main = self._tensors(inputs), self._main
        start = time.perf_counter()
        for _ in range(runs):
            main(*tensors)
        return (time.perf_counter() - start) / runs

    def profile(self, inputs: Sequence[Array], runs: int) -> list[CallTime]:
        """The time of each call; a measured one takes a few microseconds more than it does in a run."""
        tensors, started = self._tensors(inputs), 0.0
        taken: list[float] = []

        def watch(_function: Any, name: str, before: bool, *_: Any) -> None:
            nonlocal started
            if str(name) in kernels:
                if not before:
                    taken.append(time.perf_counter() - started)
                started = time.perf_counter()

        calls = [call for call in self.about.calls if call["kernel"]]
        kernels = {call["kernel"] for call in calls}
        self._main(*tensors)
        self._machine.set_instrument(watch)
        try:
            for _ in range(runs):
                self._main(*tensors)
        finally:
            self._machine.set_instrument(lambda *_: None)
        return [
            CallTime(tuple(call["layers"]), call["computes"], tuple(taken[index :: len(calls)]))
            for index, call in enumerate(calls)
        ]

    def _require_cpu(self) -> None:
        features = usable_features()
        if missing := sorted(set(self.about.needs) - features):
            what = f"it was compiled for {self.about.target}, this CPU lacks: {', '.join(missing)}"
            raise CompiledModelError(f"{self._library}: {what}")
        if any(name.startswith(TILE_FEATURES) for name in self.about.needs):
            allow_tile_registers()

    def _tensors(self, inputs: Sequence[Array]) -> list[Any]:
        """Copies, as kernels take only values that begin where a vector may."""
        forms = self.about.inputs
        if len(inputs) != len(forms):
            raise CompiledModelError(f"{self._library}: it takes {len(forms)} inputs: {len(inputs)}")
        for form, array in zip(forms, inputs, strict=True):
            dtype, shape = np.dtype(DTYPES[form["type"]]), tuple(form["shape"])
            if array.dtype != dtype or array.shape != shape:
                found = f"{array.dtype} {array.shape}"
                name = clipped(form["name"])
                raise CompiledModelError(f"{self._library}: input `{name}` must be {dtype} {shape}: {found}")
        return [self._tvm.runtime.tensor(np.ascontiguousarray(array)) for array in inputs]

    def _outputs(self, made: Any) -> list[Any]:
        return [made] if len(self.about.outputs) == 1 else list(made)
