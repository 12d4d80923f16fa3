"""The forms that a file is written in: its name's extension says which."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from int8tune.results.errors import UnknownFormError
from int8tune.results.text import printable


class Form(StrEnum):
    """A form, by its extension."""

    HTML = ".html"
    """A page that needs no other file."""
    MARKDOWN = ".md"
    """A headline and a table, such as for a pull request."""
    CSV = ".csv"
    """A table; lists and objects in it are JSON."""
    JSON = ".json"
    """All that is known, with a version."""
    PARQUET = ".parquet"
    """A table with all columns (pyarrow)."""
    T4 = ".t4.json"
    """Trials as other auto-tuners read them."""
    METASCHEDULE = ".metaschedule"
    """A folder: best schedules as a database of TVM's MetaSchedule."""


REPORT_FORMS = (Form.HTML, Form.MARKDOWN, Form.CSV, Form.JSON, Form.PARQUET)
"""All forms that a report may have."""


def form_of(path: Path, known: Collection[Form]) -> Form:
    """The form that a file's name asks for.

    Raises:
        UnknownFormError: it has no extension, or one of no form that is known.
    """
    name = path.name.lower()
    # `.t4.json` is no `.json`.
    for form in sorted(known, key=len, reverse=True):
        if name.endswith(form) and name != form:
            return form
    extension = path.suffix.lower()
    what = f"unknown extension `{printable(extension)[:20]}`" if extension else "the file needs an extension"
    raise UnknownFormError(f"{what}, known: {', '.join(known)}: {path}")
