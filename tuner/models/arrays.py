"""Samples and outputs of models: files of arrays, and random samples."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from compiler.graph import DTYPES, Graph, Kind, Value
from compiler.program import Array
from compiler.strict_json import clipped
from results.text import printable
from schedules.numerics import RANGES
from tuner.errors import SamplesError


def write_arrays(path: Path, arrays: Sequence[Array]) -> None:
    """Write arrays into a file of NumPy's, called by their numbers."""
    named: dict[str, Array] = {str(index): array for index, array in enumerate(arrays)}
    np.savez(path, allow_pickle=False, **named)


def read_arrays(path: Path) -> list[Array]:
    """The arrays of a file that `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as found:
        return [found[str(index)] for index in range(len(found.files))]


def read_samples(path: Path, inputs: Sequence[Value]) -> list[Array]:
    """A user's samples for a model's inputs, whose first axis counts them.

    The file is one array (`.npy`), or an archive (`.npz`) with an array for each input, called like it.

    Raises:
        SamplesError: it can't be read, or does not fit the inputs.
    """
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        reason = getattr(error, "strerror", None) or "no array of NumPy's"
        raise SamplesError(printable(f"{path}: {reason}")) from None
    if isinstance(found, np.ndarray):
        arrays = {inputs[0].name: found}
    else:
        arrays = {name: found[name] for name in found.files if name in {value.name for value in inputs}}
    samples = []
    for value in inputs:
        array, dtype = arrays.get(value.name), np.dtype(DTYPES[value.type])
        if array is None or array.dtype != dtype or array.shape[1:] != value.shape or not len(array):
            have = "none" if array is None else f"{array.dtype} {array.shape}"
            want = f"{dtype} (samples, {', '.join(map(str, value.shape))})"
            raise SamplesError(printable(f"{path}: input `{clipped(value.name)}` needs {want}: {have}"))
        samples.append(array)
    if len({len(array) for array in samples}) > 1:
        raise SamplesError(printable(f"{path}: inputs must have equally many samples: {[len(a) for a in samples]}"))
    return samples


def random_samples(graph: Graph, count: int, seed: int) -> list[Array]:
    """Samples whose values are spread evenly over what each input can stand for."""
    rng = np.random.default_rng(seed)
    return [_random(graph, graph.values[name], count, rng) for name in graph.inputs]


def _random(graph: Graph, value: Value, count: int, rng: np.random.Generator) -> Array:
    dtype, shape = DTYPES[value.type], (count, *value.shape)
    if value.type in RANGES:
        low, high = RANGES[value.type]
        return rng.integers(low, high + 1, shape).astype(dtype)
    low_real, high_real = _range(graph, value)
    return rng.uniform(low_real, high_real, shape).astype(dtype)


def _range(graph: Graph, value: Value) -> tuple[float, float]:
    """The range of numbers that the model keeps apart: that of what it quantizes the input to."""
    for operator in graph.operators:
        if operator.kind is Kind.QUANTIZE and value.name in operator.inputs:
            made = graph.values[operator.outputs[0]]
            assert made.quantization is not None
            scale, zero_point = float(made.quantization.scale[0]), int(made.quantization.zero_point[0])
            low, high = RANGES[made.type]
            return scale * (low - zero_point), scale * (high - zero_point)
    return -1.0, 1.0
