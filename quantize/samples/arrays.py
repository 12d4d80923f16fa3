"""Samples in files of NumPy's, of which no more than a batch is in memory."""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from int8tune.quantize.errors import CalibrationError
from int8tune.quantize.float_model import FloatInput, one_line, shown
from int8tune.quantize.samples.base import (
    AS_THEY_ARE,
    Array,
    Batch,
    Normalization,
    fitted,
    require_whole_runs,
    samples_at_once,
)
from int8tune.results.text import printable

# Names of the one array that is meant for calibration, where a file has others, too; the first that is there.
USUAL_NAMES = (
    "calibration",
    "calib",
    "samples",
    "inputs",
    "input",
    "images",
    "data",
    "x",
    "x_train",
    "x_test",
    "arr_0",
)
# The same for samples that models are tested on, which may stand in the file of those that choose ranges.
TEST_NAMES = ("test", *(name for name in USUAL_NAMES[2:] if name != "x_train"), "x_train", *USUAL_NAMES[:2])
MOST_SAMPLE_BYTES = 1 << 28


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def sample_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class ArraySamples:
    """Samples of a file of NumPy's: one array (`.npy`), or an archive (`.npz`).

    An archive has an array for each input, called like it. For a model of one input, the array may also have one of
    the usual names, such as `calibration`, or be the only one.

    Attributes:
        count: how many of them are used; None for all.
        usual_names: of the array where there is one input, the first that is there.
    """

    path: Path
    count: int | None = None
    normalization: Normalization = AS_THEY_ARE
    usual_names: tuple[str, ...] = USUAL_NAMES

    @property
    def title(self) -> str:
        """The file."""
        return shown(self.path)

    def batches(self, inputs: Sequence[FloatInput]) -> Iterator[Batch]:
        """As `Samples.batches`."""
        with contextlib.ExitStack() as files:
            try:
                readers = [self._reader(files, each, inputs) for each in inputs]
            except CalibrationError:
                raise
            except OSError as error:
                raise CalibrationError(f"{self.title}: {error.strerror or one_line(error)}") from None
            except Exception as error:  # the parsers of archives and headers raise whatever the damage leads to
                raise CalibrationError(f"{self.title}: no array of NumPy's: {one_line(error)}") from None
            yield from self._read(readers, inputs)

    def _read(self, readers: Sequence[tuple[IO[bytes], _Header]], inputs: Sequence[FloatInput]) -> Iterator[Batch]:
        counts = [header.shape[0] for _, header in readers]
        if len(set(counts)) > 1:
            raise CalibrationError(f"{self.title}: inputs must have equally many samples: {counts}")
        if not counts[0]:
            raise CalibrationError(f"{self.title}: no samples")
        total = counts[0] if self.count is None else min(counts[0], self.count)
        step = samples_at_once(inputs, sum(header.sample_bytes for _, header in readers))
        require_whole_runs(inputs, total, step, self.title)
        for first in range(0, total, step):
            many = min(step, total - first)
            yield {
                each.name: fitted(each, self._take(file, header, many), first, self.normalization, self.title)
                for each, (file, header) in zip(inputs, readers, strict=True)
            }

    def _take(self, file: IO[bytes], header: _Header, many: int) -> Array:
        wanted = many * header.sample_bytes
        try:
            content = file.read(wanted)
        except Exception as error:  # of a damaged archive
            raise CalibrationError(f"{self.title}: damaged: {one_line(error)}") from None
        if len(content) != wanted:
            raise CalibrationError(f"{self.title}: ends within its samples")
        return np.frombuffer(content, header.dtype).reshape(many, *header.shape[1:])

    def _reader(
        self, files: contextlib.ExitStack, value: FloatInput, inputs: Sequence[FloatInput]
    ) -> tuple[IO[bytes], _Header]:
        if not self.path.is_file():
            raise CalibrationError(f"samples must be a file, a folder of pictures or MODULE:FUNCTION: {self.title}")
        file: IO[bytes] = files.enter_context(self.path.open("rb"))
        is_array = file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX
        file.seek(0)
        if is_array:
            if len(inputs) > 1:
                raise CalibrationError(f"{self.title}: the model has {len(inputs)} inputs, this is one array")
            return file, _header(file)
        archive = files.enter_context(zipfile.ZipFile(file))
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        member = files.enter_context(archive.open(f"{self._chosen(value, names, len(inputs))}.npy"))
        return member, _header(member)

    def _chosen(self, value: FloatInput, names: Sequence[str], count: int) -> str:
        usual = [name for name in self.usual_names if name in names]
        if value.name in names:
            return value.name
        if count == 1 and (usual or len(names) == 1):
            return usual[0] if usual else names[0]
        have = printable(", ".join(sorted(names)[:20])) or "no array"
        raise CalibrationError(f"{self.title}: no array for input `{printable(value.name)}`: it has {have}")


def _header(file: IO[bytes]) -> _Header:
    """What an array says of itself.

    Raises:
        ValueError: no numbers, by columns, or too large.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject or dtype.kind not in "fiub":
        raise ValueError(f"must have numbers: {dtype}")
    if is_fortran and len(shape) > 1:
        raise ValueError("must be stored by rows: save numpy.ascontiguousarray of it")
    if not shape or any(extent < 0 for extent in shape):
        raise ValueError(f"its first axis must count samples: {shape}")
    found = _Header(shape, dtype)
    if found.sample_bytes > MOST_SAMPLE_BYTES or (shape[0] and not found.sample_bytes):
        raise ValueError(f"a sample has 1 to {MOST_SAMPLE_BYTES} bytes: {found.sample_bytes}")
    return found
