"""Right kernels must not be found wrong: `make false-alarms`.

A campaign for each target that this machine runs draws configs of many layers at random, builds, verifies and times
them as any campaign does. All that is built must be right; the command fails where a kernel is not, or where there were
too few of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.schedules.target import PROFILES
from tests.support.kernels.layers import ODD, PLAIN
from tests.support.run.probes import cpu_features

# What the others lack: images and channels of several tiles each, and wide groups.
LARGER = (
    "conv2d-u8s8-1x14x14x64-k3x3x96-s1-p1-float.c-u8",
    "conv2d-s8s8-1x17x15x48-k1x1x80-s1-p0-fixed.c-s8",
    "conv2d-u8u8-1x13x19x12-k3x3x72-s2-p1-wz-float.c-clamp-u8",
    "conv2d-u8s8-1x23x23x3-k5x5x48-s2-p2-fused.c-u8",
    "conv2d-u8s8-1x10x11x256-k3x3x128-s1-p1-g2-float.c-u8",
    "conv2d-s8s8-1x12x12x64-k3x3x64-s1-p1-g16-fixed.c-s8",
    "conv2d-u8s8-1x14x14x96-k1x1x64-s1-p0-float.c-addu8-u8",
    "conv2d-s8s8-1x9x14x40-k1x1x72-s1-p0-fixed.c-clamp-adds8-s8",
    "dwconv2d-u8s8-1x19x21x96-k3x3x1-s1-p1-float.c-clamp-u8",
    "dwconv2d-u8u8-1x15x16x72-k5x5x1-s2-p2-wz-fixed.c-u8",
    "dwconv2d-s8s8-1x12x13x64-k3x3x1-s1-p1-fused.cx-s8",
    "dense-u8s8-9x200-o120-float.c-clamp-u8",
    "dense-s8u8-16x96-o80-wz-fused.t-s8",
    "dense-u8s8-4x512-o256-fixed.c-u8",
)
LAYERS = (*PLAIN.values(), *ODD, *LARGER)
ENOUGH = 250
LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Verified:
    """What became of the kernels of all campaigns.

    Attributes:
        outcomes: of trials whose kernel is their own, by template and how they ended.
        binaries: different kernels that were verified.
        accused: one line for each that was not right, or not measured.
    """

    outcomes: Counter[tuple[str, str]]
    binaries: int
    accused: tuple[str, ...]


def verified(trials: Iterable[Trial]) -> Verified:
    """What trials say: one that has another's binary was not verified for itself."""
    own = [trial for trial in trials if not trial.reused_from]
    outcomes = Counter((trial.candidate.template, trial.outcome.value) for trial in own)
    accused = tuple(
        f"{trial.outcome.value}: {trial.candidate.workload} for {trial.candidate.target} by "
        f"{trial.candidate.template} with {dict(trial.candidate.config)}: {trial.error}"
        for trial in own
        if trial.outcome is not Outcome.OK
    )
    return Verified(outcomes, len({trial.binary for trial in own if trial.outcome is Outcome.OK}), accused)


def campaign(table: Path, results: Path, profile: str, trials: int, seed: int) -> list[Trial]:
    """Tune every layer of a table for a target; all trials."""
    command = [sys.executable, "-m", "int8tune", "tune", str(table), "--results", str(results)]
    command += ["--name", profile, "--target", profile, "--strategy", "random", "--min-gain", "0"]
    command += ["--trials", str(trials), "--seed", str(seed)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=LIMIT_S)
    with SqliteStore(results / "records.db", readonly=True) as store:
        return [trial for trial in store.query(Trial) if trial.campaign == profile]


def write_table(path: Path, layers: Sequence[str]) -> None:
    entries = [{"name": f"layer{at}", "count": 1, "workload": key} for at, key in enumerate(layers)]
    table = {"format": 1, "name": path.stem, "description": "layers with odd sizes", "layers": entries}
    path.write_text(json.dumps(table), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=8, help="of each layer for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=len(LAYERS), help="how many of the layers")
    parser.add_argument("--targets", nargs="+", help="target profiles; all that this machine runs if left out")
    parser.add_argument("--enough", type=int, default=ENOUGH, help="different kernels of each target must be verified")
    options = parser.parse_args(arguments)
    profiles = options.targets or [profile.name for profile in PROFILES if profile.needs <= cpu_features()]
    layers = LAYERS[: options.layers]
    every: list[Trial] = []
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "odd.json"
        write_table(table, layers)
        for profile in profiles:
            trials = campaign(table, Path(name) / "results", profile, options.trials, options.seed)
            print(f"{profile}: {len(trials)} trials of {len(layers)} layers", flush=True)
            every += trials
    found = verified(every)
    for (template, outcome), count in sorted(found.outcomes.items()):
        print(f"{template}: {count} {outcome}")
    print(f"{found.binaries:,} different kernels verified, {len(found.accused)} found wrong or not measured")
    for line in found.accused:
        print(line)
    if found.binaries < (enough := options.enough * len(profiles)):
        print(f"too few: must be at least {enough:,}")
    return 1 if found.accused or found.binaries < enough else 0


if __name__ == "__main__":
    sys.exit(main())
