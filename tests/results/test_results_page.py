"""The page about records names every field that they have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest

from int8tune.results.best import BestSchedule
from int8tune.results.record import Candidate, Entrant, Entry, Estimate, Measurement, Outcome
from tests.support.places import ROOT

KINDS = (*get_args(Entry), Candidate, Measurement, Estimate, Entrant)
PAGE = (ROOT / "docs/results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_named_where_its_record_is(kind: Any) -> None:
    start = PAGE.index(f"**{kind.__name__}**")
    part = PAGE[start : PAGE.find("\n**", start + 1)]
    assert [field.name for field in fields(kind) if f"`{field.name}`" not in part] == []


def test_the_fields_of_best_schedules_and_all_outcomes_are_named() -> None:
    named = [field.name for field in fields(BestSchedule)]
    named += [outcome.value for outcome in Outcome if outcome is not Outcome.DEVICE_LOST]
    assert [name for name in named if f"`{name}`" not in PAGE] == []
