"""`int8tune lab --against metaschedule --device BOARD` as a person types it, on an emulated GPU.

MetaSchedule, its rules and TVM's code are real; NVIDIA's compiler and driver are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest

import int8tune.tuner.campaign.run
import int8tune.tuner.metaschedule.spec
from int8tune.results.metaschedule import RECORDS
from int8tune.results.record import BenchResult, DeviceCheck, Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cli.program import run
from tests.support.gpu.machine import FARM, Machine, no_gpu

DENSE = "dense-u8s8-32x32-o32-float.c-u8"
needs_a_gpu = pytest.mark.usefixtures("emulated_gpu")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path, monkeypatch, l2=1 << 20)
    monkeypatch.setattr(
        int8tune.tuner.campaign.run, "BuildPool", partial(BuildPool, server="tests.support.gpu.emulated_build_server")
    )
    spec = partial(int8tune.tuner.metaschedule.spec.RaceSpec, worker="tests.support.gpu.emulated_metaschedule")
    monkeypatch.setattr(int8tune.tuner.metaschedule.spec, "RaceSpec", spec)
    return made


def race(machine: Machine, *arguments: str) -> int:
    where = ["--device", "h100", "--inventory", str(machine.inventory), "--results", str(machine.results)]
    return run(["lab", "--against", "metaschedule", *arguments, *where])


@needs_a_gpu
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_both_search_the_same_layer_and_both_are_exact(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert race(machine, DENSE, "--trials", "2") == 0, capsys.readouterr().err
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert re.match(r"Emulated GPU \(cuda-sm90\), driver 580\.65\.06, peak [\d.]+ TOPS, at most 2,141 ", lines[0])
    assert lines[2] == "theirs has s8 data where a layer has u8, and all else of it"
    row = next(line.split() for line in lines if line.startswith("dense 32x32->32"))
    assert row[4] == "exact", shown.out
    assert row[-2] == "2/2"
    with SqliteStore(machine.results / "records.db", readonly=True) as store:
        (result,) = store.query(BenchResult)
        assert len(list(store.query(Trial))) == 2
        assert len(list(store.query(DeviceCheck))) == 1
    assert [entrant.outcome for entrant in result.entrants] == [Outcome.OK, Outcome.OK], result.entrants
    assert result.peers[0].workload == "dense-s8s8-32x32-o32-float.c-u8"
    assert result.device == "h100"
    assert result.environment["gpu"] == "Emulated GPU"
    assert len(result.ours.times_s) == len(result.peers[0].times_s) == len(result.peak_ops_per_s)
    records = machine.results / result.bench / "0" / RECORDS
    assert all("wmma_sync_16x16x16_s8s8s32" in record for record in records.read_text().splitlines())
    assert not (machine.results / ".work").exists()


@needs_a_gpu
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_ctrl_c_while_metaschedule_searches(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    own = psutil.Process()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(
            interrupt_once,
            lambda: any("tests.support.gpu.emulated_metaschedule" in line for line in commands_below(own)),
        )
        assert race(machine, DENSE, "--trials", "64") == 130
    began_s, ended_s = sent.result(), time.monotonic()
    assert ended_s - began_s < 10
    assert "Traceback" not in capsys.readouterr().err
    assert commands_below(own) == []
    assert not (machine.results / ".work").exists()


def interrupt_once(is_due: Callable[[], bool]) -> float:
    """Send Ctrl-C to this process once that holds, a second later; when that was."""
    limit_s = time.monotonic() + 90
    while not is_due():
        assert time.monotonic() < limit_s
        time.sleep(0.05)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)
    return time.monotonic()


def commands_below(process: psutil.Process) -> list[str]:
    found = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [" ".join(child.cmdline())] if child.status() != psutil.STATUS_ZOMBIE else []
    return found


@needs_a_gpu
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--device", "here"),
            'a device to compare on must be a GPU of this machine, transport = "gpu": `here` has .*',
        ),
        (("--device", "h200"), "unknown board `h200` in .*, known: h100, here"),
        (("--device", "h100", "--batch", "0"), "a batch must be 1 to 1024: 0"),
        (("--device", "h100", "--target", "x86-avx2"), "a GPU runs kernels of .*, not of `x86-avx2`"),
    ],
)
def test_errors_are_one_line(
    machine: Machine, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    where = ["--inventory", str(machine.inventory), "--results", str(machine.results)]
    assert run(["lab", "--against", "metaschedule", DENSE, *arguments, *where]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert re.fullmatch(f"error: {message}", error), error
    assert hint.startswith("hint: ")


def test_a_device_is_for_races(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "--device", "h100", "--batch", "2"]) == 2
    assert capsys.readouterr().err.startswith("error: not without --against: --batch, --device")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(7200)
@pytest.mark.skipif(no_gpu() is not None, reason=str(no_gpu()))
@pytest.mark.parametrize(
    "layer",
    [
        "dense-u8s8-2048x768-o3072-float.c-u8",
        "conv2d-u8s8-64x28x28x128-k1x1x512-s1-p0-float.c-u8",
        "conv2d-u8s8-64x28x28x128-k3x3x128-s1-p1-float.c-u8",
    ],
)
def test_half_as_fast_again(layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = tmp_path / "farm.toml"
    inventory.write_text(FARM)
    where = ["--device", "h100", "--inventory", str(inventory), "--results", str(tmp_path / "results")]
    assert run(["lab", "--against", "metaschedule", layer, "--trials", "64", "--format", "json", *where]) == 0
    (found,) = json.loads(capsys.readouterr().out)["layers"]
    assert found["ratio"]["low"] >= 1.5
