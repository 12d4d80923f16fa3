"""Compiled models, loaded and run by TVM's runtime. What is loaded is code: trust where it comes from."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.about import About, read_about
from int8tune.compiler.errors import CompiledModelError
from int8tune.compiler.graph import DTYPES
from int8tune.compiler.program import Array, known_of, main_of, watched_of
from int8tune.results.text import clipped, printable
from int8tune.rpc.local import tvm_library
from int8tune.rpc.local.capabilities import usable_features
from int8tune.rpc.local.tile_registers import TILE_FEATURES, allow_tile_registers


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


class BoundModel:
    """A compiled model and its inputs.

    What the model keeps from run to run, in `kept`, is that of all that are bound to it.
    """

    def __init__(self, main: Any, tensors: Sequence[Any], outputs: int, kept: list[Any]) -> None:
        self._main, self._tensors, self._count, self._kept = main, tensors, outputs, kept

    def run(self) -> None:
        """Compute the outputs, and what is kept for the next run."""
        self._made = self._main(*self._tensors, *self._kept)
        if self._kept:
            self._kept[:] = self._all()[self._count :]

    def outputs(self) -> list[Array]:
        """What the last `run` computed, in the order of the model's outputs."""
        return [tvm_library.array(output) for output in self._all()[: self._count]]

    def _all(self) -> list[Any]:
        return [self._made] if self._count + len(self._kept) == 1 else list(self._made)


