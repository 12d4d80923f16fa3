"""`import int8tune as it`: what the commands do, as functions with typed results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import int8tune as it
from int8tune.results.errors import StoreError
from int8tune.results.record import Trial
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.errors import SpecError, TunerError
from tests.support.models.onnx_models import MODELS, quantized
from tests.support.program.cli_program import CONV, DEPTHWISE, int8tune, write_table

MILLISECONDS_OF_IMPORT = 20


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("table") / "small.json")


@pytest.fixture(scope="module")
def results(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of a campaign of two layers, four trials each."""
    folder = tmp_path_factory.mktemp("results")
    found = it.tune(table, results=folder, trials=4, strategy="random")
    assert found.is_finished
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")
    folder = tmp_path_factory.mktemp("model")
    quantized(MODELS["head"](), folder, "u8", "s8", True)
    return folder / "quantized.onnx"


class TestTheImport:
    def test_is_fast_and_loads_nothing(self) -> None:
        code = "import sys, time; a = time.process_time(); import int8tune; b = time.process_time(); "
        code += (
            "print((b - a) * 1e3, *[name for name in sys.modules if name.startswith(('int8tune.', 'numpy', 'pandas'))])"
        )
        taken, *loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
        assert loaded == []
        assert float(taken) < MILLISECONDS_OF_IMPORT

    def test_every_public_name_is_there_and_shown_by_tab(self) -> None:
        assert set(it.__all__) <= set(dir(it))
        for name in it.__all__:
            assert getattr(it, name).__doc__, name
        with pytest.raises(AttributeError, match="no attribute 'tunes'"):
            it.tunes  # noqa: B018

    def test_the_verbs_of_the_command_line_are_there(self) -> None:
        verbs = {
            "plan",
            "tune",
            "layers",
            "compile",
            "load",
            "accuracy",
            "profile",
            "quantize",
            "sensitivity",
            "compare_schemes",
            "bench",
            "records",
            "best",
            "suggest",
            "report",
        }
        assert verbs <= set(it.__all__)

    def test_functions_print_nothing(self, table: Path, capfd: pytest.CaptureFixture[str]) -> None:
        it.plan(table)
        it.layers(table)
        assert capfd.readouterr() == ("", "")


class TestLooking:
    def test_a_plan(self, table: Path) -> None:
        found = it.plan(table, trials=5)
        assert (found.trials, found.predicted_s) == (10, 2.0)
        assert "2 layers, at most 10 trials" in repr(found)
        frame = found.to_pandas()
        assert list(frame["workload"]) == [CONV, DEPTHWISE]
        assert {"template", "space", "count", "label", "network", "target"} <= set(frame)

    def test_a_plan_spends_on_others_what_a_small_space_leaves(self, table: Path) -> None:
        """As a campaign does; each layer says what it would have alone."""
        small, large = sorted(layer.space for layer in it.plan(table, target="generic").layers)
        between = (small + large) // 2
        found = it.plan(table, target="generic", trials=between)
        assert small < between < large
        assert sorted(layer.trials for layer in found.layers) == [small, between]
        assert found.trials == 2 * between

    def test_layers(self, table: Path) -> None:
        found = it.layers(table, target="generic")
        assert [layer.templates for layer in found.layers] == [("generic.direct",), ("generic.depthwise",)]
        assert found.model is None
        assert found.runs == 3
        assert found.to_pandas().loc[1, "count"] == 2

    def test_layers_of_a_model_say_what_keeps_it(self, model: Path) -> None:
        found = it.layers(model).model
        assert found is not None
        assert (found.int8_share, found.lines) == (1.0, ())

    def test_a_network_is_a_name_a_path_or_a_value(self, table: Path) -> None:
        network = it.load_network(str(table))
        assert it.layers(network) == it.layers(str(table)) == it.layers(table)
        assert it.plan(replace(network, name="other")).network == "other"
        assert it.layers("bert_base").network == "bert_base"


