"""The figures of kernels for GPUs, where there is one; what holds them against their goals, on an emulated one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from int8tune.compiler.toolchain import nvrtc
from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.tuner.bench.layers import choose_layers
from int8tune.tuner.cli.program import run
from tests import gpu_figures
from tests.gpu_figures import (
    CUBES,
    HOPPER,
    LIMIT_S,
    MOST_LAYERS,
    Figure,
    figures,
    measured,
    predicted_s,
    reached,
    row,
    spread,
)
from tests.support.gpu.machine import FARM, Machine, no_gpu
from tests.support.program.cli_program import write_table

SMALL = "dense-u8s8-32x16-o24-float.c-u8"
LAYERS = (
    "conv2d-u8s8-4x14x14x64-k3x3x128-s1-p1-float.c-u8",
    "conv2d-s8s8-1x28x28x32-k1x1x64-s2-p0-fixed.c-adds8-s8",
    "dense-u8u8-64x512-o256-wz-float.c-u8",
    "dwconv2d-u8s8-1x28x28x64-k3x3x1-s1-p1-float.c-u8",
)
needs_compiler = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
needs_emulated = pytest.mark.usefixtures("emulated_gpu")


def layer(**changed: object) -> dict[str, object]:
    ratio = {"estimate": 0.9, "low": 0.8, "high": 1.0}
    return {"outcome": "ok", "ratio": ratio, "peak_share": 0.5, **changed}


@pytest.mark.parametrize(
    ("measure", "goal", "changed", "meets"),
    [
        ("ratio", 0.8, {}, True),
        ("ratio", 1.0, {}, False),
        ("peak_share", 0.4, {}, True),
        ("peak_share", 0.6, {}, False),
        ("ratio", 0.8, {"outcome": "wrong_answer"}, False),
        ("ratio", 0.8, {"ratio": None}, False),
    ],
)
def test_a_figure_is_reached_by_exact_kernels_that_are_fast(
    measure: str, goal: float, changed: dict[str, object], meets: bool
) -> None:
    total = {"ratio": None if "ratio" in changed else 0.9, "peak_share": 0.5}
    figure = Figure("", (), measure, goal)
    assert reached(figure, {"layers": [layer(**changed)], "total": total}).meets(figure) is meets


def test_what_gpus_without_wgmma_are_held_against() -> None:
    elsewhere = [figure.on("cuda-sm80") for figure in figures()]
    assert [figure.measure for figure in elsewhere] == ["peak_share"] * 5 + ["ratio"] * 2 + ["peak_share"]
    assert [figure.goal for figure in elsewhere] == [0.9] * 5 + [1.3] * 2 + [0.85]
    assert [figure.on(HOPPER).goal for figure in figures()] == [0.9] * 3 + [1.0] * 2 + [1.3] * 2 + [0.85]


def test_figures_are_of_few_layers_and_of_products_of_two_sizes() -> None:
    found = figures()
    assert [figure.bench for figure in found[:2]] == [(key,) for key in CUBES]
    for figure in found:
        assert 1 <= len(figure.layers) <= MOST_LAYERS
    assert sum(predicted_s(figure, 16) for figure in found) < LIMIT_S


def test_layers_are_spread_over_their_sizes() -> None:
    layers = choose_layers(["resnet50"])
    chosen = spread(layers, 3)
    by_macs = sorted(layer.macs for layer in layers)
    assert chosen[0].macs == by_macs[0]
    assert chosen[-1].macs == by_macs[-1]
    assert by_macs[0] < chosen[1].macs < by_macs[-1]
    assert len(spread(layers, 1000)) == len(layers)


def test_more_cores_and_smaller_layers_take_less_time() -> None:
    cubes = figures()[:2]
    assert predicted_s(cubes[0], 16) < predicted_s(cubes[1], 16) < predicted_s(cubes[1], 2)


def test_figures_that_would_end_too_late_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_figures, "measured", lambda *_: pytest.fail("it was measured"))
    assert gpu_figures.main(["--device", "h100", "--limit-s", "1"]) == 0
    said = capsys.readouterr().err
    assert re.match(r"8 figures, about \d+ s on \d+ cores, no new one after 1 s\n", said)
    assert said.count("left out, about") == 8


@pytest.mark.thorough
@needs_compiler
def test_figures_without_tvm_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bundle of the layers that are small enough; results that are none are refused by the command that merges."""
    words = ["--device", "h100", "--layers", "1", "--bundle", str(tmp_path)]
    assert gpu_figures.main(words) == 0
    made = capsys.readouterr()
    assert "2 of 7 layers are small enough to be sent" in made.err
    (bundle,) = tmp_path.glob("*.pyz")
    assert bundle.stat().st_size < 58 << 20
    strange = tmp_path / "strange.results"
    strange.write_text("nothing")
    assert gpu_figures.main([*words, "--merge", str(strange)]) != 0


@pytest.mark.thorough
@needs_emulated
def test_figures_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    monkeypatch.setattr(gpu_figures, "figures", lambda _: [Figure("small", (SMALL,), "ratio", 1e6)])
    rest = ("--inventory", str(machine.inventory), "--results", str(machine.results), "--against", "cublaslt")
    assert gpu_figures.main(["--device", "h100", "--", *rest, "--runs", "5", "--run-ms", "1"]) == 1
    (found,) = capsys.readouterr().out.splitlines()[2:]
    assert re.fullmatch(r"\| small \| 1 \| ratio \| [\d.]+ \| [\d.]+ \| 1000000.00 \| missed \|", found)


class TestThisMachine:
    """On its GPU, for the newest architecture whose code that runs."""

    pytestmark = pytest.mark.skipif(no_gpu() is not None, reason=str(no_gpu()))

    @pytest.fixture
    def options(self, tmp_path: Path) -> tuple[str, ...]:
        (tmp_path / "farm.toml").write_text(FARM)
        return ("--inventory", str(tmp_path / "farm.toml"), "--results", str(tmp_path / "results"))

    @pytest.mark.alone
    @pytest.mark.timeout(600)
    def test_candidates_are_exact(self, options: tuple[str, ...], tmp_path: Path) -> None:
        table = write_table(tmp_path / "small.json", [{"name": key, "count": 1, "workload": key} for key in LAYERS])
        assert run(["tune", str(table), "--devices", "h100", "--trials", "8", *options]) == 0
        with SqliteStore(tmp_path / "results" / "records.db", readonly=True) as store:
            trials = list(store.query(Trial))
        assert {trial.outcome for trial in trials} == {Outcome.OK}
        assert {trial.candidate.target for trial in trials} <= set(GPU_PROFILES)

    @pytest.mark.alone
    @pytest.mark.slow
    @pytest.mark.timeout(7200)
    @pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.text)
    def test_kernels_reach(self, figure: Figure, options: tuple[str, ...]) -> None:
        own, found = measured(figure, ("--device", "h100", *options))
        assert found.meets(own), row(own, found)
