"""Samples and outputs of models: files of arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from compiler.graph import DTYPES, Value
from compiler.program import Array
from compiler.strict_json import clipped
from results.text import printable
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

    The file is one array (`.npy`), or an archive (`.npz`) with an array for each input, called like it. Where the
    first axis of an input, its batch, is 1, samples may lack it.

    Raises:
        SamplesError: it can't be read, or does not fit the inputs.
    """
    arrays = _arrays_of(path, inputs)
    samples = [_fitted(path, value, arrays.get(value.name)) for value in inputs]
    if len({len(array) for array in samples}) > 1:
        raise SamplesError(printable(f"{path}: inputs must have equally many samples: {[len(a) for a in samples]}"))
    return samples


def _arrays_of(path: Path, inputs: Sequence[Value]) -> dict[str, Array]:
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {inputs[0].name: found}
        return {value.name: found[value.name] for value in inputs if value.name in found.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        reason = getattr(error, "strerror", None) or "no array of NumPy's"
        raise SamplesError(printable(f"{path}: {reason}")) from None


def _fitted(path: Path, value: Value, array: Array | None) -> Array:
    """The samples of one input, with its batch."""
    dtype = np.dtype(DTYPES[value.type])
    shapes = [value.shape, value.shape[1:]] if value.shape[:1] == (1,) else [value.shape]
    if array is None or array.dtype != dtype or not array.ndim or array.shape[1:] not in shapes or not len(array):
        have = "none" if array is None else f"{array.dtype} {array.shape}"
        want = " or ".join(f"({', '.join(map(str, ('samples', *shape)))})" for shape in shapes)
        raise SamplesError(printable(f"{path}: input `{clipped(value.name)}` needs {dtype} {want}: {have}"))
    return array.reshape(len(array), *value.shape)
