"""Names of values: those that a reader adds to a file's, and those that a user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Container

from int8tune.results.text import clipped

_MOST_SHOWN, _MOST_COMPARED, _MOST_LETTERS = 4, 20_000, 200


def free_name(name: str, *taken: Container[str]) -> str:
    """The name, with marks behind it until none of these has it."""
    while any(name in each for each in taken):
        name += "'"
    return name


def new_name(name: str, names: set[str]) -> str:
    """A free name, which the names have then, too."""
    made = free_name(name, names)
    names.add(made)
    return made


def similar(name: str, known: Collection[str]) -> str:
    """A question by which a message ends that doesn't know a name; nothing where none is like it."""
    near = difflib.get_close_matches(name[:_MOST_LETTERS], list(known)[:_MOST_COMPARED], n=_MOST_SHOWN)
    return f", did you mean {', '.join(f'`{clipped(each)}`' for each in near)}?" if near else ""
