"""Every reader of files against hostile ones: `make fuzz`.

Valid samples of every kind of file are changed at random and read by a process with limits of time and memory. What is
neither read nor refused by a documented error is printed with its seed, and kept to be read again. The exit code is 1
where there is any.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.kinds import KINDS
from tests.fuzz.run import fuzz


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; at random if left out")
    parser.add_argument("--kind", choices=KINDS, action="append", help="all of them if left out")
    options = parser.parse_args()
    first = random.randrange(10**9) if options.seed is None else options.seed
    kept = Path(tempfile.mkdtemp(prefix="int8tune-fuzz-"))
    kinds = options.kind or list(KINDS)
    print(f"seed {first}; what fails is kept in {kept}")
    failed = 0
    for kind in kinds:
        if missing := KINDS[kind].missing:
            print(f"{kind:16} skipped, not installed: {missing}")
            continue
        outcomes = fuzz(kind, range(first, 10**12), time.monotonic() + 60 * options.minutes / len(kinds), kept)
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.counts.items()))
        print(f"{kind:16} {counts}", flush=True)
        for seed, what in list(outcomes.failures.items())[:1]:
            print(f"  seed {seed}: {what}\n  again: python -m tests.fuzz --kind {kind} --seed {seed} --minutes 0.1")
        failed += len(outcomes.failures)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
