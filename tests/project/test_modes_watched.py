"""No mode of the program opens a port or a Unix socket to anybody, neither itself nor anything it starts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.models.onnx_models import MODELS, quantized
from tests.support.program.cli_program import CONV, int8tune, write_table
from tests.support.program.dask_processes import DaskProcesses
from tests.support.program.watched import Watch
from tests.tuner.cli.test_simulate import write_farm

pytestmark = pytest.mark.promise(8)

TUNE = "tune small.json --results kept --strategy random --trials 1"
RACE = "--against onnxruntime --runs 5 --run-ms 1 --results kept"
# Some need what those before them made. Boards behind SSH are in `tests/rpc/farm/test_watched.py`.
MODES: Mapping[str, tuple[str, ...]] = {
    "tables": ("plan small.json", "layers small.json", "templates list", "simulate farm.toml --trials 50"),
    "models": (
        "compile model.onnx -o model.so --results kept",
        "accuracy model.onnx --count 2 --results kept",
        f"bench model.onnx {RACE}",
    ),
    "campaign": (TUNE, "results best --results kept", "report page.html --results kept"),
    "check": ("devices check",),
    "layers": (f"bench {CONV} --against onednn --results kept",),
    "bundle": (
        "bundle make small.json --device node7 --target generic --trials 1 --results kept",
        "bundle run kept/small.bundle-1.pyz --folder . --canary-tolerance 1",
        "bundle merge small.bundle-1.results --results kept",
    ),
    "lab": ("lab --trials 8 --seeds 1 --strategies random",),
    "race": (f"lab --against metaschedule {CONV} --trials 2 --results kept",),
}
START_LIMIT_S = 60.0
# MetaSchedule takes minutes where others work beside it.
MODE_LIMIT_S = 300.0
QUICK = ("tables", "models")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_table(tmp_path / "small.json", [{"name": "a", "count": 1, "workload": CONV}])
    write_farm(tmp_path)
    return tmp_path


def doors_of(command: str, place: Path) -> set[str]:
    """What listened while a command ran, which must end well."""
    with Watch(list) as watch:
        ended = int8tune(*command.split(), cwd=place, limit_s=MODE_LIMIT_S)
    assert ended.code == 0, ended.err
    assert watch.looks > 3
    return watch.doors


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.alone
@pytest.mark.parametrize(
    "mode", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODES]
)
def test_no_mode_listens(mode: str, place: Path) -> None:
    if mode == "models":
        pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")
        quantized(MODELS["head"](), place, "u8", "s8", True)
        (place / "quantized.onnx").rename(place / "model.onnx")
    assert {command: doors_of(command, place) for command in MODES[mode]} == {command: set() for command in MODES[mode]}


@pytest.mark.timeout(600)
@pytest.mark.alone
@pytest.mark.slow
def test_a_campaign_that_builds_on_a_cluster_does_not_listen(place: Path) -> None:
    """Nor do the workers, beside what they listened to before."""
    pytest.importorskip("distributed", reason="needs the extra `dask`")
    cluster = DaskProcesses(place)
    try:
        cluster.add_worker()
        deadline = time.monotonic() + START_LIMIT_S
        while "Registered to" not in (place / "dask.log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert doors_of(f"{TUNE} --build-cluster {cluster.address}", place) == set()
    finally:
        cluster.close()
