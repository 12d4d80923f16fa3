"""Tables and texts in GitHub's Markdown, in which nobody else's text can do anything."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from int8tune.results.text import printable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<|~#!])")


def cell(text: str) -> str:
    """A text as it is: what would be markup is escaped."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """The lines of a table, the columns at positions `numbers` aligned right."""
    rule = ["-:" if place in numbers else "-" for place in range(len(titles))]
    return [f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows)]
