"""A fixture for pytest that pins the speed of layers and models; nothing else is imported before a test uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from int8tune.results.stats import Speedup
    from int8tune.tuner.pinned import Pin, Pinned

Pins = Callable[..., "Speedup | None"]
"""What the fixture gives: `(what, *, best_log, baseline, min_ratio, target, threads)`."""


@pytest.fixture
def int8tune_benchmark(request: pytest.FixtureRequest) -> Pins:
    """A function that times a layer or a model by a best log, in turn with its default or with another best log.

        def test_stem_stays_fast(int8tune_benchmark):
            int8tune_benchmark("conv2d-u8s8-1x8x8x64-k1x1x32-s1-p0-float.c-u8", best_log="best.jsonl", min_ratio=1.2)

    The test fails where it is less than `min_ratio` times as fast beyond doubt: where the upper end of the 95 %
    interval is below. It returns the ratio, or None where benchmarks are disabled: then it only sees that the best log
    has what would be timed. The times are kept with those of pytest-benchmark, where that is installed.
    """

    def pin(
        what: str | Path,
        *,
        best_log: str | Path,
        baseline: str | Path | None = None,
        min_ratio: float | None = None,
        target: str | None = None,
        threads: int = 1,
    ) -> Speedup | None:
        __tracebackhide__ = True
        if request.config.getoption("benchmark_skip", default=False):
            pytest.skip("benchmarks are skipped (--benchmark-skip)")
        from int8tune.tuner.pinned import Pin

        asked = Pin(str(what), Path(best_log), None if baseline is None else Path(baseline), target, threads)
        found = _timed(asked, is_disabled=_is_disabled(request.config))
        if found is None:
            return None
        _keep(request, asked, found)
        if min_ratio is not None and found.ratio.high < min_ratio:
            pytest.fail(_too_slow(asked, found, min_ratio), pytrace=False)
        return found.ratio

    return pin


def _is_disabled(config: pytest.Config) -> bool:
    """As pytest-benchmark has it: by `--benchmark-disable` or several workers, and not by `--benchmark-enable`."""
    session = getattr(config, "_benchmarksession", None)
    return bool(getattr(session, "disabled", config.getoption("benchmark_disable", default=False)))


def _timed(pin: Pin, *, is_disabled: bool) -> Pinned | None:
    """What came of it; what can't be timed fails the test in one line."""
    __tracebackhide__ = True
    from int8tune.tuner.cli.failures import in_one_line

    try:
        from int8tune.tuner.installed import require_tuning
        from int8tune.tuner.pinned import require_pin, time_pin

        require_tuning()
        if is_disabled:
            require_pin(pin)
            return None
        return time_pin(pin)
    except Exception as error:
        said = in_one_line(error)
        if said is None:
            raise
    pytest.fail(said, pytrace=False)


def _too_slow(pin: Pin, found: Pinned, min_ratio: float) -> str:
    from int8tune.results.report.format import interval

    return f"{pin.label} is {interval(found.ratio)} times as fast as {pin.other}, at least {min_ratio:g} is wanted"


@dataclass
class _OfTest:
    """What pytest-benchmark asks a benchmark's test for."""

    name: str
    fullname: str
    group: str | None
    extra_info: dict[str, Any]
    param: str | None = None
    params: dict[str, Any] | None = None
    has_error: bool = False
    cprofile_stats: Any = None
    options: dict[str, Any] = field(default_factory=dict)


def _keep(request: pytest.FixtureRequest, pin: Pin, found: Pinned) -> None:
    """Add the times to those of pytest-benchmark: its table, its JSON and its storage."""
    session = getattr(request.config, "_benchmarksession", None)
    if session is None:
        return
    from pytest_benchmark.stats import Metadata

    node, metadata = request.node, cast("Any", Metadata)
    for suffix, times_s in (("", found.times_s), (" (compared with)", found.other_times_s)):
        about = {"what": pin.what, "ratio": found.ratio.estimate, "best_log": str(pin.best_log)}
        of_test = _OfTest(f"{node.name}{suffix}", f"{node.nodeid}{suffix}", pin.label, about)
        kept: Any = metadata(of_test, 1, {"timer": "int8tune", "disable_gc": False, "warmup": True})
        for time_s in times_s:
            kept.update(time_s)
        session.benchmarks.append(kept)
