"""The run of the program that is under way, kept beside the records of its campaign."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version

from int8tune.results.base import Store
from int8tune.results.errors import StoreError
from int8tune.results.provenance import command_line, source_commit, user_name
from int8tune.results.record import CampaignRun
from int8tune.rpc.local.capabilities import cpu_name

FAILED = "failed"
INTERRUPTED = "interrupted"


@contextmanager
def kept_run(store: Store, campaign: str) -> Iterator[Callable[[str], None]]:
    """Keep that a run of a campaign begins and, when the block is left, how it ended.

    Gives the function that is told the ending; without it the run was interrupted, or failed.

    Raises:
        StoreError: the beginning could not be kept. An end that can't be is left out: no campaign needs it.
    """
    run, ending = begun_run(campaign), [FAILED]
    store.append([run])
    try:
        yield lambda word: ending.append(word)
    except Exception:
        raise
    except BaseException:
        ending.append(INTERRUPTED)
        raise
    finally:
        with suppress(StoreError):
            store.append([replace(run, ended_at=_now(), ending=ending[-1])])


def begun_run(campaign: str) -> CampaignRun:
    return CampaignRun(
        campaign=campaign,
        run=secrets.token_hex(8),
        host=socket.gethostname(),
        user=user_name(),
        command=command_line(),
        version=version("int8tune"),
        commit=source_commit(),
        cpu=cpu_name(),
        started_at=_now(),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
