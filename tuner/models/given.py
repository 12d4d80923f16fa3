"""What a user says of a model's inputs: values of some, shapes of others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.given import Given
from int8tune.compiler.program import Array
from int8tune.compiler.strict_json import clipped
from int8tune.results.text import printable
from int8tune.tuner.errors import SpecError
from int8tune.tuner.models.arrays import read_array

MOST_EXTENT, MOST_AXES = 1 << 31, 8
_SHAPE = re.compile(r"[1-9][0-9]{0,9}(x[1-9][0-9]{0,9}){0,7}")

BindLike = Mapping[str, float | Sequence[Any] | Array | str | Path]
ShapeLike = Mapping[str, Sequence[int]]


def given_of(bind: BindLike | None, shape: ShapeLike | None) -> Given:
    """Values and shapes of a caller.

    Args:
        bind: numbers, arrays, or names of `.npy` files.

    Raises:
        SpecError: they are no numbers and no shapes.
        SamplesError: a file can't be read.
    """
    values = {name: _array(name, value) for name, value in (bind or {}).items()}
    return Given(values, {name: _extents(name, extents) for name, extents in (shape or {}).items()})


def bindings(texts: Sequence[str]) -> dict[str, float | Path]:
    """Values of inputs as a person types them, `NAME=VALUE` or `NAME=FILE.npy`.

    Raises:
        SpecError: one of them is none of these.
    """
    found: dict[str, float | Path] = {}
    for text in texts:
        name, value = _parts(text, "--bind", "NAME=VALUE or NAME=FILE.npy")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = Path(value)
    return found


def shapes_of(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes of inputs as a person types them, `NAME=1x3x224x224`.

    Raises:
        SpecError: one of them is none.
    """
    found = {}
    for text in texts:
        name, value = _parts(text, "--shape", "NAME=1x3x224x224")
        if not _SHAPE.fullmatch(value):
            raise SpecError(printable(f"--shape must be NAME=1x3x224x224: {clipped(text)}"))
        found[name] = _extents(name, [int(extent) for extent in value.split("x")])
    return found


def _parts(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not (name and equals and value):
        raise SpecError(printable(f"{option} must be {form}: {clipped(text)}"))
    return name, value


def _array(name: str, value: float | Sequence[Any] | Array | str | Path) -> Array:
    if isinstance(value, str | Path):
        return read_array(Path(value))
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise SpecError(printable(f"values of `{clipped(name)}` must be numbers: {array.dtype}"))
    return array


def _extents(name: str, extents: Sequence[int]) -> tuple[int, ...]:
    found = tuple(extents)
    is_shape = all(isinstance(each, int) and 1 <= each <= MOST_EXTENT for each in found)
    if not (is_shape and 1 <= len(found) <= MOST_AXES):
        what = f"the shape of `{clipped(name)}` must be up to {MOST_AXES} whole numbers of 1 to {MOST_EXTENT}"
        raise SpecError(printable(f"{what}: {clipped(str(found))}"))
    return found
