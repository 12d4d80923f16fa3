"""Readers of JSON say all that is wrong, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import pytest

from int8tune.results.bounded_json import all_names, parse_json
from int8tune.results.json_forms import Length, Made, matching, number_over, number_within, one_line, whole_number
from int8tune.results.typed_json import MOST_FAULTS, TypedJsonError, from_json

Even = Annotated[int, Made(Annotated[int, whole_number(0, 9)], lambda value: _even(value), ArithmeticError)]


def _even(value: int) -> int:
    if value % 2:
        raise ArithmeticError(f"is odd: {value}")
    return value


@dataclass(frozen=True)
class Part:
    name: Annotated[str, matching("[a-z]+", "small letters")]
    size: Annotated[float, number_over(0, 10)]


@dataclass(frozen=True)
class Whole:
    parts: Annotated[tuple[Part, ...], Length(1, 3)]
    share: Annotated[float, number_within(0, 1)]
    even: Even
    names: Annotated[Mapping[str, int], Length(0, 2)] = field(default_factory=dict)
    note: Annotated[str, one_line(5)] | None = None


GOOD = {"parts": [{"name": "a", "size": 10}], "share": 0, "even": 4}


def faults(value: object) -> tuple[str, ...]:
    with pytest.raises(TypedJsonError) as caught:
        from_json(Whole, value)
    return caught.value.lines


def test_what_is_right_is_read() -> None:
    assert from_json(Whole, GOOD) == Whole((Part("a", 10.0),), 0.0, 4)
    more = GOOD | {"names": {"x": 1, "y": 2}, "note": None}
    assert from_json(Whole, more) == Whole((Part("a", 10.0),), 0.0, 4, {"x": 1, "y": 2})


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"parts": []}, "parts: must have 1 to 3 items: 0"),
        ({"parts": {}}, "parts: must be a list: an object"),
        ({"parts": [{"name": "A", "size": 1}]}, 'parts[0].name: must be small letters: "A"'),
        ({"parts": [{"name": "a", "size": 0}]}, "parts[0].size: must be a number over 0, at most 10: 0"),
        ({"parts": [{"name": "a"}]}, "parts[0].size: missing"),
        ({"share": 1.5}, "share: must be a number from 0 to 1: 1.5"),
        ({"share": True}, "share: must be a number from 0 to 1: true"),
        ({"even": 3}, "even: is odd: 3"),
        ({"even": 10}, "even: must be an integer of 0 to 9: 10"),
        ({"names": {"x": 1, "y": 2, "z": 3}}, "names: must have 0 to 2 items: 3"),
        ({"names": {"x": "1"}}, 'names.x: must be an integer of 64 bits: "1"'),
        ({"names": [1]}, "names: must be an object: a list"),
        ({"note": "longer"}, 'note: must be printable text of at most 5 characters: "longer"'),
        ({"note": "\x1b"}, 'note: must be printable text of at most 5 characters: "\\u001b"'),
        ({"notes": 1}, "notes: unknown field, did you mean `note`?"),
    ],
)
def test_a_fault_has_its_place(change: dict[str, object], line: str) -> None:
    assert faults(GOOD | change) == (line,)


def test_all_faults_are_said() -> None:
    value = {"parts": [{"name": 1}, 5], "even": 3, "evn": 2}
    lines = (
        "evn: unknown field, did you mean `even`?",
        "share: missing",
        "parts[0].size: missing",
        "parts[0].name: must be small letters: 1",
        "parts[1]: must be an object: 5",
        "even: is odd: 3",
    )
    assert faults(value) == lines
    with pytest.raises(TypedJsonError) as caught:
        from_json(Whole, value)
    assert str(caught.value) == f"{lines[0]} (and 5 more)"
    with pytest.raises(TypedJsonError, match=r"^share: must be a number from 0 to 1: -1$"):
        from_json(Whole, GOOD | {"share": -1})


def test_a_name_that_is_there_twice_is_a_fault() -> None:
    text = '{"parts": [{"name": "a", "size": 1, "size": 2}], "share": 0, "even": 2}'
    assert faults(parse_json(text, objects=all_names)) == ("parts[0].size: given more than once",)


def test_very_many_faults_are_counted_only() -> None:
    with pytest.raises(TypedJsonError) as caught:
        from_json(tuple[int, ...], ["x"] * 10_000)
    assert len(caught.value.lines) == MOST_FAULTS + 1
    assert caught.value.lines[0] == '[0]: must be an integer of 64 bits: "x"'
    assert caught.value.lines[-1] == f"more than {MOST_FAULTS} faults, the rest is not shown"
