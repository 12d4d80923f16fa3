"""What a user says of a model: values of some inputs, shapes of others, where it ends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.given import Given
from int8tune.compiler.program import Array
from int8tune.results.text import clipped, printable
from int8tune.tuner.errors import GivenError
from int8tune.tuner.models.arrays import read_array

MOST_EXTENT, MOST_AXES, MOST_SHAPES = 1 << 31, 8, 64
_SHAPE = re.compile(r"[1-9][0-9]{0,9}(x[1-9][0-9]{0,9}){0,7}")

BindLike = Mapping[str, float | Sequence[Any] | Array | str | Path]
ShapeLike = Mapping[str, Sequence[int] | Sequence[Sequence[int]]]


def given_of(bind: BindLike | None, shape: ShapeLike | None, until: Sequence[str] | None = None) -> Given:
    """Values and shapes of a caller, one of each input.

    Args:
        bind: numbers, arrays, or names of `.npy` files.
        until: names of values.

    Raises:
        GivenError: they are no numbers, no shapes or no names, or several shapes.
        SamplesError: a file can't be read.
    """
    found = all_given(bind, shape, until)
    if len(found) > 1:
        raise GivenError(f"several shapes are for `compile`, `tune` and `plan`, give one here: {len(found)}")
    return found[0]


def all_given(bind: BindLike | None, shape: ShapeLike | None, until: Sequence[str] | None = None) -> list[Given]:
    """The same for inputs with several shapes each: the first of all, the second of all, and so on.

    Raises:
        GivenError: they are no numbers, no shapes or no names, or some inputs have more shapes than others.
        SamplesError: a file can't be read.
    """
    values = {name: _array(name, value) for name, value in (bind or {}).items()}
    shapes = {name: _several(name, each) for name, each in (shape or {}).items()}
    count = max(map(len, shapes.values()), default=1)
    if any(len(each) not in (1, count) for each in shapes.values()):
        counts = ", ".join(f"{clipped(name)}: {len(each)}" for name, each in shapes.items())
        raise GivenError(printable(f"inputs must have one shape each, or equally many: {counts}"))
    ends = _names(until)
    return [
        Given(values, {name: each[index % len(each)] for name, each in shapes.items()}, ends) for index in range(count)
    ]


def bindings(texts: Sequence[str] | None) -> dict[str, float | Path]:
    """Values of inputs as a person types them, `NAME=VALUE` or `NAME=FILE.npy`.

    Raises:
        GivenError: one of them is none of these.
    """
    found: dict[str, float | Path] = {}
    for text in texts or ():
        name, value = _parts(text, "--bind", "NAME=VALUE or NAME=FILE.npy")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = Path(value)
    return found


def shapes_of(texts: Sequence[str] | None) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Shapes of inputs as a person types them, `NAME=1x128` or `NAME=1x128,1x256`.

    Raises:
        GivenError: one of them is none.
    """
    found = {}
    for text in texts or ():
        name, value = _parts(text, "--shape", "NAME=1x3x224x224")
        shapes = value.split(",")
        if not all(_SHAPE.fullmatch(each) for each in shapes) or len(shapes) > MOST_SHAPES:
            form = f"NAME=1x3x224x224, or up to {MOST_SHAPES} of these shapes, by commas"
            raise GivenError(printable(f"--shape must be {form}: {clipped(text)}"))
        found[name] = tuple(_extents(name, [int(extent) for extent in each.split("x")]) for each in shapes)
    return found


def _parts(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not (name and equals and value):
        raise GivenError(printable(f"{option} must be {form}: {clipped(text)}"))
    return name, value


def _array(name: str, value: float | Sequence[Any] | Array | str | Path) -> Array:
    if isinstance(value, str | Path):
        return read_array(Path(value))
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise GivenError(printable(f"values of `{clipped(name)}` must be numbers: {array.dtype}"))
    return array


def _names(until: Sequence[str] | None) -> tuple[str, ...]:
    names = (until,) if isinstance(until, str) else tuple(until or ())
    if not all(isinstance(name, str) and name for name in names):
        raise GivenError(printable(f"a model ends at values by name: {clipped(str(names))}"))
    return names


def _several(name: str, shapes: Sequence[int] | Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The shapes of an input, of which there may be one."""
    each = list(shapes)
    if each and all(isinstance(shape, tuple | list) for shape in each):
        return [_extents(name, shape) for shape in each]  # type: ignore[arg-type]
    return [_extents(name, each)]  # type: ignore[arg-type]


def _extents(name: str, extents: Sequence[int]) -> tuple[int, ...]:
    found = tuple(extents)
    is_shape = all(isinstance(each, int) and 1 <= each <= MOST_EXTENT for each in found)
    if not (is_shape and 1 <= len(found) <= MOST_AXES):
        what = f"the shape of `{clipped(name)}` must be up to {MOST_AXES} whole numbers of 1 to {MOST_EXTENT}"
        raise GivenError(printable(f"{what}: {clipped(str(found))}"))
    return found
