"""Samples one at a time: pictures of a folder, or what a function of the user's yields."""

from __future__ import annotations

import importlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".webp")
_THREE_CHANNELS, _ONE_CHANNEL = "RGB", "L"


@dataclass(frozen=True, slots=True)
class PictureSamples:
    """Pictures of a folder, in the order of their names, scaled to the size of a model's input.

    Attributes:
        count: how many of them are used; None for all.
    """

    folder: Path
    count: int | None = None
    normalization: Normalization = AS_THEY_ARE

    @property
    def title(self) -> str:
        """The folder."""
        return shown(self.folder)

    def batches(self, inputs: Sequence[FloatInput]) -> Iterator[Batch]:
        """As `Samples.batches`."""
        channels, height, width = self._picture_shape(inputs)
        axis = 0 if inputs[0].shape[1] == channels else -1
        names = sorted(path for path in self.folder.iterdir() if path.suffix.lower() in PICTURES)[: self.count]
        if not names:
            raise CalibrationError(f"{self.title}: no samples: no file ends with {', '.join(PICTURES)}")
        pixels = (self._picture(path, channels, height, width) for path in names)
        singles = ((np.moveaxis(each, -1, axis),) for each in pixels)
        yield from _batched(singles, inputs, self.normalization, self.title)

    def _picture_shape(self, inputs: Sequence[FloatInput]) -> tuple[int, int, int]:
        shape = inputs[0].shape
        if len(inputs) == 1 and len(shape) == 4:
            # Channels are first in ONNX, and last in TFLite.
            for channels, height, width in (shape[1:], (shape[3], shape[1], shape[2])):
                if channels in (1, 3) and height and width:
                    return channels, height, width
        listed = " and ".join(map(str, inputs))
        raise CalibrationError(f"{self.title}: pictures need one input [samples, 1 or 3, height, width]: {listed}")

    def _picture(self, path: Path, channels: int, height: int, width: int) -> Array:
        try:
            from PIL import Image
        except ImportError:
            raise CalibrationError("pictures need pillow: pip install pillow") from None
        try:
            with Image.open(path) as image:
                mode = _THREE_CHANNELS if channels > 1 else _ONE_CHANNEL
                pixels = np.asarray(image.convert(mode).resize((width, height), Image.Resampling.BILINEAR))
        except Exception as error:  # decoders raise whatever the damage leads to
            raise CalibrationError(f"{shown(path)}: no picture: {one_line(error)}") from None
        return pixels.reshape(height, width, channels)


@dataclass(frozen=True, slots=True)
class FunctionSamples:
    """What a function without arguments yields: an array for a model of one input, or a dict with one for each.

    An array is a sample, without an axis that counts them. The function is called for each time that the samples are
    gone through, and must yield the same.

    Attributes:
        count: how many of them are used; None for all.
    """

    function: Callable[[], Any]
    title: str
    count: int | None = None
    normalization: Normalization = AS_THEY_ARE

    def batches(self, inputs: Sequence[FloatInput]) -> Iterator[Batch]:
        """As `Samples.batches`."""
        singles = itertools.islice(self._samples(inputs), self.count)
        found = False
        for batch in _batched(singles, inputs, self.normalization, self.title):
            found = True
            yield batch
        if not found:
            raise CalibrationError(f"{self.title}: no samples")

    def _samples(self, inputs: Sequence[FloatInput]) -> Iterator[tuple[Array, ...]]:
        try:
            yielded = iter(self.function())
            for number in itertools.count():
                try:
                    sample = next(yielded)
                except StopIteration:
                    return
                yield self._arrays(number, sample, inputs)
        except CalibrationError:
            raise
        except Exception as error:  # the user's own code
            raise CalibrationError(f"{self.title} fails: {type(error).__name__}: {one_line(error)}") from None

    def _arrays(self, number: int, sample: Any, inputs: Sequence[FloatInput]) -> tuple[Array, ...]:
        if not isinstance(sample, Mapping) and len(inputs) == 1:
            return (np.asarray(sample),)
        if isinstance(sample, Mapping) and all(each.name in sample for each in inputs):
            return tuple(np.asarray(sample[each.name]) for each in inputs)
        want = printable(", ".join(each.name for each in inputs))
        raise CalibrationError(f"{self.title}: sample {number} must be a dict with arrays for {want}")


def function_named(text: str) -> Callable[[], Any]:
    """The function that `MODULE:FUNCTION` names, of a module in the working folder or one that is installed.

    Raises:
        CalibrationError: there is none.
    """
    module, _, name = text.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module's own code runs
        raise CalibrationError(f"{shown(text)}: {type(error).__name__}: {one_line(error)}") from None
    if not callable(found) or _wants_arguments(found):
        raise CalibrationError(f"{shown(text)} must be a function that is called without arguments and yields samples")
    return found  # type: ignore[no-any-return]


def _wants_arguments(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return True
    except ValueError:
        return False
    return False


def _batched(
    singles: Iterator[tuple[Array, ...]], inputs: Sequence[FloatInput], normalization: Normalization, title: str
) -> Iterator[Batch]:
    """Samples one after the other, as many at once as the model takes."""
    first = 0
    step: int | None = None
    held: list[tuple[Array, ...]] = []
    for single in singles:
        step = step or samples_at_once(inputs, sum(each.nbytes for each in single))
        held.append(single)
        if len(held) == step:
            yield _stacked(held, inputs, first, normalization, title)
            first += len(held)
            held = []
    if held and step:
        require_whole_runs(inputs, first + len(held), step, title)
        yield _stacked(held, inputs, first, normalization, title)


def _stacked(
    held: Sequence[tuple[Array, ...]],
    inputs: Sequence[FloatInput],
    first: int,
    normalization: Normalization,
    title: str,
) -> Batch:
    found = {}
    for each, arrays in zip(inputs, zip(*held, strict=True), strict=True):
        if len({(array.shape, array.dtype) for array in arrays}) > 1:
            shapes = sorted({str(list(array.shape)) for array in arrays})
            raise CalibrationError(f"{title}: all samples must have one shape: {' and '.join(shapes)}")
        found[each.name] = fitted(each, np.stack(arrays), first, normalization, title)
    return found