class BoundKernel:
    """A compiled model that is one function, with all of its arguments: a run calls it, and does nothing else."""

    def __init__(self, kernel: Any, inputs: Sequence[Any], known: Sequence[Any], about: About) -> None:
        self._made = [tvm_library.empty(form["shape"], DTYPES[form["type"]]) for form in about.outputs]
        # Whose memory the kernel gets by its address, and nobody else may have while this lives.
        self._held = (*inputs, *known, *self._made, tvm_library.empty((about.memory_bytes,), np.uint8))
        self._kernel, addresses = kernel, [tvm_library.address(each) for each in self._held]
        self._addresses = tvm_library.tensor(np.array(addresses, np.int64))

    def run(self) -> None:
        """Compute the outputs."""
        self._kernel(self._addresses)

    def outputs(self) -> list[Array]:
        """What the last `run` computed, in the order of the model's outputs."""
        return [tvm_library.array(output) for output in self._made]


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
        self._library = printable(str(library))
        if not library.is_file():
            raise CompiledModelError(f"{self._library}: a compiled model must be a file")
        try:
            self._module = tvm_library.load_module(str(library))
            machine = tvm_library.virtual_machine(self._module)
            self.about = read_about(tvm_library.array(machine["about"]()).tobytes().decode())
        except Exception as error:  # whatever the loader, the machine or the text raise says the same
            reason = printable(clipped(str(error).strip().splitlines()[-1])) if str(error).strip() else ""
            raise CompiledModelError(f"{self._library}: no compiled model: {reason}") from None
        self._require_cpu()
        # TVM would bind the thread that runs the model, and so the program it is part of, to a core.
        os.environ.setdefault("TVM_BIND_THREADS", "0")
        tvm_library.set_threads(self.about.threads)
        self._machine, self._sizes = machine, (self.about, *self.about.sizes)
        self._mains = [machine[main_of(index)] for index in range(len(self._sizes))]
        self._kept: list[Any] = []
        self.reset()

    def reset(self) -> None:
        """Forget what earlier runs left: the next one is as the first. Most models keep nothing."""
        self._kept[:] = list(self._machine["initial"]()) if self.about.states else []

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of the model, in the order of `about.outputs`. A model with states goes on where it was.

        Args:
            inputs: arrays in the order, and of the shapes and types, of `about.inputs`.

        Raises:
            CompiledModelError: an input has another form.
        """
        bound = self._bound(inputs)
        bound.run()
        return bound.outputs()

    def bind(self, inputs: Sequence[Array]) -> BoundModel | BoundKernel:
        """The model with inputs that are copied once, to be run again and again.

        Raises:
            CompiledModelError: an input has another form.
        """
        about = self._sizes[size := self._size(inputs)]
        if not about.kernel or about.states:
            return self._bound(inputs)
        kernel = self._module.get_function(about.kernel, query_imports=True)
        return BoundKernel(kernel, self._tensors(inputs, size), list(self._machine[known_of(size)]()), about)

    def _bound(self, inputs: Sequence[Array]) -> BoundModel:
        """The model with inputs in TVM's machine, which keeps the memory of a run for the next one."""
        size = self._size(inputs)
        outputs = len(self._sizes[size].outputs)
        return BoundModel(self._mains[size], self._tensors(inputs, size), outputs, self._kept)

    def profile(self, inputs: Sequence[Array], runs: int) -> list[CallTime]:
        """The time of each call; a measured one takes a few microseconds more than it does in a run.

        What the model keeps from run to run stays as it is.
        """
        size, started = self._size(inputs), 0.0
        tensors = [*self._tensors(inputs, size), *self._kept]
        taken: list[float] = []

        def watch(_function: Any, name: str, before: bool, *_: Any) -> None:
            nonlocal started
            if str(name) in kernels:
                if not before:
                    taken.append(time.perf_counter() - started)
                started = time.perf_counter()

        calls = [call for call in self._sizes[size].calls if call["kernel"]]
        kernels = {call["kernel"] for call in calls}
        # A machine of its own: one that is watched once calls its watcher for ever.
        machine = tvm_library.virtual_machine(self._module)
        main = self._watched(machine, size)
        main(*tensors)
        machine["set_instrument"](watch)
        for _ in range(runs):
            main(*tensors)
        return [
            CallTime(tuple(call["layers"]), call["computes"], tuple(taken[index :: len(calls)]))
            for index, call in enumerate(calls)
        ]

    def _watched(self, machine: Any, size: int) -> Any:
        """The program call by call; long programs have nothing else."""
        try:
            return machine[watched_of(size)]
        except AttributeError:
            return machine[main_of(size)]

    def _require_cpu(self) -> None:
        features = usable_features()
        if missing := sorted(set(self.about.needs) - features):
            what = f"it was compiled for {self.about.target}, this CPU lacks: {', '.join(missing)}"
            raise CompiledModelError(f"{self._library}: {what}")
        if any(name.startswith(TILE_FEATURES) for name in self.about.needs):
            allow_tile_registers()

    def _size(self, inputs: Sequence[Array]) -> int:
        """The number of the program for inputs of these shapes.

        Raises:
            CompiledModelError: it was compiled for others; the message has all.
        """
        known = [[tuple(form["shape"]) for form in each.inputs] for each in self._sizes]
        shapes = [array.shape for array in inputs]
        if len(known) > 1 and shapes not in known:
            there = "; ".join(" and ".join(map(str, each)) for each in known)
            found = " and ".join(map(str, shapes))
            raise CompiledModelError(f"{self._library}: inputs must have one of the shapes {there}: {found}")
        return known.index(shapes) if shapes in known else 0

    def _tensors(self, inputs: Sequence[Array], size: int) -> list[Any]:
        """Copies, as kernels take only values that begin where a vector may."""
        forms = self._sizes[size].inputs
        if len(inputs) != len(forms):
            raise CompiledModelError(f"{self._library}: it takes {len(forms)} inputs: {len(inputs)}")
        for form, array in zip(forms, inputs, strict=True):
            dtype, shape = np.dtype(DTYPES[form["type"]]), tuple(form["shape"])
            if array.dtype != dtype or array.shape != shape:
                found = f"{array.dtype} {array.shape}"
                name = clipped(form["name"])
                raise CompiledModelError(f"{self._library}: input `{name}` must be {dtype} {shape}: {found}")
        return [tvm_library.tensor(array) for array in inputs]
