"""Wrong sources of the product, and whether the tests of a tier find them.

python -m tests.mutants --list                          the kept list, with the test files of each
python -m tests.mutants --tier quick --only rpc         run those of one package
python -m tests.mutants --sample 10 --seed 3 --jobs 2   run ten that are drawn
python -m tests.mutants --tier both                     in both tiers, and which only the whole suite finds
python -m tests.mutants --draw 220 --seed 1             write the list anew: the same number for each package

A mutant is one edit of one expression (`source_mutants`), kept by module and place, so that lines may move. Each runs
in a copy of the tree, with the tests that concern its module until one fails. A test that fails without the edit, too,
has found nothing: it is left out, and the rest go on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.mutation.mutant_tests import files_for
from tests.support.mutation.source_mutants import mutants_of
from tests.support.places import ROOT, TESTS

KEPT = TESTS / "data" / "mutants.tsv"
AREAS = (
    "schedules",
    "compiler",
    "quantize",
    "results",
    "rpc/farm",
    "rpc",
    "tuner/search",
    "tuner/cost_model",
    "tuner/campaign",
    "tuner/builder",
    "tuner/cli",
    "tuner",
)
"""What the list has equal shares of; a module belongs to the first that its path begins with."""
MARKS = {"quick": "not slow and not thorough", "all": "not slow", "rest": "thorough and not slow"}
NOTHING_COLLECTED = 5
IGNORED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
# Which of the tests that fail without the edit, too, are left out before a mutant counts as not judged.
MOST_LEFT_OUT = 5
# Ctrl-C reaches this process alone: each mutant's processes have a session of their own, by which they are killed.
STOPPED = threading.Event()


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """A mutant of the list.

    Attributes:
        module: its file, from the root of the repository on.
        place: as `source_mutants` says it; of several that read alike `#2` is the second.
    """

    module: str
    place: str

    def source(self) -> str | None:
        """The module with the edit; None where the code that it edits is no more."""
        path = ROOT / self.module
        make = dict(_places(path)).get(self.place) if path.exists() else None
        return make and make()


def _places(path: Path) -> Iterator[tuple[str, Callable[[], str]]]:
    seen: Counter[str] = Counter()
    for mutant in mutants_of(path.read_text(encoding="utf-8")):
        seen[mutant.place] += 1
        number = seen[mutant.place]
        yield mutant.place + (f" #{number}" if number > 1 else ""), mutant.make


def area_of(module: str) -> str:
    return next(area for area in AREAS if module.startswith(f"{area}/"))


def kept() -> list[Kept]:
    rows = KEPT.read_text(encoding="utf-8").splitlines()
    return [Kept(*row.split("\t")) for row in rows if row and not row.startswith("#")]


def drawn(count: int, seed: int) -> list[Kept]:
    """Mutants of all areas alike, and in an area of all its modules alike; what reads as equivalent is left out."""
    draw = random.Random(seed)
    modules: dict[str, list[Path]] = {area: [] for area in AREAS}
    for package in sorted({area.partition("/")[0] for area in AREAS}):
        for path in sorted((ROOT / package).rglob("*.py")):
            modules[area_of(path.relative_to(ROOT).as_posix())].append(path)
    found: set[Kept] = set()
    for at, (_, paths) in enumerate(modules.items()):
        share = (count + len(AREAS) - 1 - at) // len(AREAS)
        found |= set(_drawn_of(paths, share, draw))
    return sorted(found)


def _drawn_of(paths: list[Path], share: int, draw: random.Random) -> list[Kept]:
    places = {path: [place for place, _ in _places(path) if not _is_equivalent(place)] for path in paths}
    found: list[Kept] = []
    while len(found) < share and any(places.values()):
        for path in draw.sample(paths, len(paths)):
            if places[path] and len(found) < share:
                place = places[path].pop(draw.randrange(len(places[path])))
                found.append(Kept(path.relative_to(ROOT).as_posix(), place))
    return found


def _is_equivalent(place: str) -> bool:
    """Whether an edit changes a text, a limit of patience or a width of pictures that no test should hold."""
    words = (
        "round(",
        ":.",
        "indent",
        "timeout",
        "_s:",
        "_S",
        "width",
        "height",
        "font",
        "maxsize",
        "slots",
        "frozen",
        "abs(",
    )
    return any(word in place for word in words) or "\t" in place or "\n" in place


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests of a tier made of a mutant: `killed`, `survived`, `gone` or `not judged`, and by which test."""

    word: str
    by: str
    seconds: float


def judged(mutant: Kept, tier: str, limit_s: float) -> Verdict:
    started = time.monotonic()
    source = mutant.source()
    if source is None:
        return Verdict("gone", "its code is no more: draw the list anew", 0.0)
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        whole, wrong = Path(folder) / "whole", Path(folder) / "wrong"
        for copy in (whole, wrong):
            shutil.copytree(ROOT, copy, symlinks=True, ignore=IGNORED)
        (wrong / mutant.module).write_text(source, encoding="utf-8")
        files = [path.relative_to(ROOT).as_posix() for path in files_for(mutant.module)]
        word, by = _judged(whole, wrong, files, tier, started + limit_s)
    return Verdict(word, by, time.monotonic() - started)


