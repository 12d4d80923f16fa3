"""Two sets of results beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.results.comparison.again import compare_again
from int8tune.results.comparison.compare import Comparison, compare_sides
from int8tune.results.comparison.reading import read_side
from int8tune.results.comparison.regression import read_condition, regressions
from int8tune.results.comparison.side import Side
from int8tune.results.errors import ComparisonError
from int8tune.results.forms import REPORT_FORMS, Form
from int8tune.results.pytest_benchmark import of_comparison, write_benchmarks
from int8tune.results.report.comparison import (
    comparison_as_dict,
    comparison_rows,
    render_comparison,
    render_comparison_markdown,
)
from int8tune.tuner.api.documents import Document, json_text, require_form
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.api.interrupts import Interrupts

if TYPE_CHECKING:
    import pandas

    from int8tune.tuner.bench.again import Retimed

FORMS = REPORT_FORMS


@dataclass(frozen=True, slots=True, repr=False)
class ResultComparison:
    """Two sets of results beside each other.

    Attributes:
        comparison: layer by layer, and the network.
        regressions: what met a condition, one line each.
        interrupted: whether timing was stopped before the last layer.
    """

    comparison: Comparison
    regressions: tuple[str, ...] = ()
    interrupted: bool = False

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each layer."""
        return frame_of(list(comparison_rows(self.comparison)))

    def write(self, out: str | Path) -> None:
        """Write it as the extension says: `.html`, `.md`, `.csv`, `.json` or `.parquet`.

        Raises:
            UnknownFormError: the extension is of another form.
            ExportError: the file can't be written.
        """
        document_of(self.comparison).write(Path(out))

    def write_benchmarks(self, out: str | Path) -> None:
        """Write the times as pytest-benchmark's JSON, a benchmark for each side of each layer.

        Raises:
            ExportError: no layer was timed, times are estimates, or the file can't be written.
        """
        cpu = self.comparison.b.conditions.cpu or self.comparison.a.conditions.cpu
        write_benchmarks(Path(out), of_comparison(self.comparison), cpu)

    def markdown(self) -> str:
        """A headline and tables, for a pull request."""
        return render_comparison_markdown(self.comparison)

    def __str__(self) -> str:
        """The table that the command line shows."""
        return render_comparison(self.comparison)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {change.value}" for change, count in self.comparison.counts().items())
        return f"<Comparison of {listed(len(self.comparison.layers), 'layer')}: {counts}>"


def compare(
    a: str | Path,
    b: str | Path,
    *,
    campaign: str | None = None,
    fail_if: str | Sequence[str] = (),
    again: bool = False,
    across_devices: bool = False,
    out: str | Path | None = None,
    listener: Callable[[str, Retimed], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> ResultComparison:
    """What changed from A to B: layers that are faster, slower, unchanged within the noise, or missing.

    A ratio is A's time over B's, over 1 where B is faster. What a machine was slower on one of the two days is taken
    off where it can be told, and intervals are as wide as sessions are apart.

    Args:
        a: results to compare with: a results folder, file or URL, with `::NAME` for a campaign or bench in it; a best
            log; what `int8tune bench --format json` printed; or a file of pytest-benchmark's.
        b: the newer results, in the same way.
        campaign: of records that name none themselves.
        fail_if: what counts as a regression: `slower:3%`, `network:3%`, `missing`; one text, or several.
        again: time the schedules of both in turn now, on this machine.
        across_devices: compare other devices, targets, numbers of threads and modes of caches, too.
        out: a file for it; its extension is one of `.html`, `.md`, `.csv`, `.json`, `.parquet`.
        listener: is told of each layer that was timed again.
        stop: asked between layers whether to end.

    Raises:
        ComparisonError: something is none of that, or nothing is on both sides, or a condition is unknown.
        DifferentConditionsError: they were taken under other conditions.
        StoreError, BestLogError: records or a best log can't be read.
        BenchSpecError: schedules can't be timed on this machine.
        ExportError: the file can't be written.
    """
    conditions = [read_condition(text) for text in ([fail_if] if isinstance(fail_if, str) else fail_if)]
    if out is not None:
        require_form(Path(out), FORMS)
    sides = sides_of(a, b, campaign)
    interrupted = False
    comparison = compare_sides(*sides, across_devices=across_devices or again)
    if again:
        with Interrupts(stop) as asked_to_stop:
            comparison = _timed_again(*sides, listener or (lambda *_: None), asked_to_stop)
            interrupted = asked_to_stop()
    found = tuple(line for condition in conditions for line in regressions(comparison, condition))
    if out is not None:
        document_of(comparison).write(Path(out))
    return ResultComparison(comparison, tuple(dict.fromkeys(found)), interrupted)


def sides_of(a: str | Path, b: str | Path, campaign: str | None) -> tuple[Side, Side]:
    """Both sides, as they were found.

    Raises:
        ComparisonError: they are one and the same.
    """
    first, second = (read_side(str(each), campaign) for each in (a, b))
    if replace(first, source="") == replace(second, source=""):
        raise ComparisonError(f"A and B are the same: {second.source}")
    return first, second


def document_of(comparison: Comparison) -> Document:
    """What can be written of a comparison."""
    content = comparison_as_dict(comparison)
    return Document(
        {
            Form.HTML: lambda: _page(comparison),
            Form.MARKDOWN: lambda: render_comparison_markdown(comparison),
            Form.JSON: lambda: json_text(content),
        },
        lambda: list(comparison_rows(comparison)),
    )


def _page(comparison: Comparison) -> str:
    from int8tune.results.report.comparison_page import render_comparison_page  # takes long to import

    return render_comparison_page(comparison)


def _timed_again(
    a: Side, b: Side, listen: Callable[[str, Retimed], None], stop_requested: Callable[[], bool]
) -> Comparison:
    from int8tune.tuner.bench.again import time_again
    from int8tune.tuner.installed import require_tuning

    require_tuning()
    found, cpu = time_again(a, b, listen, stop_requested)
    times_s = {key: each.sessions for key, each in found.items() if each.sessions}
    failed = {key: each.error for key, each in found.items() if each.error}
    failed |= {key: "it was stopped before" for key in a.layers if key in b.layers and key not in found}
    if not times_s:
        raise ComparisonError(f"no layer could be timed again; the first one: {next(iter(failed.values()))}")
    return compare_again(a, b, times_s, cpu, failed)
