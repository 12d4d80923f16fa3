"""JSON values as the types that a program wrote them from: each is checked, none is believed.

Types say what may be there; `Annotated` adds a form (`results.json_forms`) to one. All faults are found, with their
places, up to a limit.
"""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, TypeVar, cast

from int8tune.results.bounded_json import JsonObject
from int8tune.results.json_forms import Form, Length, Made
from int8tune.results.text import printable, shown, unknown_fields

T = TypeVar("T")
Reader = Callable[[Any], Any]

MOST_FAULTS = 100
_NAME_SHOWN = 60
_SCALARS: Mapping[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "an integer of 64 bits",
    float: "a finite number",
}
Fault = tuple[str, str]
"""A place such as `.layers[3].count`, and what is wrong there."""


class TypedJsonError(ValueError):
    """A value is not of its type.

    Attributes:
        faults: what is wrong, with its place; at most `MOST_FAULTS`, and one that says that there are more.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(self.faults)

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each fault."""
        return tuple(printable(f"{place.lstrip('.')}: {what}" if place else what) for place, what in self.faults)

    def __str__(self) -> str:
        more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
        return f"{self.lines[0]}{more}"


def _fault(what: str, value: object) -> TypedJsonError:
    return TypedJsonError([("", f"{what}: {shown(value)}")])


def from_json(kind: type[T], value: object) -> T:
    """The value as a `kind`: a text, a number, true or false, an enumeration, a dataclass of such, or a tuple, a set
    or a mapping of such by names. What `kind` has a default for may be missing.

    Raises:
        TypedJsonError: it is none, with every place.
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
    if origin is Annotated:
        return _annotated(arguments[0], arguments[1])
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


def _annotated(kind: Any, how: Form | Length | Made) -> Reader:
    if isinstance(how, Made):
        return _made(reader_of(how.kind), how)
    return _counted(kind, how) if isinstance(how, Length) else _formed(kind, how)


def _formed(kind: Any, form: Form) -> Reader:
    reader = reader_of(kind)

    def read(value: Any) -> Any:
        try:
            found = reader(value)
        except TypedJsonError as error:
            if any(place for place, _ in error.faults):
                raise
        else:
            if form.accepts(found):
                return found
        raise _fault(f"must be {form.allowed}", value)

    return read


def _counted(kind: Any, length: Length) -> Reader:
    reader, counted = reader_of(kind), list if typing.get_origin(kind) in (tuple, frozenset) else dict

    def read(value: Any) -> Any:
        if isinstance(value, counted) and not length.least <= len(value) <= length.most:
            raise _fault(f"must have {length.least} to {length.most} items", len(value))
        return reader(value)

    return read


def _made(reader: Reader, made: Made) -> Reader:
    def read(value: Any) -> Any:
        found = reader(value)
        try:
            return made.make(found)
        except made.error as error:
            raise TypedJsonError([("", str(error))]) from error

    return read


def _scalar(kind: Any) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise _fault(f"must be {_SCALARS[kind]}", value)
        if (type(value) is int and not -(2**63) <= value < 2**63) or (kind is float and not math.isfinite(value)):
            raise _fault(f"must be {_SCALARS[kind]}", value)
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
            raise _fault("must be a list", value)
        if are_numbers and _are_finite(value):
            return kind(value)
        try:
            return kind([reader(item) for item in value])
        except TypedJsonError:
            raise _error_of([(f"[{index}]", reader, item) for index, item in enumerate(value)]) from None

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
        try:
            return {name: reader(item) for name, item in members.items()}
        except TypedJsonError:
            raise _error_of([(_place(name), reader, item) for name, item in members.items()]) from None

    return read


def _member_of(kind: type[Enum]) -> Reader:
    def read(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            allowed = ", ".join(str(member.value) for member in kind)
            raise _fault(f"must be one of {allowed}", value) from None

    return read


def _record(kind: Any) -> Reader:
    hints = typing.get_type_hints(kind, include_extras=True)
    readers = {field.name: reader_of(hints[field.name]) for field in fields(kind)}
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def read(value: Any) -> Any:
        members = _members(value)
        faults = _faults_of_names(members, readers, required)
        if not faults:
            try:
                return kind(**{name: readers[name](item) for name, item in members.items()})
            except TypedJsonError:
                pass
        raise _error_of([(_place(name), readers[name], members[name]) for name in readers if name in members], faults)

    return read


def _faults_of_names(members: dict[str, Any], known: Mapping[str, Reader], required: set[str]) -> list[Fault]:
    faults = []
    if isinstance(members, JsonObject) and members.repeated:
        faults += [(_place(name), "given more than once") for name in members.repeated]
    if not members.keys() <= known.keys():
        faults += [(_place(name), what) for name, what in unknown_fields(members, known)]
    if not required <= members.keys():
        faults += [(_place(name), "missing") for name in known if name in required and name not in members]
    return faults


def _error_of(parts: Iterable[tuple[str, Reader, Any]], faults: Sequence[Fault] = ()) -> TypedJsonError:
    """These faults, and all that are found where a part is read again."""
    found = list(faults)
    for place, reader, item in parts:
        try:
            reader(item)
        except TypedJsonError as error:
            found += [(f"{place}{inner}", what) for inner, what in error.faults]
        if len(found) > MOST_FAULTS:
            found[MOST_FAULTS:] = [("", f"more than {MOST_FAULTS} faults, the rest is not shown")]
            break
    return TypedJsonError(found)


def _members(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _fault("must be an object", value)
    return value


def _place(name: str) -> str:
    return f".{name[:_NAME_SHOWN]}"
