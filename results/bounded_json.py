"""JSON from a file that somebody else wrote: read within bounds of size, depth, values and digits, or refused."""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

MOST_BYTES = 16 << 20
MOST_DEPTH = 64
# A value takes two bytes of a file at least, and up to a hundred in memory.
MOST_VALUES = 2_000_000
# Whole numbers with more don't fit a float.
MOST_DIGITS = 308
# Python's own limit.
_MOST_DIGITS = 4300
_NAME_SHOWN = 60
MOST_REPEATED = 20

Pairs = list[tuple[str, Any]]

# Every repetition is possessive: what a file has in it can't make the search go back. A text that is not closed ends
# where the file does.
_TEXTS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^\[\]{}]++")
_LONG_NUMBER = re.compile(r"(?<![0-9])[0-9]{309}")
_LARGE_EXPONENT = re.compile(r"[0-9][eE]\+?[0-9]{3}")


def parse_json(
    text: str | bytes,
    *,
    most_bytes: int = MOST_BYTES,
    most_values: int = MOST_VALUES,
    objects: Callable[[Pairs], Any] | None = None,
    is_finite: bool = True,
) -> Any:
    """The value of a JSON text in UTF-8. Time and memory are in proportion to its length.

    Args:
        objects: what makes an object of its members; if left out, a name that is there twice is refused.
        is_finite: whether NaN, infinities and numbers beyond a float's are refused.

    Raises:
        ValueError: it is too long, nested too deeply, has too many values, or is no JSON.
    """
    if len(text) > most_bytes:
        raise ValueError(f"must have at most {most_bytes} bytes: {len(text)}")
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    _check_structure(text, most_values)
    decoder = _decoder(objects or unique_names, is_finite, _has_large_numbers(text))
    try:
        return _decoded(decoder, text)
    except RecursionError:
        raise ValueError("lists and objects are nested too deeply") from None


def read_json(path: Path, *, most_bytes: int = MOST_BYTES) -> Any:
    """The value of a file, of which no more is read than it may have.

    Raises:
        ValueError: as `parse_json`; or no regular file, which might never end.
        OSError: it can't be read.
    """
    if path.exists() and not path.is_file():
        raise ValueError("not a file")
    with path.open("rb") as file:
        return parse_json(file.read(most_bytes + 1), most_bytes=most_bytes)


class JsonObject(dict[str, Any]):
    """An object that remembers which of its names were given more than once."""

    repeated: tuple[str, ...] = ()


def all_names(pairs: Pairs) -> JsonObject:
    """An object, which may have names more than once: with what the last one says."""
    found = JsonObject(pairs)
    if len(found) < len(pairs):
        found.repeated = tuple(repeated_names(pairs)[:MOST_REPEATED])
    return found


def unique_names(pairs: Pairs) -> dict[str, Any]:
    """An object, each of whose names is there once.

    Raises:
        ValueError: one is there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a name is there twice: {json.dumps(repeated_names(pairs)[0][:_NAME_SHOWN])}")
    return found


def repeated_names(pairs: Pairs) -> Sequence[str]:
    """The names that are there more than once."""
    return [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]


@functools.cache
def _decoder(objects: Callable[[Pairs], Any], is_finite: bool, has_large_numbers: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=objects,
        parse_int=functools.partial(_integer, MOST_DIGITS if is_finite else _MOST_DIGITS)
        if has_large_numbers
        else None,
        parse_float=_finite if has_large_numbers and is_finite else None,
        parse_constant=_refuse_constant if is_finite else None,
    )


def _decoded(decoder: json.JSONDecoder, text: str) -> Any:
    """What `decode` gives, sooner where no space is around the value, as in every column of a store."""
    try:
        value, end = decoder.raw_decode(text)
    except json.JSONDecodeError:
        end = -1
    return value if end == len(text) else decoder.decode(text)


def _has_large_numbers(text: str) -> bool:
    """Whether a number may be too large; what most texts lack is looked for before the patterns, which take longer."""
    if ("e" in text or "E" in text) and _LARGE_EXPONENT.search(text):
        return True
    return len(text) > MOST_DIGITS and max(map(len, text.split(","))) > MOST_DIGITS and bool(_LONG_NUMBER.search(text))


def _check_structure(text: str, most_values: int) -> None:
    """Raise ValueError where the brackets are nested too deeply, or there are too many values."""
    opened = text.count("[") + text.count("{")
    if opened <= MOST_DEPTH and opened + text.count(",") <= most_values:
        return
    bare = _TEXTS.sub("", text)
    values = bare.count("[") + bare.count("{") + bare.count(",")
    if values > most_values:
        raise ValueError(f"must have at most {most_values} values: {values}")
    brackets = _NO_BRACKETS.sub("", bare)
    for _ in range(MOST_DEPTH):
        inner = brackets.replace("[]", "").replace("{}", "")
        if len(inner) == len(brackets):
            return  # whole, or brackets that don't match, which are no JSON
        brackets = inner
    if "[]" in brackets or "{}" in brackets:
        raise ValueError(f"lists and objects are nested too deeply, at most {MOST_DEPTH} in each other")


def _integer(most_digits: int, text: str) -> int:
    if len(text) > most_digits:
        raise ValueError(f"a number has too many digits, at most {most_digits}: {len(text)}")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"a number is too large: {text[:_NAME_SHOWN]}")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
