"""Networks with layers in several forms are tried for real, and the fastest within the limit is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import onnxruntime

import int8tune as it
from int8tune.quantize.errors import FloatModelError, QuantizeSpecError
from int8tune.quantize.forms import Form
from int8tune.tuner.cli.choosing import as_json
from int8tune.tuner.errors import ChoiceError, SamplesError, SpecError
from tests.support.models.float_models import pictures, saved, small
from tests.support.models.onnx_models import onnx
from tests.support.models.shared_quant import NETWORKS, float_model, inputs_of, labels_of
from tests.support.program.cli_program import in_process

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose answers differ from sample to sample: its logits have a mean of zero."""
    model, folder = small(), tmp_path_factory.mktemp("model")
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "dense.b")
    mean = logits(saved(model, folder), pictures(100)).mean(axis=0)
    bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) - mean, "dense.b"))
    return saved(model, folder)


def logits(file: Path, values: Array) -> Array:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: values})[0])


def answers(file: Path, values: Array) -> Array:
    return np.asarray(logits(file, values).argmax(axis=1))


def assert_right(found: it.ChoiceResult, limit: float) -> None:
    """What is true of every choice."""
    points = found.choice.points
    within = [point for point in points if point.drop <= limit]
    assert found.chosen == min(within, key=lambda point: point.time.estimate_s)
    for point in points:
        better = [
            each
            for each in points
            if each.time.estimate_s <= point.time.estimate_s and each.drop <= point.drop and each != point
        ]
        assert point.is_on_front == (not better)
    assert any(not point.forms for point in points)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_the_choice_is_what_its_file_answers(path: Path, tmp_path: Path) -> None:
    """Chooses for the dense layer alone, so that few networks are compiled."""
    tests = pictures(60, seed=1)
    right = answers(path, tests)
    labels = np.where(np.arange(60) % 5, right, (right + 1) % 5)
    found = it.choose(
        path,
        pictures(40),
        tmp_path / "chosen.onnx",
        max_drop=1,
        test=tests,
        labels=labels,
        skip=("stem", "body"),
        time_s=60,
        runs=5,
        run_s=0.001,
        results=tmp_path / "results",
    )
    assert_right(found, 1)
    assert (found.measure, found.choice.timed, found.choice.to_time) == ("top-1", 4, 4)
    assert {form for point in found.choice.points for form in point.forms.values()} >= {Form.WORDS}
    seen = answers(tmp_path / "chosen.onnx", tests)
    assert found.chosen.top1 is not None
    assert found.chosen.top1.count == (seen == labels).sum()
    assert found.chosen.agreement.count == (seen == right).sum()
    assert found.chosen.drop == pytest.approx(100 * ((right == labels).sum() - (seen == labels).sum()) / 60)
    table = found.to_pandas()
    assert len(table) == len(found.choice.points)
    assert list(table["form.dense"]) == [str(found.forms(point)["dense"]) for point in found.choice.points]
    assert table["is_chosen"].sum() == 1
    told = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert [each["is_chosen"] for each in told["networks"]] == list(table["is_chosen"])
    assert not list((tmp_path / "results").rglob("*.so"))


def test_the_program_shows_the_front(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", pictures(20))
    words = ("quantize", path, "--data", tmp_path / "s.npy", "--choose", "--max-drop", 100, "--time", "0.01s")
    shown = in_process(*words, "--results", tmp_path / "results", "-o", tmp_path / "q.onnx")
    assert shown.code == 0, shown.err
    head, row = shown.out.splitlines()
    assert head.strip().startswith("ms [95 %]")
    assert row.startswith("chosen")
    assert "1 network was compiled, run on 20 samples" in shown.err
    assert "0 of 12 forms of layers were timed" in shown.err
    it.quantize(path, pictures(20), tmp_path / "usual.onnx")
    assert (tmp_path / "q.onnx").read_bytes() == (tmp_path / "usual.onnx").read_bytes()


REFUSED = {
    "a limit without a choice": (("--max-drop", "1"), "--max-drop is for a choice: add --choose"),
    "labels without a choice": (("--labels", "l.npy"), "--labels is for a choice: add --choose"),
    "a negative limit": (("--choose", "--max-drop", "-1"), "a drop must be 0 to 100 points: -1"),
    "ranges": (("--choose", "--ranges", "r.json"), "--choose needs samples, not ranges"),
    "no time": (("--choose", "--time", "0s"), "a time must be above 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_are_refused_in_one_line(case: str, path: Path, tmp_path: Path) -> None:
    options, said = REFUSED[case]
    np.save(tmp_path / "s.npy", pictures(4))
    refused = in_process("quantize", path, "--data", tmp_path / "s.npy", "-o", tmp_path / "q.onnx", *options)
    assert refused.code == 2
    assert len(refused.errors) == 1
    assert said in refused.err
    assert not (tmp_path / "q.onnx").exists()


def test_bad_input_is_refused(path: Path, tmp_path: Path) -> None:
    samples, results = pictures(6), tmp_path / "results"
    with pytest.raises(SamplesError, match="a label is needed for each sample: 5 labels, 6 samples"):
        it.choose(path, samples, labels=[0, 1, 2, 3, 4], results=results)
    with pytest.raises(SpecError, match="a drop must be 0 to 100 points: nan"):
        it.choose(path, samples, max_drop=float("nan"), results=results)
    with pytest.raises(QuantizeSpecError, match="no layer is left to choose a form of"):
        it.choose(path, samples, skip=("stem", "body", "dense"), results=results)
    it.quantize(path, samples, tmp_path / "q.onnx")
    with pytest.raises(FloatModelError, match="is quantized already"):
        it.choose(tmp_path / "q.onnx", samples, results=results)


def test_where_none_is_within_the_limit_nothing_is_written(path: Path, tmp_path: Path) -> None:
    """A tenth of all values is clipped."""
    options: dict[str, Any] = {"calibration": "percentile:90", "bias_correction": False, "round_weights": False}
    with pytest.raises(ChoiceError, match=r"no network of 1 that were tried has a drop of at most 0 points: the least"):
        it.choose(
            path, pictures(300), tmp_path / "q.onnx", max_drop=0, time_s=0.01, results=tmp_path / "results", **options
        )
    assert not (tmp_path / "q.onnx").exists()


@pytest.mark.thorough
def test_an_interrupt_leaves_nothing(path: Path, tmp_path: Path) -> None:
    def interrupt(doing: str, _done: int, _total: int) -> None:
        if doing == "timing forms of layers":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        it.choose(path, pictures(20), tmp_path / "q.onnx", results=tmp_path / "results", report=interrupt)
    assert [each for each in tmp_path.rglob("*") if each.is_file() and each.suffix != ".db"] == []


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("network", NETWORKS)
def test_trained_networks(network: str, tmp_path: Path) -> None:
    tests, file = inputs_of(network, "test")[:500], tmp_path / "q.onnx"
    labels = labels_of(network)
    found = it.choose(
        float_model(network),
        inputs_of(network, "calibration")[:100],
        file,
        max_drop=2,
        test=tests,
        labels=None if labels is None else labels[:500],
        time_s=100,
        results=tmp_path / "results",
    )
    assert_right(found, 2)
    assert len(found.choice.points) > 1
    np.save(tmp_path / "s.npy", tests[:20, None])
    compared = it.accuracy(file, samples=tmp_path / "s.npy", results=tmp_path / "results")
    assert compared.is_exact or compared.floats or Form.WORDS in found.chosen.forms.values()
    assert abs((answers(file, tests) == answers(float_model(network), tests)).sum() - found.chosen.agreement.count) <= 2
