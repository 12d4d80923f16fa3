"""Samples and outputs of models: files of arrays, and random samples."""

from __future__ import annotations

import errno
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from compiler.graph import DTYPES, Graph, Kind, Value
from compiler.program import Array
from compiler.strict_json import clipped
from results.text import printable
from schedules.numerics import RANGES
from tuner.errors import SamplesError

MOST_BYTES = 1 << 30
_PIECE_BYTES = 1 << 20


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
        arrays = _read_named(path, [value.name for value in inputs])
    except OSError as error:
        raise SamplesError(printable(f"{path}: {error.strerror or 'no array of NumPy'}")) from None
    except Exception as error:  # the parsers of archives and headers raise whatever the damage leads to
        raise SamplesError(printable(f"{path}: no array of NumPy's: {clipped(' '.join(str(error).split()))}")) from None
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


def _read_named(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """The arrays of these names that a file has; that of a file with one array has the first name.

    Raises:
        OSError: it can't be read.
        Exception: it is damaged.
    """
    if not path.is_file():
        raise OSError(errno.ENOENT, "no such file" if not path.exists() else "not a file", str(path))
    with path.open("rb") as file:
        if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
            file.seek(0)
            return {names[0]: _read_array(file)}
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"an archive has at most {MOST_BYTES} bytes")
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in {f"{name}.npy" for name in names} & set(archive.namelist()):
            with archive.open(name) as member:
                arrays[name.removesuffix(".npy")] = _read_array(member)
    return arrays


def _read_array(file: IO[bytes]) -> Array:
    """An array of numbers, of as many bytes as its header says and there are."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(file)
    size_bytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not all(0 <= extent <= MOST_BYTES for extent in shape) or size_bytes > MOST_BYTES:
        raise ValueError(f"an array has at most {MOST_BYTES} bytes of numbers: {dtype} {shape}")
    content = bytearray()
    while len(content) <= size_bytes and (piece := file.read(_PIECE_BYTES)):
        content += piece
    if len(content) != size_bytes:
        raise ValueError(f"its header says {size_bytes} bytes, it has {len(content)} or more")
    array: Array = np.frombuffer(content, dtype)
    return array.reshape(shape, order="F" if is_fortran else "C")


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
