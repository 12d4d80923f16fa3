"""A quantized model's compiled library, and what models answer, each in a process that may die."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from int8tune.compiler.about import About
from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.graph import DTYPES, Graph, Value
from int8tune.compiler.program import Array
from int8tune.compiler.report import Report, ignore
from int8tune.quantize.float_model import FloatInput
from int8tune.quantize.samples.base import Samples
from int8tune.tuner.bench.contestant import Contestants
from int8tune.tuner.errors import BenchError
from int8tune.tuner.models.arrays import read_arrays, write_arrays
from int8tune.tuner.models.checks import model_of
from int8tune.tuner.models.compiling import compile_apart
from int8tune.tuner.models.race import WORKER, Entry
from int8tune.tuner.models.runtimes import OWN
from int8tune.tuner.schemes.place import Place

# A process is given so many samples at once: the first few tell how long they take.
FIRST_SAMPLES, PIECE_S, PIECE_BYTES = 4, 20.0, 64 << 20


@dataclass(frozen=True, slots=True)
class Library:
    """A quantized model and its compiled library.

    Attributes:
        graph: the model, its inputs and outputs as its file has them.
        about: what the library says of itself.
        size_bytes: of its file.
    """

    graph: Graph
    entry: Entry
    about: About
    size_bytes: int


def compiled_library(
    place: Place, model: Path, label: str, given: Given = NOTHING_GIVEN, report: Report = ignore
) -> Library:
    """Compile a quantized model (.onnx, .tflite) into the place's folder; labels differ.

    Raises:
        ModelError: the model can't be compiled.
        NoLinkerError: nothing is there to link with.
        CompilerDiedError: the compiler ended before it was done.
    """
    graph = model_of(model, given)
    path = place.folder / f"{len(list(place.folder.glob('*.so')))}.so"
    compiled = compile_apart(graph, place.target, place.schedules, path, report=report)
    return Library(graph, Entry(label, OWN, path), compiled.about, path.stat().st_size)


def outputs_of(
    place: Place, entry: Entry, graph: Graph, samples: Samples, report: Report = ignore
) -> tuple[Array, ...]:
    """What a model gives for samples, an array for each output, its first axis the samples.

    Args:
        entry: who runs which file: a `Library`'s own, or another runtime's.
        graph: whose inputs are those of that file.

    Raises:
        CalibrationError: the samples can't be read, or don't fit the model.
        BenchError: the process failed.
    """
    return run_samples(place, entry, inputs_of(graph), samples, report)


def run_samples(
    place: Place, entry: Entry, inputs: Sequence[FloatInput], samples: Samples, report: Report = ignore
) -> tuple[Array, ...]:
    """As `outputs_of`, for a model with these inputs, whose batch is not open.

    Raises:
        CalibrationError: the samples can't be read, or don't fit the model.
        BenchError: the process failed.
    """
    pieces, next_count, done = [], FIRST_SAMPLES, 0
    given, made = place.folder / "samples.npz", place.folder / "outputs.npz"
    with Contestants(WORKER) as contestants:
        contestant = contestants.add(place.cores, entry.runtime.name)
        rows = _rows(samples, inputs)
        while piece := _next(rows, next_count):
            report(f"{entry.label}: running samples", done, 0)
            write_arrays(given, [np.stack(arrays) for arrays in zip(*piece, strict=True)])
            started_s = time.monotonic()
            if contestant.load({"model": str(entry.model), "samples": str(given), "outputs": str(made)}) is None:
                raise BenchError(f"{entry.label} failed: {contestant.failure}")
            taken_s = time.monotonic() - started_s
            next_count = _count(len(piece), taken_s, sum(array.nbytes for array in piece[0]))
            pieces.append(read_arrays(made))
            done += len(piece)
    stacked = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    return tuple(_by_samples(array, inputs[0].shape[0]) for array in stacked)


def inputs_of(graph: Graph) -> tuple[FloatInput, ...]:
    """A model's inputs as samples are fitted to them."""
    return tuple(_input(graph.values[name]) for name in graph.inputs)


def _input(value: Value) -> FloatInput:
    dtype = np.dtype(DTYPES[value.type])
    if value.quantization is None or value.type not in ("u8", "s8"):
        return FloatInput(value.name, dtype, value.shape)
    scale, zero_point = float(value.quantization.scale[0]), int(value.quantization.zero_point[0])
    return FloatInput(value.name, dtype, value.shape, scale, zero_point)


def first_sample(inputs: Graph | Sequence[FloatInput], samples: Samples) -> list[Array]:
    """The first run of a model, an array for each input, with its batch.

    Raises:
        CalibrationError: the samples can't be read, or don't fit the model.
    """
    return next(_rows(samples, inputs_of(inputs) if isinstance(inputs, Graph) else inputs))


def one_at_a_time(inputs: Sequence[FloatInput]) -> tuple[FloatInput, ...]:
    """Inputs of a float model as those of its compiled form: a batch that is open is 1."""
    return tuple(replace(each, shape=(each.batch or 1, *each.shape[1:])) for each in inputs)


def _rows(samples: Samples, inputs: Sequence[FloatInput]) -> Iterator[list[Array]]:
    """What one run after the other takes."""
    for batch in samples.batches(inputs):
        runs = [batch[each.name].reshape(-1, *[extent or 1 for extent in each.shape]) for each in inputs]
        yield from (list(row) for row in zip(*runs, strict=True))


def _by_samples(array: Array, batch: int | None) -> Array:
    """Outputs [runs, samples of a run, ...] as [samples, ...]."""
    return array.reshape(-1, *array.shape[2:]) if array.shape[1:2] == (batch,) else array


def _next(rows: Iterator[list[Array]], count: int) -> list[list[Array]]:
    return [row for _, row in zip(range(count), rows, strict=False)]


def _count(samples: int, taken_s: float, sample_bytes: int) -> int:
    """How many samples take `PIECE_S` and `PIECE_BYTES` at most."""
    return max(1, min(int(PIECE_S * samples / max(taken_s, 1e-3)), PIECE_BYTES // max(1, sample_bytes)))
