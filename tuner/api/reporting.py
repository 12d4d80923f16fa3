"""The report of a campaign, as a page or in other forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from int8tune.results.base import Store
from int8tune.results.comparison.compare import Comparison, compare_sides
from int8tune.results.comparison.of_store import side_of_store
from int8tune.results.comparison.reading import read_side
from int8tune.results.forms import REPORT_FORMS, Form
from int8tune.results.redaction import without_password
from int8tune.results.report.campaign_markdown import render_summary_markdown
from int8tune.results.report.comparison import comparison_as_dict, render_comparison_markdown
from int8tune.results.report.layer_table import report_rows
from int8tune.results.report.tables import Row, csv_text
from int8tune.results.report.text import as_dict
from int8tune.results.summary import CampaignSummary
from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.documents import Document, json_text, require_form
from int8tune.tuner.api.index import ReportIndex, write_index
from int8tune.tuner.errors import SpecError
from int8tune.tuner.publish import analysis_of, choose_campaign, open_records, summary_of


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
    results: str | Path | Sequence[str | Path] = DEFAULT_RESULTS,
    campaign: str | None = None,
    against: str | Path | None = None,
    across_devices: bool = False,
) -> Report | ReportIndex:
    """Write the report of a campaign; or of all campaigns, with an index and how they came about.

    Args:
        page: the file to write; its extension is the form: `.html`, `.md`, `.csv`, `.json` or `.parquet`. A folder, or
            a text that ends in `/`, gets an index of all campaigns, and a page of each.
        results: the folder of the records, or their URL; for an index also several.
        campaign: the only one if None.
        against: earlier results, as `compare` takes them: what changed since them is a part of the report.
        across_devices: compare with those of other devices, targets, numbers of threads and modes of caches, too.

    Raises:
        StoreError, UnknownCampaignError: the records can't be read, or it is not clear which campaign.
        ComparisonError, BestLogError: the earlier results can't be read, or can't be compared with.
        SpecError: an index is of one campaign, or a report of several folders.
        UnknownFormError: the extension is of no such form.
        ExportError: the file can't be written.
    """
    places = [results] if isinstance(results, str | Path) else list(results)
    if str(page).endswith("/") or Path(page).is_dir():
        if (campaign, against) != (None, None):
            raise SpecError("an index is of all campaigns: leave campaign and against out")
        return write_index(Path(page), places)
    if len(places) != 1:
        raise SpecError("a report is of one results folder; an index may be of several: OUT/")
    path, where = Path(page), places[0]
    require_form(path, REPORT_FORMS)
    with open_records(where) as store:
        chosen = choose_campaign(store, campaign)
        since = None if against is None else _since(store, where, chosen, str(against), across_devices=across_devices)
        summary = summary_of(store, chosen)
        _document(store, summary, since).write(path)
    return Report(chosen, summary, path, since)


def _since(store: Store, where: str | Path, campaign: str, against: str, *, across_devices: bool) -> Comparison:
    """What changed from earlier results to a campaign."""
    now = side_of_store(store, without_password(str(where)), campaign)
    return compare_sides(read_side(against), now, across_devices=across_devices)


def _document(store: Store, summary: CampaignSummary, since: Comparison | None) -> Document:
    """What can be written of a campaign."""

    def rows() -> list[Row]:
        return report_rows(analysis_of(store, summary.campaign.name), since)

    return Document(
        {
            Form.HTML: lambda: _page(store, summary, since),
            Form.MARKDOWN: lambda: _markdown(summary, since),
            Form.JSON: lambda: json_text(_values(summary, since)),
            Form.CSV: lambda: csv_text(rows()),
        },
        rows,
    )


def _page(store: Store, summary: CampaignSummary, since: Comparison | None) -> str:
    from int8tune.results.report.html import render_html  # takes long to import, and few commands write a page

    return render_html(analysis_of(store, summary.campaign.name), since)


def _markdown(summary: CampaignSummary, since: Comparison | None) -> str:
    parts = [render_summary_markdown(summary), *([render_comparison_markdown(since)] if since else [])]
    return "\n".join(reversed(parts))


def _values(summary: CampaignSummary, since: Comparison | None) -> Mapping[str, Any]:
    return as_dict(summary) | {"against": comparison_as_dict(since) if since else None}
