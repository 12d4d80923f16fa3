"""Samples and outputs of models: files of arrays."""

from __future__ import annotations

import errno
import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from int8tune.compiler.graph import DTYPES, Value
from int8tune.compiler.program import Array
from int8tune.results.text import clipped, printable
from int8tune.tuner.errors import SamplesError

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


def read_array(path: Path) -> Array:
    """The array of numbers that a user's file of NumPy's has.

    Raises:
        SamplesError: it can't be read.
    """
    return _arrays_of(path, [""])[""]


def read_first(path: Path, names: Sequence[str]) -> Array:
    """The array of the first of these names that a user's file of NumPy's has; of one without names, its array.

    Raises:
        SamplesError: it can't be read, or has none of them.
    """
    arrays = _arrays_of(path, names)
    for name in names:
        if name in arrays:
            return arrays[name]
    raise SamplesError(printable(f"{path}: has no array of these names: {', '.join(names)}"))


def read_samples(path: Path, inputs: Sequence[Value]) -> list[Array]:
    """A user's samples for a model's inputs, whose first axis counts them.

    The file is one array (`.npy`), or an archive (`.npz`) with an array for each input, called like it. Where the
    first axis of an input, its batch, is 1, samples may lack it.

    Raises:
        SamplesError: it can't be read, or does not fit the inputs.
    """
    arrays = _arrays_of(path, [value.name for value in inputs])
    samples = [_fitted(path, value, arrays.get(value.name)) for value in inputs]
    if len({len(array) for array in samples}) > 1:
        raise SamplesError(printable(f"{path}: inputs must have equally many samples: {[len(a) for a in samples]}"))
    return samples


def _arrays_of(path: Path, names: Sequence[str]) -> dict[str, Array]:
    try:
        return _read_named(path, names)
    except OSError as error:
        raise SamplesError(printable(f"{path}: {error.strerror or 'no array of NumPy'}")) from None
    except Exception as error:  # the parsers of archives and headers raise whatever the damage leads to
        raise SamplesError(printable(f"{path}: no array of NumPy's: {clipped(' '.join(str(error).split()))}")) from None


def _read_named(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """The arrays of these names that a file has; that of a file with one array has the first name.

    Raises:
        OSError: it can't be read.
        Exception: it is damaged.
    """
    if not path.is_file():
        raise OSError(errno.ENOENT, "not a file" if path.exists() else os.strerror(errno.ENOENT), str(path))
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


def _fitted(path: Path, value: Value, array: Array | None) -> Array:
    """The samples of one input, with its batch."""
    dtype = np.dtype(DTYPES[value.type])
    shapes = [value.shape, value.shape[1:]] if value.shape[:1] == (1,) else [value.shape]
    if array is None or array.dtype != dtype or not array.ndim or array.shape[1:] not in shapes or not len(array):
        have = "none" if array is None else f"{array.dtype} {array.shape}"
        want = " or ".join(f"({', '.join(map(str, ('samples', *shape)))})" for shape in shapes)
        raise SamplesError(printable(f"{path}: input `{clipped(value.name)}` needs {dtype} {want}: {have}"))
    return array.reshape(len(array), *value.shape)
