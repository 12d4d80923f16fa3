"""The report of a campaign, as a page or in other forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from int8tune.results.base import Store
from int8tune.results.comparison.compare import Comparison, compare_sides
from int8tune.results.comparison.of_store import side_of_store
from int8tune.results.comparison.reading import read_side
from int8tune.results.forms import Form
from int8tune.results.report.campaign_markdown import render_summary_markdown
from int8tune.results.report.comparison import comparison_as_dict, comparison_rows, render_comparison_markdown
from int8tune.results.report.text import as_dict
from int8tune.results.summary import CampaignSummary
from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.documents import Document, require_form, versioned
from int8tune.tuner.api.frames import Row
from int8tune.tuner.api.summaries import layer_rows
from int8tune.tuner.publish import choose_campaign, open_records, summary_of, write_page

VERSION = 1
"""Of the JSON form."""


@dataclass(frozen=True, slots=True)
class Report:
    """A campaign's report, as it was written.

    Attributes:
        page: the file.
        against: what changed since earlier results; None where there are none.
    """

    campaign: str
    summary: CampaignSummary
    page: Path
    against: Comparison | None = None


def report(
    page: str | Path,
    *,
    results: str | Path = DEFAULT_RESULTS,
    campaign: str | None = None,
    against: str | Path | None = None,
    across_devices: bool = False,
) -> Report:
    """Write the report of a campaign.

    Args:
        page: the file to write; its extension is the form: `.html`, `.md`, `.csv`, `.json` or `.parquet`.
        results: the folder of the records.
        campaign: the only one if None.
        against: earlier results, as `compare` takes them: what changed since them is a part of the report.
        across_devices: compare with those of other devices, targets, numbers of threads and modes of caches, too.

    Raises:
        StoreError, UnknownCampaignError: the records can't be read, or it is not clear which campaign.
        ComparisonError, BestLogError: the earlier results can't be read, or can't be compared with.
        UnknownFormError: the extension is of no such form.
        ExportError: the file can't be written.
    """
    path = Path(page)
    form = require_form(path, [form for form in Form if against is None or form is not Form.HTML])
    with open_records(Path(results)) as store:
        chosen = choose_campaign(store, campaign)
        since = None if against is None else _since(store, results, chosen, str(against), across_devices=across_devices)
        if form is Form.HTML:
            summary = write_page(store, chosen, path)
        else:
            summary = summary_of(store, chosen)
            _document(summary, since).write(path)
    return Report(chosen, summary, path, since)


def _since(store: Store, where: str | Path, campaign: str, against: str, *, across_devices: bool) -> Comparison:
    """What changed from earlier results to a campaign."""
    return compare_sides(read_side(against), side_of_store(store, str(where), campaign), across_devices=across_devices)


def _document(summary: CampaignSummary, since: Comparison | None) -> Document:
    """What can be written of a campaign beside its page."""
    return Document(
        {
            Form.MARKDOWN: lambda: _markdown(summary, since),
            Form.JSON: lambda: versioned("report", VERSION, _values(summary, since)),
        },
        lambda: _rows(summary, since),
    )


def _markdown(summary: CampaignSummary, since: Comparison | None) -> str:
    parts = [render_summary_markdown(summary), *([render_comparison_markdown(since)] if since else [])]
    return "\n".join(reversed(parts))


def _values(summary: CampaignSummary, since: Comparison | None) -> Mapping[str, Any]:
    return as_dict(summary) | {"against": comparison_as_dict(since) if since else None}


def _rows(summary: CampaignSummary, since: Comparison | None) -> list[Row]:
    """A row for each layer, with what it was before."""
    changes = {row["workload"]: row for row in comparison_rows(since)} if since else {}
    names = ("change", "a", "ratio", "ratio_low", "ratio_high", "a.candidate_id")
    return [
        row | {f"against.{name.removeprefix('a.')}": changes.get(row["workload"], {}).get(name) for name in names}
        if since
        else row
        for row in layer_rows(summary)
    ]
