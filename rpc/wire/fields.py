"""Readers of JSON values that came from elsewhere.

A reader takes the place of a value in its message, such as `times_s[0][2]`, and the value; it returns what it read, or
raises `ProtocolError` with the place, what was expected and what was there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from int8tune.rpc.errors import ProtocolError

Value = TypeVar("Value")
Reader = Callable[[str, object], Value]

_LONGEST_TEXT = 16_384
_LONGEST_SHOWN = 60
_SMALLEST, _LARGEST = 1e-15, 1e15


class Fields:
    """A JSON object with exactly these fields."""

    def __init__(self, place: str, value: object, names: tuple[str, ...]) -> None:
        self._prefix = f"{place}." if place else ""
        self._values = _object(place or "message", value)
        for name in self._values:
            if name not in names:
                raise ProtocolError(f"unknown field: `{_shown(self._prefix + name)}`")
        for name in names:
            if name not in self._values:
                raise ProtocolError(f"missing field: `{self._prefix}{name}`")

    def read(self, name: str, reader: Reader[Value]) -> Value:
        return reader(f"{self._prefix}{name}", self._values[name])


def anything(_place: str, value: object) -> object:
    """The value as it is."""
    return value


def text(place: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT or "\0" in value:
        raise _refusal(place, f"text of at most {_LONGEST_TEXT} characters", value)
    return value


def line(place: str, value: object) -> str:
    """Text that can be printed on one line."""
    if not text(place, value).isprintable():
        raise _refusal(place, "printable text on one line", value)
    return text(place, value)


def positive(place: str, value: object) -> float:
    if not _is_number(value, _SMALLEST, _LARGEST):
        raise _refusal(place, "a positive number", value)
    return float(value)  # type: ignore[arg-type]


def number(low: float, high: float) -> Reader[float]:
    def read(place: str, value: object) -> float:
        if not _is_number(value, low, high):
            raise _refusal(place, f"a number from {low:g} to {high:g}", value)
        return float(value)  # type: ignore[arg-type]

    return read


def integer(low: int, high: int) -> Reader[int]:
    def read(place: str, value: object) -> int:
        if not isinstance(value, int) or not _is_number(value, low, high):
            raise _refusal(place, f"an integer from {low} to {high}", value)
        return value

    return read


def many(reader: Reader[Value]) -> Reader[tuple[Value, ...]]:
    """A list of what `reader` reads."""

    def read(place: str, value: object) -> tuple[Value, ...]:
        if not isinstance(value, list):
            raise _refusal(place, "a list", value)
        return tuple(reader(f"{place}[{index}]", item) for index, item in enumerate(value))

    return read


def table(reader: Reader[Value]) -> Reader[dict[str, Value]]:
    """An object with any names, each with what `reader` reads."""

    def read(place: str, value: object) -> dict[str, Value]:
        return {line(place, name): reader(f"{place}.{name}", item) for name, item in _object(place, value).items()}

    return read


def optional(reader: Reader[Value]) -> Reader[Value | None]:
    """What `reader` reads, or null."""
    return lambda place, value: None if value is None else reader(place, value)


def _object(place: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _refusal(place, "an object", value)
    return value


def _is_number(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _refusal(place: str, expected: str, value: object) -> ProtocolError:
    return ProtocolError(f"field `{_shown(place)}` must be {expected}: {repr(value)[:_LONGEST_SHOWN]}")


def _shown(place: str) -> str:
    return repr(place)[1:-1][:_LONGEST_SHOWN]
