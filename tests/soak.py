"""A long campaign of small kernels, watched from outside: `make soak`. With `--boards`, a farm: `make farm-soak`.

Prints what the tuner's own process uses while the trials go by, how busy the cores are, and what is left at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from int8tune.results.record import Trial
from int8tune.results.store import SqliteStore
from tests.support.farm import soak as farm_soak

# Spaces of a few hundred configs each; none of them takes long to build or to run.
CHANNELS = (96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 272)
LAYERS = tuple(f"conv2d-u8s8-1x14x14x{c}-k3x3x{c}-s1-p1-float.c-u8" for c in CHANNELS)
SAMPLE_S = 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The tuner's process at one moment, and the cores since the last one."""

    elapsed_s: float
    trials: int
    rss_bytes: int
    descriptors: int
    threads: int
    children: int
    busy: tuple[float, ...]

    def row(self) -> str:
        busy = " ".join(f"{share:4.0f}" for share in self.busy)
        return (
            f"{self.elapsed_s:8.0f} {self.trials:7d} {self.rss_bytes / 1e6:8.1f} {self.descriptors:4d} "
            f"{self.threads:8d} {self.children:9d}   {busy}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--boards", type=int, default=0, help="played ones, under the real scheduler and store")
    parser.add_argument("--kernel-s", type=float, default=0.6, help="what the kernels of played boards take, about")
    options = parser.parse_args()
    trials = options.trials
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.boards:
            farm_soak.main(folder, options.boards, trials, options.kernel_s)
            return
        temporary = folder / "tmp"
        temporary.mkdir()
        shared_before = set(os.listdir("/dev/shm"))  # noqa: PTH208
        samples = _watch(_start(folder, temporary, trials), folder / "results" / "records.db")
        left = [str(path.relative_to(folder)) for path in (folder / "results").rglob(".work*")]
        left += [str(path) for path in temporary.iterdir()]
        left += sorted(set(os.listdir("/dev/shm")) - shared_before)  # noqa: PTH208
        _report(samples, left)


def _start(folder: Path, temporary: Path, trials: int) -> subprocess.Popen[bytes]:
    table = folder / "soak.json"
    layers = [{"name": f"conv{index}", "count": 1, "workload": key} for index, key in enumerate(LAYERS)]
    table.write_text(json.dumps({"format": 1, "name": "soak", "description": "many trials", "layers": layers}))
    command = [
        sys.executable,
        "-m",
        "int8tune",
        "tune",
        str(table),
        "--results",
        str(folder / "results"),
    ]
    command += ["--strategy", "random", "--trials", str(-(-trials // len(LAYERS)))]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(temporary)})


def _watch(process: subprocess.Popen[bytes], store: Path) -> list[Sample]:
    print(" elapsed  trials   RSS MB  fds  threads processes   busy % of each core", flush=True)
    samples: list[Sample] = []
    started = time.monotonic()
    tuner = psutil.Process(process.pid)
    psutil.cpu_percent(percpu=True)
    while process.poll() is None:
        time.sleep(SAMPLE_S)
        try:
            sample = Sample(
                time.monotonic() - started,
                _count(store),
                tuner.memory_info().rss,
                tuner.num_fds(),
                tuner.num_threads(),
                len(tuner.children(recursive=True)),
                tuple(psutil.cpu_percent(percpu=True)),
            )
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            break
        if not sample.descriptors:  # it is on its way out
            break
        samples.append(sample)
        if len(samples) % 6 == 1:
            print(sample.row(), flush=True)
    process.wait(timeout=60)
    return samples


def _count(path: Path) -> int:
    if not path.exists():
        return 0
    store = SqliteStore(path, readonly=True)
    try:
        return sum(1 for _ in store.query(Trial))
    finally:
        store.close()


def _report(samples: list[Sample], left: list[str]) -> None:
    steady = [sample for sample in samples if sample.trials] or samples
    first, last = steady[0], steady[-1]
    peak_mb = max(sample.rss_bytes for sample in samples) / 1e6
    pace = (last.trials - first.trials) / (last.elapsed_s - first.elapsed_s)
    busy = [sum(shares) / len(shares) for shares in zip(*(sample.busy for sample in steady), strict=True)]
    print(f"\ntrials: {last.trials}, {pace:.1f} a second")
    print(
        f"tuner's memory: {peak_mb:.0f} MB at most, {(last.rss_bytes - first.rss_bytes) / 1e6:+.1f} MB since the start"
    )
    print(f"descriptors: {first.descriptors} -> {last.descriptors}, threads: {first.threads} -> {last.threads}")
    print(f"cores busy: {', '.join(f'{share:.0f} %' for share in busy)}")
    print(f"left behind: {', '.join(left) or 'nothing'}")


if __name__ == "__main__":
    main()
