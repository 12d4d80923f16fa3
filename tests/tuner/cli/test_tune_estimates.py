"""`int8tune tune --devices` on a Cortex-A53 that QEMU emulates: kernels are exact there, and estimated by llvm-mca."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from int8tune.results.record import ESTIMATED_BY, DeviceCheck, Duel, Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.errors import EstimateError
from int8tune.rpc.mca.estimate import model_name
from int8tune.rpc.provision import provision
from int8tune.tuner.cli.stopping import INTERRUPTED
from tests.sshd import Sshd, running_sshd
from tests.support.farm.boards import A53, AT_ANY_SPEED, CACHE, a53_behind, why_no_a53
from tests.support.program.cli_program import Ended, int8tune, tune_on_boards


def _missing() -> str:
    try:
        model_name("cortex-a53")
    except EstimateError as error:
        return str(error)
    return why_no_a53()


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing())

TRIALS = 3
EMULATED = f'architecture = "aarch64"\nemulator = "{" ".join(A53)}"\n'


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def farm(sshd: Sshd) -> Path:
    """An inventory of a Cortex-A53 behind SSH, of one that is only a model, and of this machine."""
    a53 = a53_behind(sshd, sshd.folder / "a53")
    provision(a53, CACHE, upgrade=False, say=print)
    path = sshd.folder / "farm.toml"
    path.write_text(
        f'[[boards]]\nname = "a53"\ntransport = "ssh"\naddress = "127.0.0.1"\nport = {sshd.port}\n'
        f'user = "{sshd.user}"\nkey_file = "{sshd.user_key}"\nhost_key = "{sshd.host_key}"\n'
        f'folder = "{a53.folder}"\ntiming = "none"\n{EMULATED}'
        f'[[boards]]\nname = "model"\ntransport = "mca"\ntarget = "arm-neon"\ncpu = "cortex-a53"\n{EMULATED}'
        f'[[boards]]\nname = "near"\ntransport = "local"\ntarget = "generic"\n{AT_ANY_SPEED}'
    )
    return path


def tune(farm: Path, folder: Path, devices: str, *options: object) -> Ended:
    return tune_on_boards(farm, folder, devices, TRIALS, *options)


def records(folder: Path) -> list[Trial]:
    with SqliteStore(folder / "results" / "records.db", readonly=True) as store:
        for kind in (DeviceCheck, Duel):
            assert not [entry for entry in store.query(kind) if entry.device in ("a53", "model")]
        return list(store.query(Trial))


@pytest.mark.thorough
@pytest.mark.parametrize("device", ["a53", pytest.param("model", marks=pytest.mark.slow)])
def test_kernels_are_verified_and_estimated(farm: Path, tmp_path: Path, device: str) -> None:
    ended = tune(farm, tmp_path, device)
    assert ended.code == 0, ended.err
    model = model_name("cortex-a53")
    assert f"exact there, but not measured: thousands of cycles as estimated by {model}" in " ".join(ended.out.split())
    found = records(tmp_path)
    assert [trial.outcome for trial in found] == [Outcome.OK] * 2 * TRIALS
    assert all(trial.measurement is None and trial.estimate and trial.estimate.cycles > 1000 for trial in found)
    assert {trial.environment[ESTIMATED_BY] for trial in found} == {model}
    assert {trial.candidate.template for trial in found} == {"arm.conv", "arm.depthwise"}
    lines = (tmp_path / "results" / "small.best.jsonl").read_text().splitlines()[1:]
    assert len(lines) == 2
    assert all("estimated_cycles" in json.loads(line) and "median_s" not in json.loads(line) for line in lines)
    again = tune(farm, tmp_path, device)
    assert again.err.startswith(f"nothing is left to do, {2 * TRIALS} trials are recorded\n")
    assert records(tmp_path) == found
    best = int8tune("results", "best", "--results", tmp_path / "results")
    assert re.search(r"[\d.,]+ kcyc est\.", best.out), best.out


@pytest.mark.thorough
def test_the_a53_and_this_machine_have_a_best_log_each(farm: Path, tmp_path: Path) -> None:
    ended = tune(farm, tmp_path, "near,a53")
    assert ended.code == 0, ended.err
    by_device = {trial.device: trial for trial in records(tmp_path)}
    assert by_device["near"].measurement is not None
    assert by_device["a53"].estimate is not None
    targets = [trial.candidate.target for trial in by_device.values()]
    logs = {path.name for path in (tmp_path / "results").glob("*.best.jsonl")}
    assert logs == {f"small-{target}.best.jsonl" for target in targets}


@pytest.mark.thorough
def test_a_campaign_that_ran_out_of_time_goes_on(farm: Path, tmp_path: Path) -> None:
    first = tune(farm, tmp_path, "model", "--time", "1s")
    assert first.code in (0, INTERRUPTED)
    assert "the time is up; to go on" in first.err
    before = records(tmp_path)
    assert tune(farm, tmp_path, "model").code == 0
    after = records(tmp_path)
    assert len(after) == 2 * TRIALS
    assert [trial for trial in after if trial in before] == before
