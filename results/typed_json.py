"""JSON values as the types that a program wrote them from: each is checked, none is believed."""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, cast

T = TypeVar("T")
Reader = Callable[[Any], Any]

_SHOWN = 60
_SCALARS: Mapping[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "an integer of 64 bits",
    float: "a finite number",
}


class TypedJsonError(ValueError):
    """A value is not of its type; the message has its place."""

    def __init__(self, what: str, value: object = MISSING) -> None:
        self.place = ""
        self._what = what if value is MISSING else f"{what}: {repr(value)[:_SHOWN]}"
        super().__init__(what)

    def __str__(self) -> str:
        return f"{self.place.lstrip('.')}: {self._what}" if self.place else self._what


def from_json(kind: type[T], value: object) -> T:
    """The value as a `kind`: a text, a number, true or false, an enumeration, a dataclass of such, or a tuple, a set
    or a mapping of such by names. What `kind` has a default for may be missing.

    Raises:
        TypedJsonError: it is none, with the place.
    """
    return cast(T, reader_of(cast(Any, kind))(value))


@functools.cache
def reader_of(kind: Any) -> Reader:
    """What reads values as `from_json` does. Who reads many keeps it: looking up a type takes time, too."""
    if kind in (Any, object):
        return lambda value: value
    if kind in _SCALARS:
        return _scalar(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _one_of(arguments)
    if origin in (tuple, frozenset):
        assert origin is frozenset or arguments[1] is ...
        return _many(origin, reader_of(arguments[0]), are_numbers=arguments[0] is float)
    if origin is not None and issubclass(origin, Mapping):
        return _by_name(arguments[1])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member_of(kind)
    assert is_dataclass(kind), kind
    return _record(kind)


def _scalar(kind: Any) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise TypedJsonError(f"must be {_SCALARS[kind]}", value)
        if (type(value) is int and not -(2**63) <= value < 2**63) or (kind is float and not math.isfinite(value)):
            raise TypedJsonError(f"must be {_SCALARS[kind]}", value)
        return float(value) if kind is float else value

    return read


def _one_of(kinds: tuple[Any, ...]) -> Reader:
    readers = [reader_of(kind) for kind in kinds if kind is not types.NoneType]
    is_optional = types.NoneType in kinds

    def read(value: Any) -> Any:
        if value is None and is_optional:
            return None
        for reader in readers[:-1]:
            try:
                return reader(value)
            except TypedJsonError:
                continue
        return readers[-1](value)

    return read


def _many(kind: type, reader: Reader, *, are_numbers: bool) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise TypedJsonError("must be a list", value)
        if are_numbers and _are_finite(value):
            return kind(value)
        items, place = [], 0
        try:
            for place, item in enumerate(value):  # noqa: B007
                items.append(reader(item))
        except TypedJsonError as error:
            error.place = f"[{place}]{error.place}"
            raise
        return kind(items)

    return read


def _are_finite(values: list[Any]) -> bool:
    """Whether all are numbers with a fraction, and their sum is finite, as it is of times: most lists are such."""
    return set(map(type, values)) == {float} and math.isfinite(sum(values))


def _by_name(kind: Any) -> Reader:
    reader = reader_of(kind)

    def read(value: Any) -> Any:
        members = _members(value)
        if kind in (Any, object) or (kind is float and members and _are_finite(list(members.values()))):
            return dict(members)
        return {name: _placed(name, reader, item) for name, item in members.items()}

    return read


def _member_of(kind: type[Enum]) -> Reader:
    def read(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            allowed = ", ".join(str(member.value) for member in kind)
            raise TypedJsonError(f"must be one of {allowed}", value) from None

    return read


def _record(kind: Any) -> Reader:
    hints = typing.get_type_hints(kind)
    readers = {field.name: reader_of(hints[field.name]) for field in fields(kind)}
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def read(value: Any) -> Any:
        members = _members(value)
        if unknown := next((name for name in members if name not in readers), None):
            raise TypedJsonError("unknown field", unknown)
        if missing := sorted(required - members.keys()):
            raise TypedJsonError("missing field", missing[0])
        return kind(**{name: _placed(name, readers[name], item) for name, item in members.items()})

    return read


def _members(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypedJsonError("must be an object", value)
    return value


def _placed(name: str, reader: Reader, value: Any) -> Any:
    try:
        return reader(value)
    except TypedJsonError as error:
        error.place = f".{name[:_SHOWN]}{error.place}"
        raise
