"""Samples as a user names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.samples.arrays import TEST_NAMES, USUAL_NAMES, ArraySamples
from int8tune.quantize.samples.base import Array, Normalization, Samples
from int8tune.quantize.samples.yielded import FunctionSamples, PictureSamples, function_named

DataLike = str | Path | Array | Mapping[str, Array] | Callable[[], Iterable[Any]]

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
LEAST, MOST = 1, 1_000_000


def samples_of(
    data: DataLike, count: int | None = None, normalization: Normalization | None = None, is_test: bool = False
) -> Samples:
    """Samples that a file, a folder of pictures, `MODULE:FUNCTION`, arrays, or a function are.

    Args:
        is_test: models are tested on them: in a file with arrays for both, these are not those that choose ranges.

    Raises:
        QuantizeSpecError: the count or the normalization can't be used.
        CalibrationError: there is no such function.
    """
    if count is not None and not LEAST <= count <= MOST:
        raise QuantizeSpecError(f"a number of samples must be {LEAST} to {MOST}: {count}")
    normalization = normalization or Normalization()
    _check(normalization)
    if isinstance(data, np.ndarray | Mapping):
        return FunctionSamples(lambda: _rows(data), "the arrays given", count, normalization)
    if callable(data):
        name = getattr(data, "__qualname__", type(data).__name__)
        return FunctionSamples(data, f"{getattr(data, '__module__', '')}:{name}", count, normalization)
    if Path(data).is_dir():
        return PictureSamples(Path(data), count, normalization)
    if not Path(data).exists() and _FUNCTION.fullmatch(str(data)):
        return FunctionSamples(function_named(str(data)), str(data), count, normalization)
    return ArraySamples(Path(data), count, normalization, TEST_NAMES if is_test else USUAL_NAMES)


def _rows(data: Array | Mapping[str, Array]) -> Iterable[Any]:
    if not isinstance(data, Mapping):
        yield from data
        return
    for row in zip(*data.values(), strict=True):
        yield dict(zip(data, row, strict=True))


def _check(normalization: Normalization) -> None:
    for name, values in (
        ("divide", (normalization.divide,)),
        ("mean", normalization.mean),
        ("std", normalization.std),
    ):
        if not all(np.isfinite(value) and (name == "mean" or value > 0) for value in values):
            raise QuantizeSpecError(f"{name} must be finite{'' if name == 'mean' else ' and above 0'}: {values}")
