"""Where values lie on a chart, and which of them are written at its axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

_NICE = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Linear:
    """Values of `low` to `high` at `start` to `end`, in pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.end - self.start) if span else self.start

    def ticks(self, count: int) -> list[float]:
        """About as many round values, all within the scale."""
        span = self.high - self.low
        if not span > 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(span / count))
        step = next(nice * power for nice in _NICE if span / (nice * power) <= count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(place * step, 12) for place in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Positive values of `low` to `high` at `start` to `end`, in pixels, each factor as wide as another."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """The powers of ten within the scale, and where these are few, their doubles and fives, too."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        decades = math.log10(self.high / self.low)
        digits = (1,) if decades > 3 else (1, 3) if decades > 1.5 else (1, 2, 5)
        values = [digit * 10.0**power for power in powers for digit in digits]
        return [value for value in values if self.low <= value <= self.high * (1 + 1e-9)]


def padded(low: float, high: float, share: float = 0.05) -> tuple[float, float]:
    """The ends a little apart from the values; some distance where there is none."""
    pad = (high - low) * share or abs(high) * share or 1.0
    return low - pad, high + pad


def tick_label(value: float) -> str:
    """A tick's value: as short as it can be said."""
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:,.6f}".rstrip("0").rstrip(".")
