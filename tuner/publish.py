"""What people and compilers get from a campaign's records: the summary, the report page and the best log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from math import prod
from pathlib import Path

from int8tune.results.analysis.campaign import CampaignAnalysis, analyze
from int8tune.results.analysis.roofline import LayerSize
from int8tune.results.base import Store
from int8tune.results.best import best_schedules
from int8tune.results.best_log import write_best_log
from int8tune.results.own_files import require_own
from int8tune.results.record import Campaign, Trial
from int8tune.results.stores import open_store
from int8tune.results.summary import CampaignSummary, summarize
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.workload import Workload, parse_workload
from int8tune.tuner.errors import UnknownCampaignError


@dataclass(frozen=True, slots=True)
class Publication:
    """A campaign's summary, and the files that were written."""

    summary: CampaignSummary
    page: Path
    best_log: Path


def open_records(where: str | Path) -> closing[Store]:
    """The records in a results folder, or where a URL says, for reading.

    Raises:
        StoreError: they are not there, or can't be read.
    """
    return closing(open_store(where, readonly=True))


def publish(results: Path, campaign: str, records: str | None = None) -> Publication:
    """Write `<campaign>.html` and `<campaign>.best.jsonl` into the results folder, from what is recorded so far.

    Args:
        records: a URL, where the records are not in the folder.

    Raises:
        StoreError: no such campaign, or the records can't be read.
        ExportError: a file can't be written.
        NotOwnFileError: a link, or what is no file, is in the place of one.
    """
    page, best_log = results / f"{campaign}.html", results / f"{campaign}.best.jsonl"
    for path in (page, best_log):
        require_own(path)
    with open_records(records or results) as store:
        summary = write_page(store, campaign, page)
        write_best_log(best_log, best_schedules(store, campaign=campaign))
    return Publication(summary, page, best_log)


def write_page(
    store: Store, campaign: str, page: Path, watch: Callable[[Trial], None] = lambda _: None
) -> CampaignSummary:
    """Write a campaign's report page.

    Args:
        watch: is told each trial of the campaign as it goes by.

    Raises:
        StoreError: no such campaign, or the records can't be read.
        ExportError: the file can't be written.
    """
    from int8tune.results.report.html import write_html  # takes long to import, and few commands write a page

    found = analysis_of(store, campaign, watch)
    write_html(page, found)
    return found.summary


def analysis_of(store: Store, campaign: str, watch: Callable[[Trial], None] = lambda _: None) -> CampaignAnalysis:
    """All that a report of a campaign says.

    Args:
        watch: is told each trial of the campaign as it goes by.

    Raises:
        StoreError: no such campaign, or the records can't be read.
    """
    layers = next((stored.layers for stored in store.query(Campaign, campaign=campaign)), {})
    return analyze(store, campaign, layer_sizes(layers), watch=watch)


def choose_campaign(store: Store, name: str | None) -> str:
    """The named campaign, or the only one.

    Raises:
        UnknownCampaignError: it is not there, or none was named and there are several; the message lists them.
    """
    names = [campaign.name for campaign in store.query(Campaign)]
    if name is None and len(names) == 1:
        return names[0]
    if name in names:
        return name
    known = ", ".join(names) or "none"
    if name is None:
        raise UnknownCampaignError(f"choose a campaign with --campaign, the records have: {known}")
    raise UnknownCampaignError(f"no such campaign, the records have {known}: {name}")


def layer_sizes(workloads: Iterable[str]) -> dict[str, LayerSize]:
    """What layers compute and move; without those that another version wrote and this one can't read."""
    sizes = {}
    for key in workloads:
        try:
            sizes[key] = _size(parse_workload(key))
        except WorkloadError:
            continue
    return sizes


def macs_of(workloads: Iterable[str]) -> dict[str, int]:
    """Multiply-adds of one call by workload, of those that this version can read."""
    return {key: size.macs for key, size in layer_sizes(workloads).items()}


def _size(workload: Workload) -> LayerSize:
    output = prod(workload.output_shape)
    residual = output if workload.numerics.residual else 0
    written = 4 * output if workload.numerics.output == "s32" else output
    return LayerSize(workload.macs, prod(workload.data_shape) + residual + written, prod(workload.weight_shape))


def summary_of(store: Store, campaign: str) -> CampaignSummary:
    """What a campaign found so far.

    Raises:
        StoreError: no such campaign, or the records can't be read.
    """
    layers = next((stored.layers for stored in store.query(Campaign, campaign=campaign)), {})
    return summarize(store, campaign, macs_of(layers))
