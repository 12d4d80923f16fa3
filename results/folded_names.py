"""Operators of a float model that became a part of another one: how a quantized model's file says so."""

from __future__ import annotations

import json
from collections.abc import Mapping

from int8tune.results.bounded_json import parse_json
from int8tune.results.text import printable

# Of an entry of `metadata_props` in an ONNX file.
FOLDED_KEY = "int8tune.folded"
_MOST_BYTES = 4 << 20


def folded_text(folded: Mapping[str, str]) -> str:
    """The operator that each one has become a part of, as a text."""
    return json.dumps(dict(folded), ensure_ascii=True)


def folded_of(text: str) -> dict[str, tuple[str, ...]]:
    """By the names of operators, those of what they compute, too; nothing if the text says something else."""
    try:
        value = parse_json(text, most_bytes=_MOST_BYTES)
    except ValueError:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for part, whole in value.items() if isinstance(value, dict) else ():
        if not isinstance(whole, str) or not part or any(printable(name) != name for name in (part, whole)):
            return {}
        found[whole] = (*found.get(whole, ()), part)
    return found
