"""What the records say: the best schedules, and suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.compiler.best_log import schedule_faults
from int8tune.results.best import BestSchedule, best_schedules
from int8tune.results.best_log import read_best_log
from int8tune.results.label import layer_label
from int8tune.results.record import CacheMode, Campaign
from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.api.summaries import schedule_row
from int8tune.tuner.bench.layers import choose_layers
from int8tune.tuner.errors import SpecError
from int8tune.tuner.local_target import DEVICE_NAME, target_to_look_at
from int8tune.tuner.publish import choose_campaign, open_records
from int8tune.tuner.suggest import Suggestion
from int8tune.tuner.suggest import suggest as suggest_from

if TYPE_CHECKING:
    import pandas


class BestSchedules(tuple[BestSchedule, ...]):
    """The best schedule of each layer, device and target."""

    __slots__ = ()

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each schedule."""
        return frame_of([schedule_row(best) for best in self])

    def __repr__(self) -> str:
        tuned = sum(not best.is_default for best in self)
        return f"<{listed(len(self), 'best schedule')}, {tuned:,} of them faster than the default>"


class Suggestions(tuple[Suggestion, ...]):
    """A schedule for each layer that was asked for."""

    __slots__ = ()

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each layer."""
        return frame_of(
            [
                {
                    "workload": each.candidate.workload,
                    "label": layer_label(each.candidate.workload),
                    "target": each.candidate.target,
                    "source": each.source.value,
                    "layers": each.layers,
                    "candidate_id": each.candidate.id,
                    "template": each.candidate.template,
                    "version": each.candidate.template_version,
                    "config": dict(each.candidate.config),
                }
                for each in self
            ]
        )

    def __repr__(self) -> str:
        return f"<{listed(len(self), 'suggestion')}>"


def best(
    results: str | Path = DEFAULT_RESULTS,
    *,
    campaign: str | None = None,
    log: str | Path | None = None,
    cache: CacheMode | str | None = None,
) -> BestSchedules:
    """The best schedule of each layer: the default, unless another one is faster beyond doubt.

    Args:
        results: the folder of the records, or their URL.
        campaign: one of them; all if None.
        log: a best log that is read and checked, in place of the records.
        cache: records that were timed with `network`, `warm` or `cold` caches; those of the campaign, or all but cold
            ones, if None.

    Raises:
        SpecError: a log says nothing of campaigns and caches.
        StoreError, UnknownCampaignError: the records can't be read, or have no such campaign.
        BestLogError: the log has faults.
    """
    if log is not None:
        if (campaign, cache) != (None, None):
            raise SpecError("log reads a file, campaign and cache are about the records: give one of them")
        return BestSchedules(read_best_log(Path(log), schedule_faults))
    if cache not in (None, *CacheMode):
        raise SpecError(f"unknown cache mode `{cache}`, known: {', '.join(CacheMode)}")
    with open_records(results) as store:
        chosen = None if campaign is None else choose_campaign(store, campaign)
        mode = None if cache is None else CacheMode(cache)
        places = {
            workload: place
            for found in store.query(Campaign, campaign=chosen)
            for place, workload in enumerate(found.layers)
        }
        found_best = best_schedules(store, campaign=chosen, cache=mode)
        return BestSchedules(
            sorted(found_best, key=lambda each: (each.device, each.target, places.get(each.workload, len(places))))
        )


def suggest(
    names: str | Sequence[str], *, results: str | Path = DEFAULT_RESULTS, target: str | None = None
) -> Suggestions:
    """A schedule for each layer, tuned or not.

    That is the best recorded one; for a layer that nobody tuned, what trials of other layers on this device say, if it
    is expected to beat the template's default by enough.

    Args:
        names: networks, models, layer tables and workload keys.
        results: the folder of the records, or their URL.
        target: a profile; the best of this CPU if None.

    Raises:
        StoreError: the records can't be read.
        WorkloadError: no template takes a layer.
    """
    chosen = target_to_look_at(target)
    asked = [names] if isinstance(names, str) else list(names)
    with open_records(results) as store:
        return Suggestions(suggest_from(store, layer, chosen, DEVICE_NAME) for layer in choose_layers(asked, None))
