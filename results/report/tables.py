"""Rows of tables, and tables as comma-separated values: a thing has the same column in each of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]

# What a spreadsheet would take as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def prefixed(prefix: str, values: Mapping[str, Any]) -> Row:
    """The values by names such as `config.tile`."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def columns_of(rows: Sequence[Row], columns: Sequence[str] = ()) -> list[str]:
    """The columns of all rows in the order in which they first appear; `columns`, those of no rows."""
    return list(dict.fromkeys(name for row in rows for name in row)) or list(columns)


def csv_text(rows: Sequence[Row]) -> str:
    """A line of names, then one for each row; lists and objects are JSON."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns_of(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_text(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def as_text(value: Any) -> Any:
    """A value as it stands in a table of texts."""
    if isinstance(value, str):
        return spreadsheet_text(value)
    return json.dumps(value) if isinstance(value, tuple | list | dict) else value


def spreadsheet_text(value: str) -> str:
    """A text as it is to be shown: no spreadsheet computes it."""
    return f"'{value}" if value.startswith(_FORMULA) else value
