"""Which rows of trials a database is asked for, so that it reads no others; the same in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select, tuple_

from int8tune.results.base import Before, Tally
from int8tune.results.codec import codec_of
from int8tune.results.columns import texts_of
from int8tune.results.errors import DamagedRowError
from int8tune.results.record import Outcome, Trial
from int8tune.results.rows import statement_of
from int8tune.results.schema import campaigns, environments, trials
from int8tune.results.selection import stride
from int8tune.results.text import one_line

_OUTCOMES = tuple(Outcome)
_TASK = (trials.c.campaign_id, trials.c.workload, trials.c.target, trials.c.device)
_PLACE = (trials.c.campaign_id, trials.c.sequence)


def first_trials(filters: Mapping[str, str]) -> Select[Any]:
    """Each task's first trial."""
    codec = codec_of(Trial)
    if "campaign" in filters:
        return statement_of(codec, filters, trials.c.id.in_(_firsts_of(filters["campaign"])))
    firsts = select(trials.c.campaign_id, func.min(trials.c.sequence)).group_by(*_TASK)
    firsts = firsts.where(*(codec.columns[name] == value for name, value in filters.items()))
    return statement_of(codec, {}, tuple_(*_PLACE).in_(firsts))


def _firsts_of(campaign: str) -> Select[Any]:
    """Rows of a campaign's first trials, each found from the one before: an index has a task's trials side by side.

    To group all of them takes longer the more there are.
    """
    ordered = (trials.c.workload, trials.c.target, trials.c.device, trials.c.sequence)
    start = select(trials.c.id).where(_is_of(campaign)).order_by(*ordered).limit(1)
    found = select(start.scalar_subquery().label("id")).cte("firsts", recursive=True)
    last, following = trials.alias("last"), trials.alias("following")
    behind = tuple_(following.c.workload, following.c.target, following.c.device) > tuple_(
        last.c.workload, last.c.target, last.c.device
    )
    step = (
        select(following.c.id)
        .where(following.c.campaign_id == last.c.campaign_id, behind)
        .order_by(*(following.c[column.name] for column in ordered))
        .limit(1)
        .correlate(last)
    )
    found = found.union_all(select(step.scalar_subquery()).select_from(found.join(last, last.c.id == found.c.id)))
    return select(found.c.id).where(found.c.id.is_not(None))


def trials_of(campaign: str, candidates: Collection[str]) -> Select[Any]:
    """A campaign's trials of some candidates, as many as a statement may have values."""
    return statement_of(codec_of(Trial), {}, _is_of(campaign), trials.c.candidate_id.in_(sorted(candidates)))


def spread_trials(connection: Connection, before: Before, most: int) -> Select[Any]:
    """Every n-th trial of each task, as `SelectiveStore.spread_trials` says it; counts them to find n.

    Raises:
        ValueError: an environment is damaged.
    """
    wanted = _wanted(connection, before)
    count: int = connection.execute(counted(connection, before)).scalar_one()
    if count <= most:
        return statement_of(codec_of(Trial), {}, *wanted)
    place = func.row_number().over(partition_by=_TASK, order_by=trials.c.sequence) - 1
    placed = select(*_PLACE, place.label("place")).where(*wanted).subquery()
    kept = select(placed.c.campaign_id, placed.c.sequence).where(placed.c.place % stride(count, most) == 0)
    return statement_of(codec_of(Trial), {}, tuple_(*_PLACE).in_(kept))


def counted(connection: Connection, before: Before) -> Select[int]:
    """How many trials of other campaigns there are to learn from."""
    return select(func.count()).select_from(trials).where(*_wanted(connection, before))


def _wanted(connection: Connection, before: Before) -> list[ColumnElement[bool]]:
    rows = connection.execute(select(environments.c.id, environments.c.content))
    alike = [number for number, content in rows if before.is_alike(texts_of(content))]
    # PostgreSQL would compare moments as words of a language, and leave out their signs.
    is_postgres = connection.dialect.name == "postgresql"
    moment: ColumnElement[str] = trials.c.started_at.collate("C") if is_postgres else trials.c.started_at
    return [
        trials.c.campaign_id.not_in(select(campaigns.c.id).where(campaigns.c.name == before.campaign)),
        trials.c.target == before.target,
        trials.c.device == before.device,
        moment < before.moment,
        trials.c.environment_id.in_(alike),
    ]


def trials_after(campaign: str, row: int) -> Select[Any]:
    """A campaign's trials behind a row."""
    return statement_of(codec_of(Trial), {}, _is_of(campaign), trials.c.id > row)


def tally(campaign: str) -> Select[Any]:
    """How many trials of a campaign ended in each way, by workload, and the latest moment of each."""
    counts = select(trials.c.workload, trials.c.outcome, func.count(), func.max(trials.c.started_at))
    return counts.where(_is_of(campaign)).group_by(trials.c.workload, trials.c.outcome)


def tally_of(rows: Iterable[Sequence[Any]], store: str) -> Tally:
    """What these rows say; they have no checksum.

    Raises:
        DamagedRowError: a value that no trial has.
    """
    outcomes: dict[str, dict[Outcome, int]] = {}
    last_at = ""
    for workload, outcome, count, moment in rows:
        if not (isinstance(workload, str) and isinstance(moment, str) and outcome in _OUTCOMES):
            what = one_line(f"a row of trials with the outcome {outcome!r:.40}")
            raise DamagedRowError(f"the results file is damaged ({what}): {store}")
        outcomes.setdefault(workload, {})[Outcome(outcome)] = int(count)
        last_at = max(last_at, moment)
    return Tally(outcomes, last_at)


def _is_of(campaign: str) -> ColumnElement[bool]:
    return trials.c.campaign_id == select(campaigns.c.id).where(campaigns.c.name == campaign).scalar_subquery()
