"""Tables that a database has beside those of every store: whose campaigns are being written, and what is there."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, Integer, MetaData, Table, Text, Uuid

SCHEMA = "int8tune"
"""All tables are in this schema of the database, so that nobody else's have their names."""

own = MetaData()

# One row: which database this is, wherever it moves, and the version of its tables.
about = Table(
    "about",
    own,
    Column("database", Uuid, primary_key=True),
    Column("schema_version", Integer, nullable=False),
)

# Every store that was opened for writing. What was to be added before has a lower number, or that of `last`: whether a
# commit whose answer was lost took place can be seen, and nothing is added twice.
writers = Table(
    "writers",
    own,
    Column("writer", Uuid, primary_key=True),
    Column("host", Text, nullable=False),
    Column("process", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("since", Text, nullable=False),
    Column("last", BigInteger, nullable=False),
)

# Who may add to a campaign, until when by the server's clock. The fence rises with each holder.
leases = Table(
    "leases",
    own,
    Column("campaign", Text, primary_key=True),
    Column("writer", Uuid, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("ends_at", DateTime(timezone=True), nullable=False),
)
