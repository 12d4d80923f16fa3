"""Numbers as people read them."""

from __future__ import annotations

from int8tune.results.stats import Speedup

MISSING = "-"


def microseconds(time_s: float | None) -> str:
    """Three significant digits below 1000 us, whole microseconds above."""
    return MISSING if time_s is None else _three_digits(time_s * 1e6)


def milliseconds(time_s: float | None) -> str:
    return MISSING if time_s is None else f"{time_s * 1e3:,.3f}"


def kilocycles(cycles: float | None) -> str:
    """Thousands of cycles, in the same way."""
    return MISSING if cycles is None else _three_digits(cycles / 1e3)


def giga(ops_per_s: float | None) -> str:
    """Operations per second in GOP/s."""
    if ops_per_s is None:
        return MISSING
    value = ops_per_s / 1e9
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def tera(ops_per_s: float | None) -> str:
    """Operations per second in TOPS."""
    return MISSING if ops_per_s is None else _three_digits(ops_per_s / 1e12)


def percent(share: float | None) -> str:
    if share is None:
        return MISSING
    return f"{share * 100:.0f}%" if share >= 0.1 else f"{share * 100:.1f}%"


def factor(ratio: float | None) -> str:
    return MISSING if ratio is None else f"{ratio:.2f}"


def interval(speedup: Speedup | None) -> str:
    """An estimate with its interval, such as `1.62 [1.58, 1.66]`."""
    if speedup is None:
        return MISSING
    return f"{factor(speedup.estimate)} [{factor(speedup.low)}, {factor(speedup.high)}]"


def seconds(time_s: float | None) -> str:
    """A duration, such as `42 s`, `3 min 12 s` or `2 h 05 min`."""
    if time_s is None:
        return MISSING
    if time_s < 10:
        return f"{time_s:.1f} s"
    whole = round(time_s)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def moment(stamp: str) -> str:
    """A time in ISO 8601, to the minute."""
    cut = stamp.replace("T", " ")
    return f"{cut[:16]} UTC" if cut.endswith("+00:00") else cut


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