def _judged(whole: Path, wrong: Path, files: Sequence[str], tier: str, deadline: float) -> tuple[str, str]:
    left_out: list[str] = []
    while len(left_out) <= MOST_LEFT_OUT:
        status, test = _tested(wrong, files, tier, left_out, deadline)
        if status in (0, NOTHING_COLLECTED):
            return "survived", f"{len(files)} files" + (f", without {left_out}" if left_out else "")
        if status is None:
            return "killed", "took too long"
        # A test that also fails without the edit has found nothing.
        if _tested(whole, [test] if test else files, tier, [], deadline)[0] == 0:
            return "killed", test
        left_out.append(test)
    return "not judged", f"these fail without it, too: {left_out}"


def _tested(
    tree: Path, tests: Sequence[str], tier: str, left_out: Sequence[str], deadline: float
) -> tuple[int | None, str]:
    """Pytest's exit status, None where the time was over, and the test or file that failed."""
    command = [sys.executable, "-P", "-m", "pytest", "-x", "-q", "-rfE", "--no-header", "-p", "no:cacheprovider"]
    command += ["-m", MARKS[tier], *(f"--{_without(test)}={test}" for test in left_out), *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile(mode="w+") as said:
        child = subprocess.Popen(command, cwd=tree, env=environment, stdout=said, stderr=said, start_new_session=True)
        try:
            while (status := child.poll()) is None and time.monotonic() < deadline and not STOPPED.is_set():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(0.5)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        said.seek(0)
        failed = FAILED.findall(said.read())
    return status, failed[0] if failed else ""


def _without(test: str) -> str:
    """Pytest's option to leave out a test, or a file that can't be collected."""
    return "deselect" if "::" in test else "ignore"


def main() -> None:
    options = _options()
    if options.draw:
        _write(drawn(options.draw, options.seed), options.seed)
        return
    mutants = [mutant for mutant in kept() if mutant.module.startswith(options.only)]
    if options.sample:
        mutants = sorted(random.Random(options.seed).sample(mutants, min(options.sample, len(mutants))))
    if options.list:
        for mutant in mutants:
            print(mutant.module, mutant.place, f"({len(files_for(mutant.module))} files)", sep="\t")
        return
    tiers = ("quick", "all") if options.tier == "both" else (options.tier,)
    sys.exit(_report(mutants, tiers, options.jobs, options.limit_s))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="say what there is and run nothing")
    parser.add_argument("--only", default="", metavar="FOLDER", help="only modules below this folder, such as rpc/farm")
    parser.add_argument("--sample", type=int, metavar="N", help="only so many that are drawn")
    parser.add_argument("--seed", type=int, default=1, help="draws the sample or the list")
    parser.add_argument("--tier", choices=("quick", "all", "both"), default="quick")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="for a mutant in one tier")
    parser.add_argument("--draw", type=int, metavar="N", help="write the list anew with so many")
    return parser.parse_args()


def _write(mutants: Sequence[Kept], seed: int) -> None:
    rows = [
        f"# `python -m tests.mutants --draw {len(mutants)} --seed {seed}`; what changes nothing is taken out by hand"
    ]
    KEPT.write_text("\n".join([*rows, *(f"{each.module}\t{each.place}" for each in mutants), ""]), encoding="utf-8")


def _report(mutants: Sequence[Kept], tiers: Sequence[str], jobs: int, limit_s: float) -> int:
    """Say what each tier made of each mutant; 1 where the quick tier missed what the whole suite finds."""
    words: dict[str, Counter[str]] = {tier: Counter() for tier in tiers}
    missed = 0
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for mutant, verdicts in pool.map(lambda each: (each, _in_tiers(each, tiers, limit_s)), mutants):
                missed += _say(mutant, verdicts)
                for tier, verdict in verdicts.items():
                    words[tier][verdict.word] += 1
        except KeyboardInterrupt:
            STOPPED.set()
            pool.shutdown(cancel_futures=True)
            return 130
    for tier, counts in words.items():
        print(f"{tier}: " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return 1 if missed else 0


def _say(mutant: Kept, verdicts: Mapping[str, Verdict]) -> bool:
    """Print what each tier made of a mutant; whether only the whole suite found it."""
    for tier, verdict in verdicts.items():
        print(
            f"{tier}: {verdict.word} in {verdict.seconds:.0f} s: {mutant.module}: {mutant.place}: {verdict.by}",
            flush=True,
        )
    found = {tier: verdict.word == "killed" for tier, verdict in verdicts.items()}
    return found.get("all", False) and not found.get("quick", True)


def _in_tiers(mutant: Kept, tiers: Sequence[str], limit_s: float) -> dict[str, Verdict]:
    verdicts: dict[str, Verdict] = {}
    for tier in tiers:
        quick = verdicts.get("quick")
        if quick and quick.word != "survived":  # what the quick tests find, all tests find
            verdicts[tier] = quick
        else:
            verdicts[tier] = judged(mutant, "rest" if quick else tier, limit_s)
    return verdicts


if __name__ == "__main__":
    main()
