"""Profiles of float models as files: JSON, read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from int8tune.quantize.errors import RangesError
from int8tune.quantize.float_model import one_line, shown
from int8tune.quantize.ranges import BINS, Ranges, TensorRange
from int8tune.results.atomic import write_atomic
from int8tune.results.bounded_json import parse_json

FORMAT = 1
FORMAT_FIELD = "int8tune_ranges"
MOST_BYTES = 256 << 20
MOST_VALUES = 40_000_000
MOST_TENSORS = 20_000
MOST_CHANNELS = 1_000_000
LONGEST_NAME = 10_000

_COUNTS = ("values", "zeros", "nan", "infinite")
_NUMBERS = ("minimum", "maximum", "mean", "deviation")
_TEXTS = ("name", "producer", "node")
_TOP = ("model", "model_sha256", "data", "data_sha256")


def write_ranges(path: Path, ranges: Ranges) -> None:
    """Write a profile whole or not at all.

    Raises:
        ExportError: it can't be written.
    """
    about = {FORMAT_FIELD: FORMAT, **{name: getattr(ranges, name) for name in (*_TOP, "samples")}}
    head = json.dumps(about, indent=1).removesuffix("\n}")
    rows = ",\n".join(json.dumps(asdict(each)) for each in ranges.tensors.values())
    write_atomic(path, f'{head},\n "tensors": [\n{rows}\n ]\n}}\n')


def read_ranges(path: Path) -> Ranges:
    """Read a profile.

    Raises:
        RangesError: it can't be read, is damaged, or has another form.
    """
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no regular file" if path.exists() else "no such file"
            raise RangesError(f"ranges must be a file, this is {what}: {shown(path)}")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RangesError(f"{shown(path)}: {error.strerror}") from None
    try:
        return _ranges(parse_json(content, most_bytes=MOST_BYTES, most_values=MOST_VALUES))
    except (ValueError, TypeError, KeyError) as error:
        raise RangesError(f"{shown(path)}: no ranges of a model: {one_line(error)}") from None


def _ranges(value: Any) -> Ranges:
    if not isinstance(value, dict) or FORMAT_FIELD not in value:
        raise ValueError(f"must be an object with the field `{FORMAT_FIELD}`")
    if value[FORMAT_FIELD] != FORMAT:
        raise ValueError(f"{FORMAT_FIELD} must be {FORMAT}: {value[FORMAT_FIELD]!r}")
    _require(value, {FORMAT_FIELD, *_TOP, "samples", "tensors"}, "the file")
    tensors = value["tensors"]
    if not isinstance(tensors, list) or len(tensors) > MOST_TENSORS:
        raise ValueError(f"tensors must be a list of at most {MOST_TENSORS}")
    found = [_tensor(number, each) for number, each in enumerate(tensors)]
    texts = {name: _text(value[name], name) for name in _TOP}
    return Ranges(**texts, samples=_count(value["samples"], "samples"), tensors={each.name: each for each in found})


def _tensor(number: int, value: Any) -> TensorRange:
    place = f"tensors[{number}]"
    if not isinstance(value, dict):
        raise ValueError(f"{place} must be an object")
    _require(value, {each.name for each in fields(TensorRange)}, place)
    found: dict[str, Any] = {name: _text(value[name], f"{place}.{name}") for name in _TEXTS}
    found |= {name: _number(value[name], f"{place}.{name}") for name in _NUMBERS}
    found |= {name: _count(value[name], f"{place}.{name}") for name in _COUNTS}
    for name in ("channel_minimum", "channel_maximum"):
        found[name] = tuple(_number(each, f"{place}.{name}") for each in _list(value[name], MOST_CHANNELS, place))
    for name in ("shape", "histogram"):
        found[name] = tuple(_count(each, f"{place}.{name}") for each in _list(value[name], BINS, f"{place}.{name}"))
    if len(found["histogram"]) != BINS:
        raise ValueError(f"{place}.histogram must have {BINS} counts: {len(found['histogram'])}")
    if found["minimum"] > found["maximum"] or found["deviation"] < 0:
        raise ValueError(f"{place}: minimum must be at most maximum, and deviation at least 0")
    if len(found["channel_minimum"]) != len(found["channel_maximum"]):
        raise ValueError(f"{place}: as many minima as maxima of channels")
    return TensorRange(**found)


def _require(value: Mapping[str, Any], names: set[str], place: str) -> None:
    if missing := sorted(names - set(value)):
        raise ValueError(f"{place} lacks {', '.join(missing)}")
    if unknown := sorted(set(value) - names):
        raise ValueError(f"{place} has an unknown field: {unknown[0]}")


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise ValueError(f"{place} must be a text of at most {LONGEST_NAME} characters")
    return value


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{place} must be a finite number: {value!r}")
    return float(value)


def _count(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise ValueError(f"{place} must be a whole number, 0 or more: {value!r}")
    return value


def _list(value: Any, most: int, place: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{place} must be a list of at most {most}")
    return value
