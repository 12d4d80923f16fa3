"""Campaigns by bundles, as a person has them: made here, run by a bare Python, brought home, until nothing is left."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from int8tune.compiler.toolchain import nvrtc
from int8tune.results.best_log import read_best_log
from int8tune.results.record import DeviceCheck, Duel, Entry, Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.bundle.archive import open_bundle, own_bytes
from int8tune.rpc.bundle.manifest import Manifest
from tests.support.farm.bundles import bare_python, run
from tests.support.program.cli_program import CONV, Ended, in_process, int8tune, write_table

# More than a batch has: a second round of proposals follows the first one's results.
TRIALS = 9
LAYERS = 1
PEAKS = 5
TARGET = "generic"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python"))


class Campaign:
    """A campaign of a small layer on a device that is this machine, but could be any."""

    def __init__(self, folder: Path, trials: int, *options: object) -> None:
        self.results = folder / "results"
        self._table = write_table(folder / "small.json", [{"name": "a", "count": 1, "workload": CONV}])
        self._options = ("--trials", trials, "--results", self.results, *options)

    def make(self, *options: object, device: str = "node7", target: str = TARGET) -> Ended:
        return int8tune(*self.words(device, target), *options)

    def words(self, device: str, target: str) -> tuple[object, ...]:
        return "bundle", "make", self._table, "--device", device, "--target", target, *self._options

    def merge(self, number: int) -> Ended:
        return int8tune("bundle", "merge", self.bundle(number).with_suffix(".results"), "--results", self.results)

    def tune(self) -> Ended:
        return int8tune("tune", self._table, *self._options)

    def bundle(self, number: int) -> Path:
        return self.results / f"small.bundle-{number}.pyz"

    def manifest(self, number: int) -> Manifest:
        return open_bundle(self.bundle(number)).manifest

    def stored(self, kind: type[Entry]) -> list[Entry]:
        with SqliteStore(self.results / "records.db", readonly=True) as store:
            return list(store.query(kind))


@pytest.mark.thorough
def test_a_search_goes_on_by_rounds_until_nothing_is_left(python: Path, tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, TRIALS)
    made = campaign.make()
    assert made.code == 0, made.err
    first = f"bundle 1 of small: {len(campaign.manifest(1).items)} sessions on node7"
    assert made.err.splitlines()[-5] == first
    number = 0
    while made.err.splitlines()[-1].startswith("then here"):
        number += 1
        assert number < 6
        assert run(python, campaign.bundle(number)).code == 0
        merged = campaign.merge(number)
        assert merged.code == 0, merged.err
        made = campaign.make()
        assert made.code == 0, made.err
    assert f"nothing is left to do, {TRIALS * LAYERS} trials are recorded" in made.err
    assert "best log " in made.err.splitlines()[-1]
    trials, duels = campaign.stored(Trial), campaign.stored(Duel)
    assert [trial.outcome for trial in trials if isinstance(trial, Trial)] == [Outcome.OK] * TRIALS * LAYERS
    assert {trial.device for trial in trials if isinstance(trial, Trial)} == {"node7"}
    assert duels
    assert len(campaign.stored(DeviceCheck)) == 1
    assert len(read_best_log(campaign.results / "small.best.jsonl")) == LAYERS
    assert "no duel" not in made.out
    asked = [item.id for place in range(number) for item in campaign.manifest(place + 1).items]
    assert len(asked) == len(set(asked)), "something was asked twice"
    assert [item.partition("-")[0] for item in asked].count("duels") == LAYERS


@pytest.mark.thorough
def test_what_did_not_come_home_is_packed_again(python: Path, tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, 4, "--strategy", "random")
    assert campaign.make().code == 0
    first = [item.id for item in campaign.manifest(1).items]
    assert PEAKS + LAYERS < len(first) <= PEAKS + 4 * LAYERS
    whole = campaign.bundle(1).read_bytes()
    same = campaign.make()
    said = f"bundle 1 of small: {len(first)} sessions on node7, the same as before: its results are not merged yet"
    assert same.err.splitlines()[-5] == said
    assert campaign.bundle(1).read_bytes() == whole
    assert run(python, campaign.bundle(1)).code == 0
    results = campaign.bundle(1).with_suffix(".results")
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join(lines[:-2]))
    assert campaign.merge(1).code == 0
    assert campaign.make().code == 0
    second = [item.id for item in campaign.manifest(2).items]
    assert set(first[-2:]) <= set(second)
    assert not set(first[:-2]) & set(second)


@pytest.mark.parametrize(
    ("options", "device", "target", "message"),
    [
        ((), "node 7", TARGET, "a device's name has 1 to 64 of the characters A-Z a-z 0-9 . _ -: 'node 7'"),
        ((), "node7", "z80", "unknown target `z80`, known: .*"),
        (("--trials", "0"), "node7", TARGET, "trials per layer must be 1 to 1000000: 0"),
        (("--strategy", "luck"), "node7", TARGET, "unknown search strategy `luck`, known: .*"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    tmp_path: Path, options: tuple[str, ...], device: str, target: str, message: str
) -> None:
    ended = in_process(*Campaign(tmp_path, TRIALS).words(device, target), *options)
    assert ended.code == 2
    (line,) = ended.errors
    assert re.fullmatch(f"error: {message}", line), line
    assert not (tmp_path / "results").exists()


@pytest.mark.thorough
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names a target of x86_64")
def test_another_device_or_target_is_another_campaign(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, 1)
    assert campaign.make().code == 0
    for options, message in (
        ({"device": "node8"}, "device node7, now it is: node8"),
        ({"target": "x86-avx2"}, "target generic-x86-64, now it is: x86-avx2"),
    ):
        ended = campaign.make(**options)
        assert ended.code == 1
        assert ended.errors == [f"error: campaign `small` was started with {message}"]
    here = campaign.tune()
    assert here.code == 1
    assert here.errors == ["error: campaign `small` was started with device node7, now it is: local"]


@pytest.mark.thorough
@pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this machine has a driver of NVIDIA's")
def test_a_bundle_for_a_gpu(python: Path, tmp_path: Path) -> None:
    """Machine code and CUDA's runtime are in it; a machine without a driver says so in a line."""
    campaign = Campaign(tmp_path, TRIALS)
    made = campaign.make(device="h100", target="cuda-sm90")
    assert made.code == 0, made.err
    manifest = campaign.manifest(1)
    assert (manifest.kind, manifest.needs) == ("gpu", {"cuda_sm_90"})
    assert {"agent/libcudart.so.13", "agent/libtvm_runtime_cuda.so"} <= set(manifest.files)
    assert own_bytes(open_bundle(campaign.bundle(1))) < 20_000_000
    there = run(python, campaign.bundle(1))
    assert there.code == 4
    (line,) = there.errors
    assert line == "error: the GPU of `h100` can't be used: this machine has no driver of NVIDIA's"
    assert "nvidia-smi" in there.err
