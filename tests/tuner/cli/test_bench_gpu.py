"""`int8tune bench --device BOARD` as a person types it, on an emulated GPU.

All but NVIDIA's compiler, driver and libcublasLt is what a comparison has there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import int8tune.rpc.agent.cuda_libraries
import int8tune.tuner.bench.gpu.site
import int8tune.tuner.bench.run
from int8tune.results.base import Store
from int8tune.results.record import BenchResult, Outcome
from int8tune.results.store import SqliteStore
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.own import Choice, choose
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cli.program import run
from int8tune.tuner.device_check import Probes, build_probes
from tests.support.gpu.machine import FARM, Machine

pytestmark = pytest.mark.usefixtures("emulated_gpu")

DENSE = "dense-u8s8-32x16-o24-float.c-u8"
POINTWISE = "conv2d-u8s8-1x4x4x16-k1x1x32-s1-p0-float.c-u8"
DEPTHWISE = "dwconv2d-u8s8-1x9x9x32-k3x3x1-s1-p1-float.c-u8"
SPATIAL = "conv2d-u8s8-1x5x5x8-k3x3x16-s1-p1-float.c-u8"
BRIEF = ("--runs", "5", "--run-ms", "1")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.thorough
def test_a_table_of_layers_whose_outputs_were_verified(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    against = ("--against", "cublaslt,cublaslt-gemm")
    assert machine.bench(DENSE, POINTWISE, SPATIAL, DEPTHWISE, *against, *BRIEF) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    head = r"Emulated GPU \(cuda-sm90\), driver 580\.65\.06, peak [\d.]+ TOPS, at most 2,141 at its highest clock"
    assert re.fullmatch(head, lines[0]), lines[0]
    assert lines[3].split()[:7] == ["layer", "ours", "TOPS", "peak", "from", "cublaslt", "cublaslt-gemm"]
    assert re.search(r"^conv 1x1 4x4x16->32 +[\d.,]+ +[\d.]+ +[\d.]+% default +[\d.,]+\* +- ", shown.out, re.MULTILINE)
    assert re.search(r"^conv 3x3 5x5x8->16 +[\d.,]+ +[\d.]+ +[\d.]+% default +- +[\d.,]+\* ", shown.out, re.MULTILINE)
    assert re.search(r"^dw 3x3 9x9x32 .* alone$", shown.out, re.MULTILINE)
    assert [line.split()[0] for line in shown.err.splitlines() if "/4" in line] == ["1/4", "2/4", "3/4", "4/4"]
    with SqliteStore(machine.results / "records.db", readonly=True) as store:
        found = list(store.query(BenchResult))
    assert [result.workload for result in found] == [DENSE, POINTWISE, SPATIAL, DEPTHWISE]
    assert {result.ours.outcome for result in found} == {Outcome.OK}, [result.ours.error for result in found]
    assert [[peer.outcome for peer in result.peers] for result in found] == [
        [Outcome.OK, Outcome.REJECTED],
        [Outcome.OK, Outcome.REJECTED],
        [Outcome.REJECTED, Outcome.OK],
        [Outcome.REJECTED, Outcome.REJECTED],
    ]
    assert {result.device for result in found} == {"h100"}
    assert found[0].peers[0].workload == "dense-s8s8-32x16-o24-float.t-s8"
    assert len(found[0].peak_ops_per_s) == 5
    assert found[0].environment["gpu_int8_ops_per_s"] == str(132 * 8192 * 1_980_000_000)


@pytest.mark.thorough
def test_batches_classes_and_json(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--only", "pointwise", "--batch", "3", "--against", "cublaslt-s32", "--format", "json")
    assert machine.bench(POINTWISE, DENSE, *chosen, *BRIEF) == 0
    values = json.loads(capsys.readouterr().out)
    (layer,) = values["layers"]
    assert layer["workload"] == "conv2d-u8s8-3x4x4x16-k1x1x32-s1-p0-float.c-u8"
    assert layer["class"] == "conv 1x1"
    assert layer["peers"][0]["workload"] == "conv2d-s8s8-3x4x4x16-k1x1x32-s1-p0-s32"
    assert layer["ops_per_s"] == pytest.approx(2 * 3 * 16 * 16 * 32 / layer["time_s"])
    assert layer["peak_share"] > 0


@pytest.mark.thorough
def test_layers_without_a_template_are_left_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def choose_but_depthwise(store: Store, workload: Workload, target: Target, device: str, _: str | None) -> Choice:
        if workload.op == "dwconv2d":
            raise WorkloadError("no template takes it")
        return choose(store, workload, target, device)

    monkeypatch.setattr(int8tune.tuner.bench.run, "choose", choose_but_depthwise)
    assert machine.bench(DEPTHWISE, DENSE, "--against", "cublaslt", *BRIEF) == 0
    shown = capsys.readouterr()
    assert f"note: 1 layer is left out, no template takes such: {DEPTHWISE}" in shown.err
    assert "dense 32x16->24" in shown.out


@pytest.mark.thorough
@pytest.mark.parametrize(("template", "loop"), [("cuda.dp4a", "words"), ("cuda.mma", "peak")])
def test_a_template_is_held_against_its_own_peak(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, template: str, loop: str
) -> None:
    asked: list[str] = []

    def listening(pool: BuildPool, target: Target, folder: Path, sizes: Mapping[str, int], loop: str) -> Probes:
        asked.append(loop)
        return build_probes(pool, target, folder, sizes, loop)

    monkeypatch.setattr(int8tune.tuner.bench.gpu.site, "build_probes", listening)
    assert machine.bench(DENSE, "--template", template, "--against", "cublaslt", *BRIEF) == 0
    with SqliteStore(machine.results / "records.db", readonly=True) as store:
        (found,) = store.query(BenchResult)
    assert found.candidate.template == template
    assert found.ours.outcome is Outcome.OK, found.ours.error
    assert asked == [loop]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["x86-avx2", "cuda-sm123"])
def test_a_gpu_takes_no_other_target(machine: Machine, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert machine.bench(DENSE, "--target", name, "--against", "cublaslt") == 2
    error, _ = capsys.readouterr().err.splitlines()
    assert name in error


@pytest.mark.thorough
def test_without_a_library_to_compare_with_it_is_timed_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(int8tune.rpc.agent.cuda_libraries, "PLACES", ())
    assert machine.bench(DENSE, "--against", "cublaslt", *BRIEF) == 0
    shown = capsys.readouterr()
    note = "note: cublaslt is left out, not installed: nvidia-cublas; pip install 'int8tune[gpu-peers]'"
    assert shown.err.splitlines()[0] == note
    assert re.search(r"^dense 32x16->24 .* alone$", shown.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"driver": 0}, "this machine has no driver of NVIDIA's"),
        ({"driver": 12040}, "its driver is too old: of CUDA 12.4, needed 13.0"),
        ({"gpus": 0}, "the driver finds no GPU"),
    ],
)
def test_without_a_gpu_it_ends_with_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, int],
    fault: str,
) -> None:
    machine = Machine(tmp_path, monkeypatch, **settings)
    assert machine.bench(DENSE) == 4
    error, hint = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")]
    assert error == f"error: the GPU of `h100` can't be used: {fault}"
    assert hint == "hint: see the driver and its GPUs: nvidia-smi"
    assert not (machine.results / "records.db").exists()


@pytest.mark.parametrize(
    ("arguments", "device", "message"),
    [
        ((DENSE,), "here", 'a device to compare on must be a GPU of this machine, transport = "gpu": `here` has .*'),
        ((DENSE,), "h200", "unknown board `h200` in .*, known: h100, here"),
        ((DENSE, "--against", "onednn"), "h100", "unknown library `onednn`, known: cublaslt, .*, triton"),
        ((DENSE, "--only", "pointwise-small"), "h100", "unknown class `pointwise-small`, known: dense-large, .*"),
        ((DENSE, "--only", "dense-large"), "h100", "none of the layers is of this class: dense, large"),
        ((DENSE, "--template", "cuda.nothing"), "h100", "unknown template `cuda.nothing`.*"),
        ((DENSE, "--batch", "0"), "h100", "a batch must be 1 to 1024: 0"),
        ((DENSE, "--threads", "2"), "h100", "--threads, --without-amx and --float are for a CPU: leave --device out"),
    ],
)
def test_errors_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], device: str, message: str
) -> None:
    inventory = tmp_path / "farm.toml"
    inventory.write_text(FARM)
    where = ["--device", device, "--inventory", str(inventory), "--results", str(tmp_path / "results")]
    assert run(["bench", *arguments, *where]) == 2
    error, hint = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")]
    assert re.fullmatch(f"error: {message}", error), error
    assert hint.startswith("hint: ")
    assert not (tmp_path / "results").exists()
