"""Runs the tests of a tier in stages, the fastest first, and says at the end what was not proven, and how many passed.

python -m tests.stages quick       unit tests, then the other quick ones
python -m tests.stages thorough    what is left out of the quick run: drawn order; `--until-s` ends it in time
python -m tests.stages slow        tests of minutes, and the thorough ones
python -m tests.stages all         everything

A test marked `alone` that fails beside others has no verdict yet: a last stage runs it by itself. With `--go-on FILE`
a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import ROOT
from tests.support.run import totals
from tests.support.run.appended import appended
from tests.support.run.unproven import last_line, read

QUICK = "not slow and not thorough"
LONG_TIMEOUT_S = 7200
INTERRUPTED, NOTHING_COLLECTED = 2, 5
# A test that has begun when the time is over still ends, at its timeout of pyproject.toml: so much is kept for it.
RESERVE_S = 120.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One call of pytest.

    Attributes:
        beside: whether tests run beside each other, in one process more than there are cores, as some wait for boards.
    """

    name: str
    marks: str
    options: tuple[str, ...] = ()
    beside: bool = True

    def arguments(self, cores: int) -> list[str]:
        # Neighbours share what is expensive to make, so each process gets a run of them.
        beside = ["-n", str(min(cores + 1, 8)), "--dist", "worksteal"] if self.beside else []
        return [*beside, "-m", self.marks, *self.options]


LONG = ("--timeout", str(LONG_TIMEOUT_S))
TIERS: dict[str, tuple[Stage, ...]] = {
    "quick": (
        Stage("unit", QUICK, ("--files", "unit")),
        Stage("system", QUICK, ("--files", "system", "--durations", "15")),
    ),
    "thorough": (Stage("thorough", "thorough and not slow"),),
    "slow": (
        Stage("thorough and slow", "(slow or thorough) and not alone", LONG),
        Stage("thorough and slow, alone", "(slow or thorough) and alone", LONG, beside=False),
    ),
}
TIERS["all"] = TIERS["quick"] + TIERS["slow"]
AGAIN = Stage("again, alone", "alone", beside=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stages", description=__doc__.splitlines()[0])
    parser.add_argument("tier", choices=TIERS)
    parser.add_argument("--until-s", type=float, help="start no test later than so many seconds from now")
    parser.add_argument("--order-seed", type=int, help="draw the order with this seed; with --until-s it is the date")
    parser.add_argument("--go-on", type=Path, help="file of what has passed at this commit, which is not run again")
    options = parser.parse_args()
    until = None if options.until_s is None else time.monotonic() + options.until_s - RESERVE_S
    seed = options.order_seed
    if seed is None and until is not None:
        seed = int(datetime.date.today().strftime("%Y%m%d"))
    if options.go_on:
        require_same_commit(options.go_on)
    sys.exit(run(TIERS[options.tier], until, seed, options.go_on))


def require_same_commit(kept: Path) -> None:
    """Begin a file of what has passed; one that was begun at another commit ends the program."""
    now = commit()
    if not kept.exists():
        kept.write_text(f"{now}\n", encoding="utf-8")
    before = kept.read_text(encoding="utf-8").partition("\n")[0]
    if before != now:
        sys.exit(f"error: {kept} is of {before}, the sources are {now}\nhint: begin again with another file")


def commit() -> str:
    """The commit of the sources, and the digest of what is changed in them."""
    git = ("git", "-C", str(ROOT))
    head, changes = (
        subprocess.run([*git, *words], check=True, capture_output=True, timeout=60).stdout
        for words in (("rev-parse", "HEAD"), ("diff", "HEAD"))
    )
    changed = f" with changes {hashlib.sha256(changes).hexdigest()[:12]}" if changes else ""
    return f"{head.decode().strip()}{changed}"


def run(stages: tuple[Stage, ...], until: float | None, seed: int | None, go_on: Path | None = None) -> int:
    """Run all stages whatever the ones before them say; the exit status of the first that failed."""
    failed, started = 0, time.monotonic()
    always = [] if seed is None else [f"--order-seed={seed}"]
    always += [] if go_on is None else [f"--go-on={go_on.absolute()}"]
    with tempfile.TemporaryDirectory() as folder:
        unproven, outcomes, again = (Path(folder) / name for name in ("unproven", "outcomes", "again"))
        for stage in (*stages, AGAIN):
            if stage is AGAIN and not appended(again):
                break
            more = [*always, f"--unproven-to={unproven}", f"--totals-to={outcomes}"]
            more += [f"--these={again}"] if stage is AGAIN else []
            more += [f"--again-to={again}"] if stage.beside else []
            if until is not None and stage is not AGAIN:
                more += [f"--until-s={max(until - time.monotonic(), 0.0):.0f}"]
            status = _pytest([*stage.arguments(os.cpu_count() or 1), *more], stage, seed)
            failed = failed or status
            if status == INTERRUPTED:
                break
        if line := last_line(read(unproven)):
            print(line)
        names = ", ".join(stage.name for stage in stages)
        print(f"{names}: {totals.line(outcomes)} in {time.monotonic() - started:.2f}s")
    return failed


def _pytest(arguments: list[str], stage: Stage, seed: int | None) -> int:
    drawn = "" if seed is None else f", order drawn with {seed}"
    print(f"stage {stage.name}{drawn}", flush=True)
    started = time.monotonic()
    # Each of thousands of short processes would compile all sources anew.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # A thread of BLAS spins for a while after each product, on a core that a test beside it wants.
    kept |= {"OPENBLAS_NUM_THREADS": "1"}
    child = subprocess.Popen([sys.executable, "-P", "-m", "pytest", *arguments], env=kept)
    while True:
        try:
            status = child.wait()  # the limits are those of the tests themselves
            break
        except KeyboardInterrupt:  # pytest got it, too, and takes down what runs
            continue
    print(f"stage {stage.name}: {time.monotonic() - started:.0f} s", flush=True)
    return 0 if status == NOTHING_COLLECTED else status


if __name__ == "__main__":
    main()
