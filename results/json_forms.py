"""What values of JSON may be beyond their types: for `Annotated`, as `results.typed_json` reads it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Counts of databases.
MOST_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Form:
    """A test of values that are of the type already, and the words for what it lets through."""

    allowed: str
    accepts: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Length:
    """How many items a list or an object has, which is asked before they are read."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Made:
    """What a value is made into behind its form. Errors of the type `error` say what is wrong with it."""

    kind: Any
    make: Callable[[Any], Any]
    error: type[Exception]


def printable_text(most: int) -> Form:
    """Text that is safe to print: no control characters, not empty, not long."""
    return Form(
        f"a text of 1 to {most} printable characters", lambda value: 1 <= len(value) <= most and value.isprintable()
    )


def one_line(most: int) -> Form:
    """Text, or none, that can be printed on one line."""
    return Form(
        f"printable text of at most {most} characters", lambda value: len(value) <= most and value.isprintable()
    )


def matching(pattern: str | re.Pattern[str], allowed: str) -> Form:
    """Text that all of a pattern matches; `allowed` says it in words."""
    expression = re.compile(pattern)
    return Form(allowed, lambda value: expression.fullmatch(value) is not None)


def whole_number(least: int, most: int = MOST_INTEGER) -> Form:
    allowed = f"an integer of at least {least}" if most == MOST_INTEGER else f"an integer of {least} to {most}"
    allowed = f"{least}" if least == most else allowed
    return Form(allowed, lambda value: least <= value <= most)


def number_over(above: float, most: float = sys.float_info.max, unit: str = "a number") -> Form:
    limit = "" if most == sys.float_info.max else f", at most {most:g}"
    return Form(f"{unit} over {above:g}{limit}", lambda value: above < value <= most)


def number_within(least: float, most: float) -> Form:
    return Form(f"a number from {least:g} to {most:g}", lambda value: least <= value <= most)


def knobs(most: int, name: Form) -> Form:
    """The config of a schedule: values by the names of its knobs."""

    def accepts(value: Mapping[str, Any]) -> bool:
        return len(value) <= most and all(_is_text(each, name) and _is_knob(value[each], name) for each in value)

    return Form(f"an object of at most {most} knobs, each an integer, a text or a boolean", accepts)


def _is_text(value: object, form: Form) -> bool:
    return isinstance(value, str) and form.accepts(value)


def _is_knob(value: object, form: Form) -> bool:
    is_integer = isinstance(value, int) and -MOST_INTEGER - 1 <= value <= MOST_INTEGER
    return is_integer or _is_text(value, form)
