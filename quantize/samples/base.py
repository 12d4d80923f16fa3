"""What samples have in common: batches for a model's inputs, checked one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from int8tune.quantize.errors import CalibrationError
from int8tune.quantize.float_model import FloatInput
from int8tune.results.text import printable

Array = npt.NDArray[Any]
Batch = Mapping[str, Array]

# Bytes of inputs that are run at once where the model takes any number of samples.
BATCH_BYTES = 1 << 20
MOST_AT_ONCE = 4


class Samples(Protocol):
    """Samples that can be gone through several times; each time they are the same."""

    @property
    def title(self) -> str:
        """Where they come from."""

    def batches(self, inputs: Sequence[FloatInput]) -> Iterator[Batch]:
        """An array for each input, its first axis the samples of this batch.

        Raises:
            CalibrationError: they can't be read, or don't fit the inputs.
        """


@dataclass(frozen=True, slots=True)
class FirstSamples:
    """The first of some samples: `count` and what is left of their last batch."""

    samples: Samples
    count: int

    @property
    def title(self) -> str:
        """As `Samples.title`."""
        return self.samples.title

    def batches(self, inputs: Sequence[FloatInput]) -> Iterator[Batch]:
        """As `Samples.batches`."""
        done = 0
        for batch in self.samples.batches(inputs):
            yield batch
            done += len(batch[inputs[0].name])
            if done >= self.count:
                return


@dataclass(frozen=True, slots=True)
class Normalization:
    """How pixels become a model's inputs: (value / divide - mean) / std, of each channel or the same for all."""

    divide: float = 1.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def is_identity(self) -> bool:
        """Whether values stay as they are."""
        return self == Normalization()

    def apply(self, values: Array) -> Array:
        """Values [samples, channels, ...] as float32; pictures may have their channels last.

        Raises:
            CalibrationError: there are more or fewer channels than means.
        """
        found = values.astype(np.float32) / np.float32(self.divide)
        for factors, operation in ((self.mean, np.subtract), (self.std, np.divide)):
            if factors:
                found = operation(found, np.asarray(factors, np.float32).reshape(_channels(found, len(factors))))
        return found


def _channels(values: Array, count: int) -> tuple[int, ...]:
    """The shape of so many factors beside values.

    Raises:
        CalibrationError: there are more or fewer channels.
    """
    if count in (1, values.shape[1]):
        return (1, count, *[1] * (values.ndim - 2))
    if values.ndim == 4 and count == values.shape[-1]:
        return (1, 1, 1, count)
    raise CalibrationError(f"a mean and a std need {values.shape[1]} values, or one: {count}")


AS_THEY_ARE = Normalization()


def samples_at_once(inputs: Sequence[FloatInput], bytes_each: int) -> int:
    """How many samples go through a model in one run."""
    if fixed := {each.batch for each in inputs if each.batch is not None}:
        return max(fixed)
    return max(1, min(MOST_AT_ONCE, BATCH_BYTES // max(1, bytes_each)))


def require_whole_runs(inputs: Sequence[FloatInput], total: int, step: int, title: str) -> None:
    """Refuse samples of which some are left behind the last run of a model that takes so many at once.

    Raises:
        CalibrationError: some are.
    """
    if total % step and any(each.batch is not None for each in inputs):
        raise CalibrationError(f"{title}: the model takes {step} samples at once, {total} leave {total % step}")


def fitted(value: FloatInput, array: Array, first: int, normalization: Normalization, title: str) -> Array:
    """Samples as an input takes them; pictures as bytes [samples, height, width, channels] get their channels first.

    For an input that stores numbers in 8 bits, samples of its own type that stay as they are, are what is stored; all
    others are numbers, which are rounded to these.

    Args:
        first: the number of the first of them.

    Raises:
        CalibrationError: the shape or the type is another one, or a value is no number, or beyond the type.
    """
    if value.scale is not None and (array.dtype != value.dtype or not normalization.is_identity):
        numbers = replace(value, dtype=np.dtype(np.float32), scale=None)
        return _stored(value, fitted(numbers, array, first, normalization, title))
    array = _with_channels_first(value, array)
    if array.dtype.kind not in "fiub" or (value.dtype.kind in "iub" and array.dtype.kind == "f"):
        raise CalibrationError(f"{title}: input {value} can't take samples of {array.dtype}")
    if not _fits(value, array.shape):
        shape = f"samples of shape {list(array.shape[1:])}, behind the axis that counts them"
        raise CalibrationError(f"{title}: input {value} can't take {shape}")
    if value.dtype.kind == "f":
        array = array if normalization.is_identity else normalization.apply(array)
        _refuse_nan(value, array, first, title)
    elif value.dtype.kind in "iu" and not np.can_cast(array.dtype, value.dtype):
        _refuse_beyond(value, array, title)
    return np.ascontiguousarray(array, value.dtype)


def update_digest(found: Any, batch: Batch, inputs: Sequence[FloatInput]) -> None:
    """Add a batch to a hash, sample by sample, so that it does not depend on how many are in a batch."""
    for number in range(len(batch[inputs[0].name])):
        for each in inputs:
            sample = batch[each.name][number]
            found.update(f"{each.name}:{sample.dtype}:{sample.shape};".encode())
            found.update(sample.tobytes())


def _with_channels_first(value: FloatInput, array: Array) -> Array:
    shape = (array.shape[0], array.shape[-1], *array.shape[1:-1])
    is_picture = array.dtype == np.uint8 and array.ndim == 4 and value.dtype.kind == "f"
    if is_picture and not _fits(value, array.shape) and _fits(value, shape):
        return np.moveaxis(array, -1, 1)
    return array


def _fits(value: FloatInput, shape: Sequence[int]) -> bool:
    if len(shape) != len(value.shape):
        return False
    return all(want in (None, have) for want, have in zip(value.shape[1:], shape[1:], strict=True))


def _stored(value: FloatInput, numbers: Array) -> Array:
    """Numbers as QuantizeLinear stores them."""
    limits = np.iinfo(value.dtype)
    rounded = np.rint(numbers / np.float32(value.scale)) + value.zero_point
    stored: Array = np.clip(rounded, limits.min, limits.max).astype(value.dtype)
    return stored


def _refuse_beyond(value: FloatInput, array: Array, title: str) -> None:
    limits, least, most = np.iinfo(value.dtype), array.min(initial=0), array.max(initial=0)
    if least < limits.min or most > limits.max:
        raise CalibrationError(f"{title}: input {value} can't take {least} to {most}: {limits.min} to {limits.max}")


def _refuse_nan(value: FloatInput, array: Array, first: int, title: str) -> None:
    sums = array.reshape(len(array), -1).sum(axis=1, dtype=np.float64)
    if np.isfinite(sums).all():
        return
    number = first + int(np.argmax(~np.isfinite(sums)))
    raise CalibrationError(f"{title}: sample {number} has NaN or infinity for input `{printable(value.name)}`")
