"""How the stores do with a million trials: `python -m tests.store_scale`.

Fills a results file and a PostgreSQL database of its own through the store's `append`, then measures what a team waits
for. Ends with 3 if a goal is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from int8tune.results.analysis.campaign import analyze
from int8tune.results.base import Store
from int8tune.results.best import best_schedules
from int8tune.results.following import FollowedCampaign
from int8tune.results.record import CacheMode, Campaign, Duel, Trial
from int8tune.results.stores import open_store
from int8tune.results.upkeep.listing import campaign_rows_of
from int8tune.rpc.local.capabilities import cpu_name
from int8tune.tuner.campaign.teaching import trials_before
from tests.support.places import ROOT
from tests.support.program.many_trials import campaign_of, entries_of
from tests.support.program.postgres_server import running_postgres

MISSED = 3
CAMPAIGNS = 20
AT_ONCE = 5_000
REPEATS = 5
MORE = 1_000
CHILD_LIMIT_S = 600
MEMORY_GOAL_MB = 150


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, and the most that it may be; without a goal it is for information."""

    what: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def line(self) -> str:
        verdict = "" if self.goal is None else f"{self.goal:>8g} {self.unit:<3} {'ok' if self.is_met else 'MISSED'}"
        return f"{self.what:<58} {self.value:>9.3f} {self.unit:<3} {verdict}".rstrip()

    @property
    def is_met(self) -> bool:
        return self.goal is None or self.value <= self.goal


def main() -> None:
    options = _options()
    print(f"{options.trials:,} trials of {CAMPAIGNS} campaigns; {cpu_name()}\n")
    print(f"{'':<58} {'figure':>13} {'goal':>12}")
    is_met = True
    for name in ("sqlite", "postgresql") if options.store == "both" else (options.store,):
        with _place(name, options.keep) as where:
            for figure in figures(where, options.trials):
                print(figure.line if figure.unit else f"{name}: {figure.what}", flush=True)
                is_met &= figure.is_met
    sys.exit(0 if is_met else MISSED)


def figures(where: str, trials: int) -> Iterator[Figure]:
    """Fill a store, unless it is filled, and measure it."""
    each = trials // CAMPAIGNS
    yield Figure(where.rpartition("@")[2], 0, "")
    with tempfile.TemporaryDirectory(prefix="int8tune-") as files, closing(_opened(where, files)) as store:
        if (began := fill(store, each)) is not None:
            yield Figure(f"append, {AT_ONCE:,} at once, {each * CAMPAIGNS:,} in all", began, "s")
        middle = f"many-{CAMPAIGNS // 2}"
        yield Figure("a campaign's best schedules, slowest of 5", _slowest(lambda: _best(store, middle)), "s", 0.1)
        yield Figure("all campaigns' best schedules", _took(lambda: best_schedules(store)), "s")
        yield Figure(f"report data of a campaign of {each:,}", _took(lambda: analyze(store, middle, {})), "s", 5.0)
        yield Figure("a list of all campaigns", _took(lambda: list(campaign_rows_of(store, where, None))), "s")
        first_s, again_s = _looks(store, middle)
        yield Figure(f"watch: the first look at a campaign of {each:,}", first_s, "s")
        yield Figure("watch: another look at it, slowest of 5", again_s, "s")
        new = _new_campaign(store)
        yield Figure("append of 1,000 trials, slowest of 5", max(_append_times(store, new)), "s", 1.0)
    yield Figure("open the store for reading", _took(lambda: open_store(where, readonly=True).close()), "s")
    took_s, memory_mb = _taught(where, new)
    yield Figure("a new campaign learns from those before it", took_s, "s")
    yield Figure("the memory that takes the tuner", memory_mb, "MB", MEMORY_GOAL_MB)


def fill(store: Store, each: int) -> float | None:
    """Seconds it took to add the campaigns; None where they are there. What another call has begun is gone on with."""
    whole = {name for name in map(_name, range(CAMPAIGNS)) if next(store.query(Duel, campaign=name), None)}
    if len(whole) == CAMPAIGNS:
        return None
    if len(list(store.query(Campaign))) > len(whole):
        sys.exit("error: another call was ended within a campaign; remove what it has made, and call this again")
    began_s = time.perf_counter()
    for number in range(len(whole), CAMPAIGNS):
        entries = list(entries_of(number, each))
        for first in range(0, len(entries), AT_ONCE):
            store.append(entries[first : first + AT_ONCE])
    return time.perf_counter() - began_s


def _name(number: int) -> str:
    return campaign_of(number).name


def _best(store: Store, campaign: str) -> None:
    assert len(best_schedules(store, campaign=campaign)) > 1


def _looks(store: Store, name: str) -> tuple[float, float]:
    """Seconds of the first look at a campaign, and of the slowest one after it."""
    followed = FollowedCampaign(next(iter(store.query(Campaign, campaign=name))))
    first_s = _took(lambda: followed.look(store))
    return first_s, _slowest(lambda: followed.look(store))


def _new_campaign(store: Store) -> str:
    """The name of a campaign that is started after all others."""
    known = len(list(store.query(Campaign)))
    store.append([campaign_of(known)])
    return campaign_of(known).name


def _append_times(store: Store, name: str) -> Iterator[float]:
    trials = [entry for entry in entries_of(int(name.rpartition("-")[2]), MORE * REPEATS) if isinstance(entry, Trial)]
    for number in range(REPEATS):
        yield _took(lambda part=trials[number * MORE :][:MORE]: store.append(part))  # type: ignore[misc]


def _taught(where: str, campaign: str) -> tuple[float, float]:
    """Seconds and megabytes that a new campaign takes to read what it learns from, in a process of its own."""
    command = [sys.executable, "-m", "tests.store_scale", "--learn", where, campaign]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CHILD_LIMIT_S, check=False)
    if done.returncode:
        sys.exit(f"error: reading what a campaign learns from failed\n{done.stderr[-2000:]}")
    took_s, memory_mb = map(float, done.stdout.split())
    return took_s, memory_mb


def _learn(where: str, campaign: str) -> None:
    with closing(open_store(where, readonly=True)) as store:
        before = _peak_mb()
        began_s = time.perf_counter()
        taught = trials_before(store, campaign, CacheMode.NETWORK)
        took_s = time.perf_counter() - began_s
        assert taught
        print(took_s, _peak_mb() - before)


def _peak_mb() -> float:
    """The most memory that this process had; `getrusage` would count what its parent had when it forked."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _opened(where: str, files: str) -> Store:
    return open_store(where, files=Path(files))


def _took(act: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s


def _slowest(act: Callable[[], object]) -> float:
    return max(_took(act) for _ in range(REPEATS))


@contextmanager
def _place(name: str, keep: Path | None) -> Iterator[str]:
    """An empty store's place, which is removed; or a results folder that is kept."""
    if name == "postgresql":
        with running_postgres(is_durable=True) as server:
            yield server.empty_database()
    elif keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield str(keep)
    else:
        with tempfile.TemporaryDirectory(prefix="int8tune-") as folder:
            yield folder


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1_000_000, help="in all (default: 1,000,000)")
    parser.add_argument("--store", choices=("sqlite", "postgresql", "both"), default="both")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="fill and keep this results folder; use it if filled")
    parser.add_argument("--learn", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.trials < CAMPAIGNS * 100:
        parser.error(f"trials must be {CAMPAIGNS * 100:,} or more, 100 for each campaign: {options.trials:,}")
    return options


if __name__ == "__main__":
    given = _options()
    if given.learn:
        _learn(*given.learn)
    else:
        main()
