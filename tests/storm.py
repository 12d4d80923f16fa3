"""A campaign on real boards while everything around it is killed, paused and cut: promises 2, 6, 7 and 11.

Two boards behind a real sshd, each reached through a link that fails; a campaign of kernels whose times are known. A
checker compares what is recorded with what is known. `make farm-storm` does it for long, and once in calm.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from int8tune.results.errors import StoreError
from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.provision import provision
from int8tune.tuner.folders import STORE_FILE
from tests.sshd import Sshd, running_sshd
from tests.support.farm.boards import CACHE, board_behind, marked
from tests.support.farm.faulty_link import FaultyLink
from tests.support.places import ROOT
from tests.support.stand_ins.timed_template import TimedTemplate

# A time that is so many times the kernel's own is not its own.
SLOW = 3.0
LEFT_LIMIT_S = 30.0


@dataclass
class Harbour:
    """The boards, what leads to them, and the campaign's process."""

    sshd: Sshd
    boards: tuple[Board, ...]
    links: tuple[FaultyLink, ...]
    farm: Path
    results: Path
    configs: int
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    _before: int = 0

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.support.farm.storm_campaign",
            str(self.farm),
            str(self.results),
            str(self.configs),
        ]
        path = str(ROOT)
        with (self.results.parent / "said").open("ab") as said:
            env = {**os.environ, "PYTHONPATH": path}
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=env)
        self.starts += 1
        self._before = len(trials_of(self.results))

    def is_going(self) -> bool:
        """Whether it has recorded something since it was started: before, it needs all of its boards."""
        return len(trials_of(self.results)) > self._before

    def ended(self) -> bool:
        """Whether the campaign is over; one that gave up is started again, as its user would."""
        assert self.process is not None
        if self.process.poll() in (None, 0):
            return self.process.returncode == 0
        if self.process.returncode not in (4, -signal.SIGKILL):
            raise AssertionError(f"the campaign ended with {self.process.returncode}: {self.words()}")
        self.start()
        return False

    def words(self) -> str:
        return (self.results.parent / "said").read_text(errors="replace")[-2000:]

    def kill_campaign(self, _: int) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def kill_server(self, index: int) -> None:
        """The host's process that speaks with a board."""
        assert self.process is not None
        found = [child for child in _children(self.process.pid) if "int8tune.rpc.board.server" in _words(child)]
        _signal(found[index : index + 1], signal.SIGKILL)

    def kill_agent(self, index: int) -> None:
        _signal(self._agents(index), signal.SIGKILL)

    def pause_agent(self, index: int, seconds: float) -> None:
        self._pause(self._agents(index), seconds)

    def kill_sshd(self, index: int) -> None:
        _signal(self._sshds(index), signal.SIGKILL)

    def pause_sshd(self, index: int, seconds: float) -> None:
        self._pause(self._sshds(index), seconds)

    def _agents(self, index: int) -> list[psutil.Process]:
        """The resident one of a board: not its sessions, whose deaths look like their kernels' own."""
        found = marked(self.boards[index].folder)
        return [process for process in found if _parent(process) not in {other.pid for other in found}]

    def _sshds(self, index: int) -> list[psutil.Process]:
        """The server's processes of the connections that agents of a board hang on."""
        parents = {_parent(agent) for agent in self._agents(index)}
        return [child for child in _children(self.sshd.process.pid) if child.pid in parents]

    def _pause(self, processes: list[psutil.Process], seconds: float) -> None:
        _signal(processes, signal.SIGSTOP)
        time.sleep(seconds)
        _signal(processes, signal.SIGCONT)


