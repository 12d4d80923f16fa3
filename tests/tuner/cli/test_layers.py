"""Counts as the table of layers has them."""

from __future__ import annotations

import pytest

from int8tune.tuner.cli.layers import short


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "999"),
        (1000, "1k"),
        (118_013_952, "118M"),
        (999_400_000, "999M"),
        (999_600_000, "1G"),
        (4_089_184_256, "4.09G"),
        (5 * 10**12, "5T"),
    ],
)
def test_a_count_has_three_digits(count: int, text: str) -> None:
    assert short(count) == text