class TestTuning:
    @pytest.mark.thorough
    def test_it_goes_on_where_it_was(self, table: Path, results: Path) -> None:
        told: list[it.Progress] = []
        again = it.tune(table, results=results, trials=4, strategy="random", listener=told.append)
        assert again.campaigns[0].nothing_left
        more = it.tune(table, results=results, trials=5, strategy="random", listener=told.append)
        assert (told[0].trials_resumed, told[-1].trials_done) == (8, 10)
        assert more.ending is it.Ending.FINISHED
        frame = more.to_pandas()
        assert list(frame["trials"]) == [5, 5]
        assert {"speedup", "speedup_low", "best.median_s", "default.median_s", "best.config"} <= set(frame)
        assert more.report.exists()
        assert more.best_log.exists()
        assert "5 ok" not in repr(more)
        assert "Campaign small, finished: 10 trials" in repr(more)
        assert "speedup [95 %]" in str(more)

    @pytest.mark.thorough
    @pytest.mark.alone
    def test_an_interrupt_ends_it_cleanly(self, table: Path, tmp_path: Path) -> None:
        """The first SIGINT lets the measurement under way end; the next call measures the rest."""

        def listen(progress: it.Progress) -> None:
            if progress.trials_done == 3:
                os.kill(os.getpid(), signal.SIGINT)

        before = signal.getsignal(signal.SIGINT)
        found = it.tune(table, results=tmp_path, trials=16, strategy="random", listener=listen)
        assert found.ending is it.Ending.INTERRUPTED
        assert not found.is_finished
        assert signal.getsignal(signal.SIGINT) is before
        kept = list(it.records(tmp_path).query(Trial))
        assert 3 <= len(kept) < 32
        assert it.tune(table, results=tmp_path, trials=16, strategy="random").is_finished
        all_of_them = list(it.records(tmp_path).query(Trial))
        assert {trial.started_at for trial in kept} <= {trial.started_at for trial in all_of_them}
        assert len({trial.candidate.id for trial in all_of_them}) == len(all_of_them) == 32

    def test_an_interrupt_of_the_preparation_is_one(
        self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(threads: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
            signal.raise_signal(signal.SIGINT)
            return measuring_and_build_cores(threads)

        monkeypatch.setattr("int8tune.tuner.api.tune.measuring_and_build_cores", interrupted)
        with pytest.raises(KeyboardInterrupt):
            it.tune(table, results=tmp_path, trials=16)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    @pytest.mark.thorough
    def test_somebody_else_asks_for_the_end(self, table: Path, tmp_path: Path) -> None:
        found = it.tune(table, results=tmp_path, trials=4, strategy="random", stop=lambda: True)
        assert found.ending is it.Ending.INTERRUPTED

    def test_what_is_wrong_is_said(self, table: Path, tmp_path: Path) -> None:
        for wrong in ({"cache": "hot"}, {"strategy": "luck"}, {"trials": 0}, {"devices": "a", "threads": 2}):
            with pytest.raises(SpecError):
                it.tune(table, results=tmp_path, **wrong)  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
class TestRecords:
    def test_trials_have_all_columns(self, results: Path) -> None:
        with it.records(results) as records:
            frame = records.to_pandas()
            trials = list(records.query(Trial))
        assert len(frame) == len(trials)
        for column in ("campaign", "network", "strategy", "seed", "device.peak_ops_per_s", "duels.count", "build_s"):
            assert frame[column].notna().all(), column
        assert {f"config.{name}" for trial in trials for name in trial.candidate.config} <= set(frame)
        assert {f"environment.{name}" for name in trials[0].environment} <= set(frame)
        measured = [trial.measurement for trial in trials if trial.measurement]
        assert {f"observed.{name}" for name in measured[0].observed} <= set(frame)
        for (_, row), trial in zip(frame.iterrows(), trials, strict=True):
            assert row["times_s"] == (trial.measurement.times_s if trial.measurement else None)
            assert row["candidate_id"] == trial.candidate.id
        assert frame["version"].dtype == "int64"

    def test_other_tables(self, results: Path) -> None:
        records = it.records(results)
        assert list(records.to_pandas("campaigns")["campaign"]) == ["small"]
        assert set(records.to_pandas("runs")["ending"]) == {"finished"}  # another test may have run it again
        assert (records.to_pandas("devices")["peak_ops_per_s"] > 0).all()
        duels = records.to_pandas("duels", campaign="small")
        assert duels.empty or {"a_time_s", "b_time_s", "pair"} <= set(duels)
        assert records.to_pandas("benches").empty
        assert "1 campaign: small" in repr(records)
        with pytest.raises(TunerError, match="unknown table `trees`, known: trials, duels"):
            records.to_pandas("trees")
        with pytest.raises(StoreError):
            it.records(results / "no")

    @pytest.mark.parametrize("suffix", [".parquet", ".csv"])
    def test_the_command_writes_the_same_table(self, results: Path, tmp_path: Path, suffix: str) -> None:
        import pandas

        out = tmp_path / f"small{suffix}"
        frame = it.records(results).to_pandas()
        shown = int8tune("results", "export", out, "--results", results)
        assert shown.out == f"{len(frame)} configs of 2 layers\n", shown.err
        read = pandas.read_parquet(out) if suffix == ".parquet" else pandas.read_csv(out)
        assert list(read) == list(frame)
        assert list(read["candidate_id"]) == list(frame["candidate_id"])
        assert list(read["time_s"]) == pytest.approx(list(frame["time_s"]), rel=1e-12)

    def test_the_best_and_suggestions(self, results: Path) -> None:
        found = it.best(results)
        assert {best.workload for best in found} == {CONV, DEPTHWISE}
        assert {"speedup", "template", "config", "is_default"} <= set(found.to_pandas())
        assert it.best(log=results / "small.best.jsonl") == found
        (suggestion,) = it.suggest(CONV, results=results)
        assert suggestion.source == "records"
        page = it.report(results / "again.html", results=results)
        assert (page.campaign, page.page.exists()) == ("small", True)


class TestModels:
    def test_one_is_compiled_loaded_and_exact(self, model: Path, tmp_path: Path) -> None:
        made = it.compile(model, tmp_path / "model.so", results=tmp_path / "none", target="generic")
        assert made.sources == {"default": 4}
        assert len(made.to_pandas()) == len(made.about.calls)
        loaded = made.load()
        image = np.zeros(loaded.about.inputs[0]["shape"], np.float32)
        (output,) = loaded.run([image])
        assert (output == it.load(tmp_path / "model.so").run([image])[0]).all()
        found = it.accuracy(model, count=5, results=tmp_path / "none", target="generic")
        assert found.is_exact
        assert "1 output equal to onnxruntime" in repr(found)
        assert list(found.to_pandas()["differing"]) == [0]

    @pytest.mark.thorough
    def test_libraries_are_compared(self, model: Path, tmp_path: Path) -> None:
        found = it.bench(model, against="onnxruntime", runs=5, run_s=0.002, results=tmp_path)
        assert isinstance(found, it.ModelBenches)
        assert list(found.to_pandas()["runtime"]) == ["int8tune", "onnxruntime"]
        layers = it.bench([CONV], against=["onnxruntime"], runs=5, run_s=0.002, results=tmp_path)
        assert isinstance(layers, it.LayerBench)
        assert not layers.interrupted
        frame = layers.to_pandas()
        assert list(frame["library"]) == ["int8tune", "onnxruntime"]
        assert all(len(times_s) == 5 for times_s in frame["times_s"])
        assert len(it.records(tmp_path).to_pandas("benches")) == 2
