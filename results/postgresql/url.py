"""URLs of PostgreSQL: where a database is, said without its password."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from int8tune.results.errors import StoreError
from int8tune.results.redaction import without_password
from int8tune.results.text import printable

_EXAMPLE = "postgresql://USER@HOST/DATABASE"


def connection_options(url: str) -> dict[str, Any]:
    """What libpq is to connect with; what the URL leaves out comes from libpq's environment.

    Raises:
        StoreError: it is no URL of PostgreSQL.
    """
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        options = dict(conninfo_to_dict(url))
    except (Error, UnicodeError):
        options = {"port": "?"}
    ports = str(options.get("port", "")).split(",")
    # What libpq says of a wrong one may have a part of the password in it.
    if not all(re.fullmatch(r"[0-9]{0,5}", port) for port in ports):
        raise StoreError(f"not a URL of PostgreSQL, such as {_EXAMPLE}: {printable(without_password(url))[:200]}")
    return options


def shown(options: dict[str, Any]) -> str:
    """The database in messages, such as `postgresql://ada@db.example/tuning`."""
    user = f"{options['user']}@" if options.get("user") else ""
    hosts = _hosts(str(options.get("host") or options.get("hostaddr") or ""), str(options.get("port") or ""))
    return printable(f"postgresql://{user}{','.join(hosts)}/{options.get('dbname') or ''}")


def _hosts(hosts: str, ports: str) -> Iterable[str]:
    numbers = ports.split(",")
    for place, host in enumerate(hosts.split(",")):
        number = numbers[place] if place < len(numbers) else numbers[-1]
        yield f"{host}:{number}" if number else host
