"""What came of a build, as records have it."""

from __future__ import annotations

from int8tune.results.record import Outcome
from int8tune.tuner.builder.job import Built


def test_advice_is_counted_by_code_in_order() -> None:
    built = Built("x", Outcome.OK, advice=("(C9) slow", "(C1) slower", "(C9) slow"))
    assert [(name[-2:], count) for name, count in built.advised.items()] == [("C1", 1.0), ("C9", 2.0)]
    assert Built("x", Outcome.OK).build_s == 0
