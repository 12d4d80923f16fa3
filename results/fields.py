"""Checks of untrusted JSON objects, which name every fault and not just the first."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from int8tune.results.bounded_json import MOST_BYTES, parse_json
from int8tune.results.text import unknown_fields

VALUE_SHOWN = 60
MAX_NAME = 512
MAX_KNOBS = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """What a field may hold: a test, and the words for it."""

    allowed: str
    accepts: Callable[[object], bool]


def is_name(value: object) -> bool:
    """Text that is safe to print: no control characters, not empty, not long."""
    return isinstance(value, str) and 1 <= len(value) <= MAX_NAME and value.isprintable()


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def is_config(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= MAX_KNOBS
        and all(
            is_name(name) and (isinstance(knob, bool) or _is_int64(knob) or is_name(knob))
            for name, knob in value.items()
        )
    )


def matches(pattern: str) -> Callable[[object], bool]:
    expression = re.compile(pattern)
    return lambda value: isinstance(value, str) and expression.fullmatch(value) is not None


def parse_object(text: str, most_bytes: int = MOST_BYTES) -> dict[str, object]:
    """The JSON object of a line.

    Raises:
        ValueError: no JSON, too long, nested too deeply, a name that is there twice, or a value that is no object.
    """
    try:
        value = parse_json(text, most_bytes=most_bytes, is_finite=False)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON (column {error.colno}: {error.msg})") from error
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object: {text[:VALUE_SHOWN]!a}")
    return value


def faults_of(found: Mapping[str, object], rules: Mapping[str, Rule]) -> list[str]:
    """Faults as `field: what, allowed: ...`; empty if every field is there and holds what it may."""
    faults = [f"{_shown(name)}: {what}" for name, what in unknown_fields(found, rules)]
    for name, rule in rules.items():
        if name not in found:
            faults.append(f"{name}: missing, allowed: {rule.allowed}")
        elif not rule.accepts(found[name]):
            faults.append(f"{name}: {_shown(found[name])}, allowed: {rule.allowed}")
    return faults


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}..."
