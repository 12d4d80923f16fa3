"""Quantized models, compiled and loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.compiler.about import About
from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.model import read_model
from int8tune.compiler.report import Report, ignore
from int8tune.compiler.toolchain.kernel_cache import KernelCounts
from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.errors import SpecError
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.models.compiling import compile_apart
from int8tune.tuner.models.given import BindLike, ShapeLike, all_given
from int8tune.tuner.models.ranking import rank_on_this_machine
from int8tune.tuner.models.schedules import device_target, schedules_for

if TYPE_CHECKING:
    import pandas

    from int8tune.compiler.graph import Graph
    from int8tune.compiler.schedule_choice import Chooser
    from int8tune.schedules.target import Target


@dataclass(frozen=True, slots=True, repr=False)
class CompiledFile:
    """A compiled model that was written.

    Attributes:
        about: what it says of itself: inputs, outputs, calls.
        kernels: how many of them were compiled, and how many were in the user's cache.
    """

    library: Path
    about: About
    kernels: KernelCounts

    @property
    def sources(self) -> dict[str, int]:
        """How many layers have their schedule from where: `log`, `same form`, `network` or `default`."""
        found = Counter(call["schedule"]["source"] for call in self.about.calls if call["kernel"] and call["schedule"])
        return dict(sorted(found.items()))

    @property
    def others(self) -> int:
        """How many of its kernels compute something that is no int8 layer."""
        return sum(bool(call["kernel"]) and not call["schedule"] for call in self.about.calls)

    def load(self) -> CompiledModel:
        """The model, ready to run."""
        return load(self.library)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each call, in the order in which they run."""
        return frame_of(list(self.about.calls))

    def __repr__(self) -> str:
        layers = listed(sum(self.sources.values()), "layer")
        return f"<Compiled {self.about.model} for {self.about.target}: {layers}, {self.library}>"


def compile(
    model: str | Path,
    output: str | Path,
    *,
    results: str | Path = DEFAULT_RESULTS,
    log: str | Path | None = None,
    target: str | None = None,
    threads: int = 1,
    rank: bool = False,
    bind: BindLike | None = None,
    shape: ShapeLike | None = None,
    until: Sequence[str] | None = None,
    report: Report = ignore,
) -> CompiledFile:
    """Compile a quantized model into a shared library, which needs TVM's runtime alone.

    Its layers get the best schedules in the records, or their templates' defaults. It computes what the model's own
    runtime does: TFLite's reference kernels, or ONNX Runtime. Operators of ONNX that no integer kernel computes run in
    float; `about.floats` counts them.

    Args:
        model: a quantized model (.tflite, .onnx).
        output: the shared library to write.
        results: the folder of the records.
        log: a best log with schedules, in place of the records.
        target: a profile; the best of this CPU if None.
        threads: cores that it uses.
        rank: take the schedules that are fastest beside their neighbours, as timed inside the network.
        bind: values of inputs that become constants, by name: numbers, arrays, or names of `.npy` files.
        shape: shapes of inputs, by name, where the file leaves extents open. Where they have several, the library has a
            model for each, and runs the one whose inputs it is given.
        until: values at which a model ends, in place of its own outputs.
        report: is told how far it is.

    Raises:
        ModelError: the model can't be read, or has something that nothing computes.
        SpecError: `rank` takes schedules from the records, not from a log.
        ExportError: the library can't be written.
    """
    if rank and log is not None:
        raise SpecError("rank takes schedules from the records, log from a file: give one of them")
    graphs, chosen = read_models(Path(model), bind, shape, until), device_target(target, threads)
    if rank and len(graphs) > 1:
        raise SpecError(f"rank times one shape of the inputs: {len(graphs)}")
    if rank:
        schedules: Chooser = rank_on_this_machine(graphs[0], chosen, results, report).best.chosen
    else:
        schedules = schedules_for(chosen, results, None if log is None else Path(log))
    return compile_graphs(graphs, chosen, schedules, Path(output), report)


def read_models(
    model: Path, bind: BindLike | None, shape: ShapeLike | None, until: Sequence[str] | None = None
) -> list[Graph]:
    """The graph of a model for each of the shapes that its inputs are given.

    Raises:
        ModelError: the model can't be read.
        SpecError, SamplesError: values or shapes can't be used.
    """
    return [read_model(model, given) for given in all_given(bind, shape, until)]


def compile_graphs(
    graphs: Sequence[Graph], target: Target, schedules: Chooser, output: Path, report: Report
) -> CompiledFile:
    """Write the compiled model of graphs for several shapes, or of one, by a process that may die.

    Raises:
        ModelError, NoLinkerError, ExportError, CompilerDiedError: as `compile_apart`.
    """
    require_tuning()
    compiled = compile_apart(graphs, target, schedules, output, report=report)
    return CompiledFile(output, compiled.about, compiled.kernels)


def load(path: str | Path) -> CompiledModel:
    """A compiled model, which runs arrays of NumPy's: `load("model.so").run([image])`.

    What is loaded is code: trust where it comes from.

    Raises:
        CompiledModelError: it is no compiled model, or this CPU can't run it.
    """
    return CompiledModel(Path(path))
