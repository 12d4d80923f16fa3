"""What a row's columns hold: each of its type, and JSON texts that are read as one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import Float, Integer, Table

from int8tune.results.bounded_json import parse_json
from int8tune.results.errors import RecordError
from int8tune.results.record import Config, Entrant
from int8tune.results.typed_json import from_json, reader_of

Layers = Mapping[str, tuple[int, tuple[str, ...]]]
_MOST_DIGITS = 1000
_KNOB_TYPES = {int, str, bool}
_read_values, _read_numbers = reader_of(dict[str, object]), reader_of(dict[str, float])
_read_texts, _read_times = reader_of(dict[str, str]), reader_of(tuple[float, ...])


def check_types(table: Table, row: Mapping[str, Any]) -> None:
    """Check the values of a table's columns, which SQLite takes whatever their type is.

    Raises:
        RecordError: one is of another type.
    """
    columns, seen = _kinds_of(table)
    kinds = tuple([type(row[name]) for name, _, _ in columns])
    if kinds in seen:
        return
    for name, kind, is_nullable in columns:
        value = row[name]
        if not isinstance(value, kind) and not (value is None and is_nullable):
            raise RecordError(f"{name} must be {kind.__name__}: {type(value).__name__}")
    seen.add(kinds)


@functools.cache
def _kinds_of(table: Table) -> tuple[list[tuple[str, type, bool]], set[tuple[type, ...]]]:
    """Each column's name, type in Python, and whether it may be empty; and types of rows that were right so far."""
    return [(column.name, _kind_of(column.type), bool(column.nullable)) for column in table.columns], set()


def _kind_of(found: object) -> type:
    return int if isinstance(found, Integer) else float if isinstance(found, Float) else str


def config_of(text: str) -> Config:
    """Knobs with their values; an integer may have more bits than a number of a file's has elsewhere."""
    config = _read_values(parse_json(text))
    for name, value in config.items():
        if type(value) not in _KNOB_TYPES:
            raise RecordError(
                f"a knob's value must be an integer, a text, true or false: {name[:40]}: {repr(value)[:40]}"
            )
    return cast(Config, config)


def numbers_of(text: str) -> Mapping[str, float]:
    return cast(Mapping[str, float], _read_numbers(parse_json(text)))


def texts_of(text: str) -> Mapping[str, str]:
    return cast(Mapping[str, str], _read_texts(parse_json(text)))


def times_of(text: str) -> tuple[float, ...]:
    return cast(tuple[float, ...], _read_times(parse_json(text)))


def entrant_of(text: str) -> Entrant:
    return from_json(Entrant, parse_json(text))


def entrants_of(text: str) -> tuple[Entrant, ...]:
    return from_json(tuple[Entrant, ...], parse_json(text))


def layers_of(text: str) -> Layers:
    """By workload a count, and names where they are known: an integer, or a list of it and the names."""
    values = _read_values(parse_json(text))
    return {workload: _count_and_names(value) for workload, value in values.items()}


def integer_of(text: str) -> int:
    """A decimal text, which may have more digits than a column's number."""
    if len(text) > _MOST_DIGITS:
        raise RecordError(f"a number has at most {_MOST_DIGITS} digits: {len(text)}")
    return int(text)


def _count_and_names(value: object) -> tuple[int, tuple[str, ...]]:
    if isinstance(value, list) and value:
        return from_json(int, value[0]), from_json(tuple[str, ...], value[1:])
    return from_json(int, value), ()
