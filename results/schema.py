"""The tables of a results file, schema version 7.

Old files stay readable: a change here is a new schema version, and `tests/data` keeps a sample of each. A table says
since which version there is one; a file of an older version gets it when it is opened for writing. Since version 3 a
campaign's layers may have names; since version 4 a trial that is `ok` may have an estimate and no times; since version
5 the runs of campaigns are kept; since version 6 how boards were; since version 7 there is an index by which a task's
first trial is found.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    MetaData,
    Table,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

from int8tune.results.column_types import INTEGER, TEXT
from int8tune.results.record import Outcome

SCHEMA_VERSION = 7
# Where a table or an index has the version that brought it.
SINCE = "since"
# "i8tn" in ASCII; SQLite keeps it in the header, where file(1) and other programs can see whose file it is.
APPLICATION_ID = 0x6938746E

metadata = MetaData()


def _column(name: str, kind: type[TypeEngine[Any]] | TypeEngine[Any]) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _owned_by(table: str) -> Column[int]:
    return Column(f"{table}_id", INTEGER, ForeignKey(f"{table}s.id"), nullable=False)


def _checksum() -> Column[int]:
    # CRC-32 of the row's other values: SQLite itself does not see a flipped bit inside a value.
    return Column("checksum", INTEGER, nullable=False)


environments = Table(
    "environments",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("digest", TEXT, nullable=False, unique=True),
    _column("content", TEXT),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("name", TEXT, nullable=False, unique=True),
    _column("network", TEXT),
    _column("device", TEXT),
    _column("target", TEXT),
    _column("strategy", TEXT),
    # Decimal text, as a seed may have more than 64 bits.
    _column("seed", TEXT),
    _column("trials_per_task", INTEGER),
    _column("layers", TEXT),
    _column("created_at", TEXT),
    _checksum(),
)

_outcomes = ", ".join(f"'{outcome.value}'" for outcome in Outcome if outcome is not Outcome.DEVICE_LOST)

trials = Table(
    "trials",
    metadata,
    Column("id", INTEGER, primary_key=True),
    _owned_by("campaign"),
    _column("sequence", INTEGER),
    _column("candidate_id", TEXT),
    _column("workload", TEXT),
    _column("target", TEXT),
    _column("template", TEXT),
    _column("template_version", INTEGER),
    _column("config", TEXT),
    _column("outcome", TEXT),
    Column("times_s", TEXT),
    Column("calls_per_repeat", INTEGER),
    Column("observed", TEXT),
    _column("device", TEXT),
    _owned_by("environment"),
    _column("started_at", TEXT),
    _column("build_s", Float),
    _column("run_s", Float),
    _column("binary", TEXT),
    _column("reused_from", TEXT),
    _column("error_class", TEXT),
    _column("error", TEXT),
    _column("attempts", INTEGER),
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
    # All that says which trials are read: a task's first one, and a campaign's share of what others learn from.
    Index(
        "trials_by_campaign",
        "campaign_id",
        "workload",
        "target",
        "device",
        "sequence",
        "started_at",
        "environment_id",
        info={SINCE: 7},
    ),
)

duels = Table(
    "duels",
    metadata,
    Column("id", INTEGER, primary_key=True),
    _owned_by("campaign"),
    _column("workload", TEXT),
    _column("target", TEXT),
    _column("device", TEXT),
    _column("a", TEXT),
    _column("b", TEXT),
    _column("a_times_s", TEXT),
    _column("b_times_s", TEXT),
    _owned_by("environment"),
    _column("started_at", TEXT),
    _checksum(),
    Index("duels_by_campaign", "campaign_id"),
)

device_checks = Table(
    "device_checks",
    metadata,
    Column("id", INTEGER, primary_key=True),
    _column("device", TEXT),
    _column("target", TEXT),
    _column("peak_ops_per_s", Float),
    _column("bandwidth_bytes_per_s", TEXT),
    _column("noise", Float),
    _owned_by("environment"),
    _column("started_at", TEXT),
    _checksum(),
    CheckConstraint("peak_ops_per_s > 0", name="peak_over_0"),
)

bench_results = Table(
    "bench_results",
    metadata,
    Column("id", INTEGER, primary_key=True),
    _column("bench", TEXT),
    _column("workload", TEXT),
    _column("target", TEXT),
    _column("template", TEXT),
    _column("template_version", INTEGER),
    _column("config", TEXT),
    _column("is_tuned", INTEGER),
    _column("device", TEXT),
    _column("threads", INTEGER),
    _column("ours", TEXT),
    _column("peers", TEXT),
    _column("peak_ops_per_s", TEXT),
    _owned_by("environment"),
    _column("started_at", TEXT),
    _checksum(),
    CheckConstraint("threads >= 1", name="threads_at_least_1"),
    info={SINCE: 2},
)

campaign_runs = Table(
    "campaign_runs",
    metadata,
    Column("id", INTEGER, primary_key=True),
    _owned_by("campaign"),
    _column("run", TEXT),
    _column("host", TEXT),
    _column("user_name", TEXT),
    _column("command", TEXT),
    _column("version", TEXT),
    _column("commit_id", TEXT),
    _column("cpu", TEXT),
    _column("started_at", TEXT),
    _column("ended_at", TEXT),
    _column("ending", TEXT),
    _checksum(),
    Index("runs_by_campaign", "campaign_id"),
    info={SINCE: 5},
)

board_events = Table(
    "board_events",
    metadata,
    Column("id", INTEGER, primary_key=True),
    _owned_by("campaign"),
    _column("board", TEXT),
    _column("kind", TEXT),
    _column("canary_s", Float),
    _column("cause", TEXT),
    _column("happened_at", TEXT),
    _checksum(),
    CheckConstraint("canary_s >= 0", name="canary_at_least_0"),
    Index("board_events_by_campaign", "campaign_id"),
    info={SINCE: 6},
)


def create_missing(connection: Connection) -> None:
    """Make the tables and indices that a database does not have, within a transaction."""
    metadata.create_all(connection)
    for table in metadata.tables.values():
        for index in table.indexes:
            if SINCE in index.info:
                index.create(connection, checkfirst=True)
