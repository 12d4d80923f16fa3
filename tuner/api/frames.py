"""Rows as a table of pandas, which is imported when somebody wants one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from int8tune.results.report.tables import Row, columns_of

if TYPE_CHECKING:
    import pandas


def frame_of(rows: Sequence[Row], columns: Sequence[str] = ()) -> pandas.DataFrame:
    """A table with the columns of all rows in the order in which they first appear; `columns`, those of no rows."""
    import pandas

    names = columns_of(rows, columns)
    values = {name: [row.get(name) for row in rows] for name in names}
    return pandas.DataFrame({name: pandas.Series(column, dtype=_dtype(column)) for name, column in values.items()})


def interval_columns(name: str, value: object, *parts: str) -> Row:
    """A value with the ends of its interval, as three columns; `parts` are their attributes."""
    names = (name, f"{name}_low", f"{name}_high")
    return {each: None if value is None else getattr(value, part) for each, part in zip(names, parts, strict=True)}


def _dtype(values: Sequence[object]) -> str:
    """The type of a column, which must not turn the whole numbers of a column with gaps into others."""
    kinds = {type(value) for value in values if value is not None}
    has_gaps = any(value is None for value in values)
    if kinds == {bool}:
        return "boolean" if has_gaps else "bool"
    if kinds == {int} and all(value is None or -(2**63) <= int(str(value)) < 2**63 for value in values):
        return "Int64" if has_gaps else "int64"
    if kinds and kinds <= {int, float}:
        return "float64"
    return "str" if kinds == {str} else "object"


def listed(count: int, noun: str, plural: str = "") -> str:
    """A number of things, such as `1 layer` or `31 layers`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def joined(parts: Iterable[str]) -> str:
    """Parts of a line, without the empty ones."""
    return ", ".join(filter(None, parts))
