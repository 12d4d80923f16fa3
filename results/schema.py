"""The tables of a results file, schema version 5.

Old files stay readable: a change here is a new schema version, and `tests/data` keeps a sample of each. A table says
since which version there is one; a file of an older version gets it when it is opened for writing. Since version 3 a
campaign's layers may have names; since version 4 a trial that is `ok` may have an estimate and no times; since version
5 the runs of campaigns are kept.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

from int8tune.results.record import Outcome

SCHEMA_VERSION = 5
# Where a table has this version.
SINCE = "since"
# "i8tn" in ASCII; SQLite keeps it in the header, where file(1) and other programs can see whose file it is.
APPLICATION_ID = 0x6938746E

metadata = MetaData()


def _column(name: str, kind: type[TypeEngine[Any]]) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _owned_by(table: str) -> Column[int]:
    return Column(f"{table}_id", Integer, ForeignKey(f"{table}s.id"), nullable=False)


def _checksum() -> Column[int]:
    # CRC-32 of the row's other values: SQLite itself does not see a flipped bit inside a value.
    return Column("checksum", Integer, nullable=False)


environments = Table(
    "environments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    _column("content", Text),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    _column("network", Text),
    _column("device", Text),
    _column("target", Text),
    _column("strategy", Text),
    # Decimal text, as a seed may have more than 64 bits.
    _column("seed", Text),
    _column("trials_per_task", Integer),
    _column("layers", Text),
    _column("created_at", Text),
    _checksum(),
)

_outcomes = ", ".join(f"'{outcome.value}'" for outcome in Outcome if outcome is not Outcome.DEVICE_LOST)

trials = Table(
    "trials",
    metadata,
    Column("id", Integer, primary_key=True),
    _owned_by("campaign"),
    _column("sequence", Integer),
    _column("candidate_id", Text),
    _column("workload", Text),
    _column("target", Text),
    _column("template", Text),
    _column("template_version", Integer),
    _column("config", Text),
    _column("outcome", Text),
    Column("times_s", Text),
    Column("calls_per_repeat", Integer),
    Column("observed", Text),
    _column("device", Text),
    _owned_by("environment"),
    _column("started_at", Text),
    _column("build_s", Float),
    _column("run_s", Float),
    _column("binary", Text),
    _column("reused_from", Text),
    _column("error_class", Text),
    _column("error", Text),
    _column("attempts", Integer),
    _checksum(),
    UniqueConstraint("campaign_id", "candidate_id"),
    UniqueConstraint("campaign_id", "sequence"),
    CheckConstraint("sequence >= 0", name="sequence_at_least_0"),
    CheckConstraint(f"outcome IN ({_outcomes})", name="known_outcome"),
    CheckConstraint("(outcome = 'ok') = (times_s IS NOT NULL)", name="times_only_if_ok"),
    CheckConstraint(
        "(times_s IS NULL) = (calls_per_repeat IS NULL) AND (times_s IS NULL) = (observed IS NULL)",
        name="measurement_whole",
    ),
    CheckConstraint("build_s >= 0 AND run_s >= 0", name="durations_at_least_0"),
    Index("trials_by_task", "workload", "target", "device"),
)

duels = Table(
    "duels",
    metadata,
    Column("id", Integer, primary_key=True),
    _owned_by("campaign"),
    _column("workload", Text),
    _column("target", Text),
    _column("device", Text),
    _column("a", Text),
    _column("b", Text),
    _column("a_times_s", Text),
    _column("b_times_s", Text),
    _owned_by("environment"),
    _column("started_at", Text),
    _checksum(),
    Index("duels_by_campaign", "campaign_id"),
)

device_checks = Table(
    "device_checks",
    metadata,
    Column("id", Integer, primary_key=True),
    _column("device", Text),
    _column("target", Text),
    _column("peak_ops_per_s", Float),
    _column("bandwidth_bytes_per_s", Text),
    _column("noise", Float),
    _owned_by("environment"),
    _column("started_at", Text),
    _checksum(),
    CheckConstraint("peak_ops_per_s > 0", name="peak_over_0"),
)

bench_results = Table(
    "bench_results",
    metadata,
    Column("id", Integer, primary_key=True),
    _column("bench", Text),
    _column("workload", Text),
    _column("target", Text),
    _column("template", Text),
    _column("template_version", Integer),
    _column("config", Text),
    _column("is_tuned", Integer),
    _column("device", Text),
    _column("threads", Integer),
    _column("ours", Text),
    _column("peers", Text),
    _column("peak_ops_per_s", Text),
    _owned_by("environment"),
    _column("started_at", Text),
    _checksum(),
    CheckConstraint("threads >= 1", name="threads_at_least_1"),
    info={SINCE: 2},
)

campaign_runs = Table(
    "campaign_runs",
    metadata,
    Column("id", Integer, primary_key=True),
    _owned_by("campaign"),
    _column("run", Text),
    _column("host", Text),
    _column("user_name", Text),
    _column("command", Text),
    _column("version", Text),
    _column("commit_id", Text),
    _column("cpu", Text),
    _column("started_at", Text),
    _column("ended_at", Text),
    _column("ending", Text),
    _checksum(),
    Index("runs_by_campaign", "campaign_id"),
    info={SINCE: 5},
)
