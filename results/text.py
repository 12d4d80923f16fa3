"""What messages about texts that somebody else wrote have in common."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Iterator

MOST_UNKNOWN = 20
_LONGEST_NAME = 80
_MOST_SHOWN = 80
_CAUSE_SHOWN = 300


def printable(text: str) -> str:
    """The text with every character escaped that could move a terminal's cursor or change its colours."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def one_line(text: str) -> str:
    """What somebody else's text says, short enough for a message."""
    return " ".join(text.split())[:_CAUSE_SHOWN]


def clipped(text: str) -> str:
    """The text, or its beginning where it is too long for a message."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def shown(value: object) -> str:
    """A JSON value as it may stand in a message of one line."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return clipped(json.dumps(value, ensure_ascii=False))


def unknown_field(name: str, known: Collection[str]) -> str:
    """What is wrong with a field that nobody knows, and what may have been meant."""
    near = difflib.get_close_matches(name[:_LONGEST_NAME], known, n=1)
    return f"unknown field, did you mean `{near[0]}`?" if near else f"unknown field, known: {', '.join(sorted(known))}"


def unknown_fields(names: Iterable[str], known: Collection[str]) -> Iterator[tuple[str, str]]:
    """The names that nobody knows, each with what is wrong with it; of very many the first ones, and how many more."""
    unknown = [name for name in names if name not in known]
    yield from ((name[:_LONGEST_NAME], unknown_field(name, known)) for name in unknown[:MOST_UNKNOWN])
    if len(unknown) > MOST_UNKNOWN:
        yield "...", f"{len(unknown) - MOST_UNKNOWN} more unknown fields"
