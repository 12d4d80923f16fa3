"""A table of schemes says what the quantized models answer, and in a line what can't be compared."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import onnxruntime

import int8tune as it
from int8tune.quantize.errors import QuantizeError
from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.options import Options
from int8tune.quantize.samples.given import samples_of
from int8tune.rpc.request import Timing
from int8tune.tuner.bench.peers.registry import missing_distributions
from int8tune.tuner.errors import BenchError
from int8tune.tuner.schemes.comparison import Question, compare
from int8tune.tuner.schemes.place import open_place
from int8tune.tuner.schemes.quantizers import Int8Tune, Made
from int8tune.tuner.schemes.scheme import Scheme, schemes_of
from tests.support.models import shared_quant
from tests.support.models.float_models import pictures, saved, small
from tests.support.program.cli_program import LIMIT_S, end, in_process, start
from tests.support.program.pages import Page
from tests.support.program.waiting import wait_until

TESTS, CLASSES = 90, 5
QUICK: dict[str, Any] = {"runs": 5, "run_s": 0.001}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(small(), tmp_path_factory.mktemp("model"))


def answers(path: Path, inputs: Any) -> Any:
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": inputs})
    return found


def sqnr_db(right: Any, seen: Any) -> float:
    right, seen = (each.astype(np.float64) for each in (right, seen))
    return float(10 * np.log10((right**2).sum() / ((right - seen) ** 2).sum()))


@pytest.fixture(scope="module")
def found(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("compared")
    inputs = pictures(TESTS, seed=1) * 2
    labels = np.random.default_rng(2).integers(0, CLASSES, TESTS)
    # The archive has samples of both kinds, as those of real data do.
    np.savez(folder / "data.npz", calibration=pictures(20), inputs=inputs, labels=labels[:, None])
    result = it.compare_schemes(
        path,
        folder / "data.npz",
        test=folder / "data.npz",
        labels=folder / "data.npz",
        schemes="max",
        against="onnxruntime",
        page=folder / "page.html",
        results=folder / "results",
        **QUICK,
    )
    return result, inputs, labels, folder


def test_a_row_says_what_the_quantized_model_answers(found: Any, path: Path, tmp_path: Path) -> None:
    """A library is equal to ONNX Runtime bit for bit: so are all figures of its answers."""
    result, inputs, labels, _ = found
    summary = result.summary
    assert (summary.calibrated, summary.tested) == (20, TESTS)
    it.quantize(path, pictures(20), tmp_path / "q.onnx", calibration="max")
    right, seen = answers(path, inputs), answers(tmp_path / "q.onnx", inputs)
    row = summary.rows[0]
    assert (row.scheme, row.runs_in, row.failure) == ("max", "int8tune", "")
    assert row.sqnr_db == pytest.approx(sqnr_db(right, seen))
    assert row.agreement.count == (right.argmax(axis=1) == seen.argmax(axis=1)).sum()
    are_right = [each.argmax(axis=1) == labels for each in (right, seen)]
    assert [summary.answers.top1.count, row.answers.top1.count] == [each.sum() for each in are_right]
    assert (row.paired.only_first, row.paired.only_second) == tuple(
        (one & ~other).sum() for one, other in (are_right, are_right[::-1])
    )
    assert row.answers.top5 is None  # of five classes
    assert row.file_bytes == (tmp_path / "q.onnx").stat().st_size
    assert row.library_bytes > 1000


def test_others_quantizers_are_compiled_and_timed_beside_it(found: Any) -> None:
    summary = found[0].summary
    assert [row.scheme for row in summary.rows] == ["max", "onnxruntime MinMax", "onnxruntime Percentile"]
    fastest = summary.floats[0].time
    for row in summary.rows:
        assert row.runs_in == "int8tune"
        assert row.sqnr_db > 15
        assert row.time.low_s <= row.time.estimate_s <= row.time.high_s
        assert row.speedup.estimate == pytest.approx(fastest.estimate_s / row.time.estimate_s, rel=0.9)
    assert set(summary.front) <= set(summary.rows)
    frame = found[0].to_pandas()
    assert frame["scheme"].tolist() == [row.scheme for row in summary.rows]
    assert frame["top1"].between(frame["top1_low"], frame["top1_high"]).all()
    assert frame["top5"].isna().all()


def test_the_page_has_every_scheme_tensor_and_threshold(found: Any, path: Path) -> None:
    result, *_, folder = found
    page = Page((folder / "page.html").read_text())
    assert "top-1, %" in page.words
    assert all(row.scheme in page.words for row in result.summary.rows)
    (content,) = page.downloads.values()
    data = json.loads(content)
    assert len(data["tensors"]) == 3
    assert list(data["along_db"]) == ["max"]
    assert all(15 < db < 60 for db in data["along_db"]["max"])
    ranges = it.quantize(path, pictures(20), calibration="max")
    for each in data["histograms"]:
        assert sum(each["counts"]) == ranges.ranges.tensors[each["name"]].values
        assert each["kept"]["max"] == pytest.approx(ranges.thresholds[each["name"]], rel=1e-3)


class Broken(Int8Tune):
    """A quantizer that writes no model, and then nothing at all."""

    name = "broken"

    def variants(self, schemes: Sequence[Scheme]) -> Sequence[tuple[str, Scheme]]:
        return [(f"broken {place}", Scheme(None)) for place in (range(2) if schemes else (1,))]

    def make(self, _model: object, _samples: object, variant: tuple[str, Scheme], *rest: Any) -> Made:
        if variant[0].endswith("1"):
            raise QuantizeError("no such scale")
        rest[1].write_bytes(b"no model")
        return Made(rest[1])


@pytest.mark.thorough
def test_a_scheme_that_fails_is_a_row_that_says_why(path: Path, tmp_path: Path) -> None:
    samples, schemes = samples_of(pictures(8)), schemes_of(["max"], ["per-channel"], ["u8"])
    question = Question(
        read_float_model(path), samples, samples, None, schemes, Options(), (Broken(),), Timing(5, 0.001)
    )
    with open_place(tmp_path / "results") as place:
        summary = compare(question, place)
        own, unreadable, nothing = summary.rows
        assert own.failure == ""
        assert own.time is not None
        assert unreadable.failure == "quantized: not an ONNX file, it begins with 6e 6f 20 6d"
        assert nothing.failure == "no such scale"
        assert unreadable.time is nothing.time is None
        assert not summary.has_labels
        assert summary.front == (own,)
        with pytest.raises(BenchError, match=r"^no scheme came to an end; the first one: no such scale$"):
            compare(replace(question, schemes=()), place)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--labels {folder}/few.npy", "a label is needed for each sample: 3 labels, 12 samples"),
        ("--labels {folder}/high.npy", "labels must be 0 to 4, the outputs of the model: 0 to 11"),
        ("--labels {folder}/x.npy", "{folder}/x.npy: labels must be whole numbers [samples]: float32 (12, 3, 8, 8)"),
        ("--labels {folder}/no.npy", "{folder}/no.npy: No such file or directory"),
        ("--schemes max,mean", "unknown calibration `mean`, known: max, percentile[:p], mse, kl"),
        ("--weights per-row", "weights are per-channel or per-tensor: per-row"),
        ("--activations u7", "data is u8 or s8: u7"),
        ("--against caffe", "unknown quantizer `caffe`, known: onnxruntime, openvino, nncf"),
        ("--test {folder}/none.npy", "{folder}/none.npy: no samples"),
        ("--runs 1", "runs must be 5 to 1000: 1"),
        ("--report {folder}/no/page.html", "{folder}/no"),
    ],
)
def test_what_can_not_be_compared(options: str, words: str, path: Path, tmp_path: Path) -> None:
    for name, array in {
        "x": pictures(12),
        "few": np.arange(3),
        "high": np.arange(12),
        "none": pictures(12)[:0],
    }.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = options.format(folder=tmp_path).split()
    ended = in_process("compare-schemes", path, "--data", tmp_path / "x.npy", "--results", tmp_path / "r", *given)
    assert ended.code in (1, 2)
    first, hint = ended.err.splitlines()
    assert first.startswith("error: ")
    assert words.format(folder=tmp_path) in first
    assert hint.startswith("hint: ")
    assert not list(tmp_path.rglob("*.html"))
    assert not (tmp_path / "r").exists()


@pytest.mark.skipif(not missing_distributions(("nncf",)), reason="needs an environment without nncf")
def test_a_quantizer_that_is_not_installed_says_how_to_get_it(path: Path) -> None:
    ended = in_process("compare-schemes", path, "--data", path, "--against", "nncf")
    assert ended.errors == ["error: `nncf` is not installed: pip install nncf"]


@pytest.mark.thorough
def test_an_interrupt_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", pictures(400))
    options = ("--results", tmp_path / "results", "--report", tmp_path / "page.html")
    process = start("compare-schemes", path, "--data", tmp_path / "x.npy", *options)
    # With a library there, a process of its own runs or times it.
    wait_until(lambda: process.poll() is not None or bool(list(tmp_path.rglob("*.so"))), LIMIT_S)
    ended = end(process, signal.SIGINT, limit_s=20)
    assert (ended.code, ended.err.splitlines()[-1]) == (130, "interrupted")
    assert not list(tmp_path.rglob("*.so"))
    assert not list(tmp_path.glob("*.html*"))


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("network", shared_quant.NETWORKS)
def test_trained_networks(network: str, tmp_path: Path) -> None:
    """Libraries of trained networks answer as ONNX Runtime does, and are faster than the float model."""
    inputs, labels = shared_quant.inputs_of(network, "test")[:200], shared_quant.labels_of(network)
    data = shared_quant.inputs_of(network, "calibration")[:40]
    result = it.compare_schemes(
        shared_quant.float_model(network),
        data,
        test=inputs,
        labels=None if labels is None else labels[:200],
        schemes="mse",
        weights="per-channel,per-tensor",
        results=tmp_path / "results",
        **QUICK,
    )
    name = read_float_model(shared_quant.float_model(network)).inputs[0].name
    for row, is_per_tensor in zip(result.summary.rows, (False, True), strict=True):
        it.quantize(shared_quant.float_model(network), data, tmp_path / "q.onnx", per_tensor=is_per_tensor)
        sessions = [
            onnxruntime.InferenceSession(each) for each in (shared_quant.float_model(network), tmp_path / "q.onnx")
        ]
        right, seen = (session.run(None, {name: inputs})[0] for session in sessions)
        assert row.failure == ""
        assert row.sqnr_db == pytest.approx(sqnr_db(right, seen), abs=1e-3)
        assert row.speedup.low > 1