def acts_of(harbour: Harbour, longest_s: float) -> dict[str, Callable[[int, random.Random], None]]:
    """What can be done to a board, by name; pauses and stalls last up to `longest_s`."""

    def lasting(rng: random.Random) -> float:
        return rng.choice([0.2, 1.0, 0.5 * longest_s, 0.8 * longest_s, longest_s])

    return {
        "agent killed": lambda index, _: harbour.kill_agent(index),
        "agent paused": lambda index, rng: harbour.pause_agent(index, lasting(rng)),
        "sshd session killed": lambda index, _: harbour.kill_sshd(index),
        "sshd session paused": lambda index, rng: harbour.pause_sshd(index, lasting(rng)),
        "link cut": lambda index, _: harbour.links[index].cut(),
        "link stalled": lambda index, rng: harbour.links[index].stall(lasting(rng)),
        "link refuses": lambda index, rng: harbour.links[index].refuse(lasting(rng) / 2),
        "bit flipped": lambda index, _: harbour.links[index].flip(),
        "host's board process killed": lambda index, _: harbour.kill_server(index),
        "campaign killed": lambda index, _: harbour.kill_campaign(index),
    }


@contextlib.contextmanager
def harbour_in(folder: Path, configs: int) -> Iterator[Harbour]:
    """Two boards, provisioned, each behind a link of its own."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        sshd = stack.enter_context(running_sshd(folder / "sshd"))
        boards = tuple(board_behind(sshd, name, folder / name) for name in ("b0", "b1"))
        for board in boards:
            provision(board, CACHE, upgrade=False, say=lambda _: None)
        links = tuple(stack.enter_context(FaultyLink(sshd.port)) for _ in boards)
        farm = folder / "farm.toml"
        farm.write_text("\n".join(_inventory(board, link) for board, link in zip(boards, links, strict=True)))
        harbour = Harbour(sshd, boards, links, farm, folder / "results", configs)
        try:
            yield harbour
        finally:
            if harbour.process is not None:
                harbour.process.kill()
                harbour.process.wait(10)


def _inventory(board: Board, link: FaultyLink) -> str:
    core = int(board.name[1:]) % (os.cpu_count() or 1)
    return (
        f'[[boards]]\nname = "{board.name}"\ntransport = "ssh"\naddress = "127.0.0.1"\nport = {link.port}\n'
        f'user = "{board.user}"\nkey_file = "{board.key_file}"\nhost_key = "{board.host_key}"\n'
        f'folder = "{board.folder}"\ncores = [{core}]\nlimits = {{ memory = "2 GiB" }}\n'
    )


def run_calm(harbour: Harbour, limit_s: float) -> list[Trial]:
    harbour.start()
    assert harbour.process is not None
    assert harbour.process.wait(limit_s) == 0, harbour.words()
    return trials_of(harbour.results)


def run_storm(
    harbour: Harbour, seed: int, every_s: float, longest_s: float, limit_s: float
) -> tuple[list[Trial], Counter[str], list[str]]:
    """Run a campaign and do something to it about every `every_s`, each act as often as any other.

    Returns:
        what is recorded, what was done how often, and what was recorded once and is not as it was.
    """
    rng = random.Random(seed)
    done: Counter[str] = Counter()
    acts = acts_of(harbour, longest_s)
    until_s, seen, broken = time.monotonic() + limit_s, dict[str, Trial](), list[str]()
    harbour.start()
    names: list[str] = []
    while not harbour.ended():
        if time.monotonic() > until_s:
            return trials_of(harbour.results), done, [*broken, f"not over after {limit_s:g} s: {harbour.words()}"]
        if not harbour.is_going():
            time.sleep(0.1)
            continue
        time.sleep(rng.uniform(0.0, 2 * every_s))
        names = names or rng.sample(sorted(acts), len(acts))
        acts[name := names.pop()](rng.randrange(len(harbour.boards)), rng)
        done[name] += 1
        now = {trial.candidate.id: trial for trial in trials_of(harbour.results)}
        broken += [f"changed: {key}" for key, trial in seen.items() if now.get(key) != trial]
        seen = now
    return trials_of(harbour.results), done, broken


def trials_of(results: Path) -> list[Trial]:
    if not (results / STORE_FILE).exists():
        return []
    with contextlib.suppress(StoreError), SqliteStore(results / STORE_FILE, readonly=True) as store:
        return list(store.query(Trial))
    return []  # it is being made


def check(name: str, trials: list[Trial], configs: int) -> list[str]:
    """What a run has recorded that it must not, and what it has not that it must."""
    template = TimedTemplate(configs)
    expected = {"": Outcome.OK, "kernel_crash": Outcome.RUN_FAILED, "kernel_wrong": Outcome.WRONG_ANSWER}
    places = Counter(_place(trial) for trial in trials)
    broken = [f"{name}: {place} is missing" for place in sorted(set(range(configs)) - set(places))]
    broken += [f"{name}: {place} is recorded {count} times" for place, count in places.items() if count > 1]
    broken += [
        f"{name}: {_place(trial)} is {trial.outcome.value}: {trial.error}"
        for trial in trials
        if trial.outcome is not expected[template.fault(_place(trial))]
    ]
    broken += [
        f"{name}: {_place(trial)} takes {_median_s(trial):.6f} s"
        for trial in trials
        if trial.measurement and not 1 <= _median_s(trial) * 1e6 / template.sleep_us(_place(trial)) <= SLOW
    ]
    return broken + ([] if _best(trials) == template.best else [f"{name}: the best is {_best(trials)}"])


def left_over(harbour: Harbour) -> list[str]:
    """What is still there once the campaign and its last words to the boards are over."""
    until_s = time.monotonic() + LEFT_LIMIT_S
    while time.monotonic() < until_s:
        found = [process for board in harbour.boards for process in marked(board.folder)]
        found += [child for child in psutil.Process().children(recursive=True) if "rpc." in _words(child)]
        if not found:
            return []
        time.sleep(0.2)
    return [f"left over: {process}" for process in found]


def _place(trial: Trial) -> int:
    return int(trial.candidate.config["place"])


def _median_s(trial: Trial) -> float:
    assert trial.measurement is not None
    return median(trial.measurement.times_s)


def _best(trials: list[Trial]) -> int:
    return min(((_median_s(trial), _place(trial)) for trial in trials if trial.measurement), default=(0.0, -1))[1]


def _children(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _words(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def _parent(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.ppid()
    return 0


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def weather(
    folder: Path,
    configs: int,
    seeds: Sequence[int],
    every_s: float,
    longest_s: float,
    limit_s: float,
    say: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """A storm for each seed, one after the other; what was broken."""
    broken: list[str] = []
    totals: Counter[str] = Counter()
    for seed in seeds:
        began = time.monotonic()
        with harbour_in(folder / f"storm{seed}", configs) as harbour:
            trials, done, found = run_storm(harbour, seed, every_s, longest_s, limit_s)
            found += left_over(harbour)
        totals += done
        took_s = time.monotonic() - began
        say(f"storm {seed}: {len(trials)} of {configs} recorded, {took_s:.0f} s, {harbour.starts} starts")
        broken += [f"storm {seed}: {text}" for text in found] + check(f"storm {seed}", trials, configs)
    say(", ".join(f"{name} {count}" for name, count in sorted(totals.items())))
    return broken


def calm(folder: Path, configs: int, limit_s: float, say: Callable[[str], None]) -> list[str]:
    """The same campaign with nothing happening."""
    began = time.monotonic()
    with harbour_in(folder / "calm", configs) as harbour:
        trials = run_calm(harbour, limit_s)
    say(f"calm: {len(trials)} of {configs} recorded, {time.monotonic() - began:.0f} s, the best is {_best(trials)}")
    return check("calm", trials, configs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configs", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every-s", type=float, default=0.5)
    parser.add_argument("--longest-s", type=float, default=13.0)
    parser.add_argument("--limit-s", type=float, default=300.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="int8tune-storm-") as name:
        say = functools.partial(print, flush=True)
        broken = calm(Path(name), options.configs, options.limit_s, say)
        seeds, every_s, longest_s = range(options.seeds), options.every_s, options.longest_s
        broken += weather(Path(name), options.configs, seeds, every_s, longest_s, options.limit_s, say)
    for text in broken:
        print(f"broken: {text}")
    print(f"{len(broken)} violations")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
