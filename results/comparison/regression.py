"""What counts as a regression, as a person types it: `slower:3%`, `network:1%`, `missing`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from int8tune.results.comparison.compare import Change, Comparison
from int8tune.results.errors import ComparisonError
from int8tune.results.stats import Speedup

FORMS = "slower:3%, network:3%, missing"
_CONDITION = re.compile(r"(slower|network)(?::(\d{1,3}(?:\.\d{1,3})?)%)?|missing")


@dataclass(frozen=True, slots=True)
class Condition:
    """When a comparison has found a regression.

    Attributes:
        text: as it was typed.
        kind: `slower`, a layer or the network takes longer; `network`, that does; `missing`, B lacks a layer of A.
        least: by so much of A's time at least.
    """

    text: str
    kind: str
    least: float


def read_condition(text: str) -> Condition:
    """What was typed.

    Raises:
        ComparisonError: it is none.
    """
    found = _CONDITION.fullmatch(text.replace(" ", ""))
    if not found:
        raise ComparisonError(f"unknown condition `{text[:60]}`, known: {FORMS}")
    return Condition(text, found[1] or "missing", float(found[2] or 0) / 100)


def regressions(comparison: Comparison, condition: Condition) -> list[str]:
    """What meets the condition, one line each: changes that are claimed, and as large as that."""
    if condition.kind == "missing":
        return [f"{each.label}: missing in B" for each in comparison.layers if each.change is Change.ONLY_A]
    found = []
    network = comparison.network
    if network.change is Change.SLOWER and _excess(network.ratio) >= condition.least:
        found.append(f"the network: {_times(network.ratio)}")
    if condition.kind == "slower":
        found += [
            f"{each.label}: {_times(each.ratio)}"
            for each in comparison.layers
            if each.change is Change.SLOWER and each.ratio and _excess(each.ratio) >= condition.least
        ]
    return found


def _excess(ratio: Speedup) -> float:
    """By which part of A's time B takes longer."""
    return 1 / ratio.estimate - 1


def _times(ratio: Speedup) -> str:
    return f"B takes {1 / ratio.estimate:.2f} times as long"
