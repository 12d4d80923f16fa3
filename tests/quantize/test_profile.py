"""Profiles of float models: what is counted is what a run gives; what can't be profiled is said in a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from int8tune.quantize.errors import CalibrationError, FloatModelError, QuantizeSpecError, RangesError
from int8tune.quantize.ranges import BINS
from int8tune.quantize.ranges_file import read_ranges
from tests.support.models.float_models import pictures, saved, small
from tests.support.models.onnx_models import Writer, onnx
from tests.support.models.shared_quant import float_model, shared_file
from tests.support.program.cli_program import in_process

SAMPLES = 11


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(small(), tmp_path_factory.mktemp("model"))


def all_values(model: Any, samples: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Every float tensor by ONNX's own reference, all samples at once."""
    from onnx.reference import ReferenceEvaluator

    names = [name for node in model.graph.node for name in node.output]
    model = onnx.ModelProto.FromString(model.SerializeToString())
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in names)
    return {"x": samples} | dict(zip(names, ReferenceEvaluator(model).run(None, {"x": samples}), strict=True))


def test_every_tensor_has_the_statistics_of_its_values(path: Path) -> None:
    samples = pictures(SAMPLES)
    found = it.profile(path, samples).ranges
    expected = all_values(small(), samples)
    assert list(found.tensors) == list(expected)
    for name, values in expected.items():
        each = found.tensors[name]
        assert each.values == values.size
        assert each.zeros == pytest.approx((values == 0).sum(), abs=2)
        for seen, right in (
            (each.minimum, values.min()),
            (each.maximum, values.max()),
            (each.mean, values.mean(dtype=np.float64)),
            (each.deviation, values.std(dtype=np.float64)),
        ):
            assert seen == pytest.approx(right, rel=1e-4, abs=1e-5), name
        by_channel = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
        np.testing.assert_allclose(each.channel_minimum, by_channel.min(axis=1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(each.channel_maximum, by_channel.max(axis=1), rtol=1e-4, atol=1e-5)
        counts = np.histogram(values, BINS, (each.minimum, each.maximum))[0]
        # A value next to the border of two bins may be in either.
        assert np.abs(np.cumsum(each.counts) - np.cumsum(counts)).max() <= 3, name
        assert sum(each.histogram) == values.size


def test_a_tensor_says_what_makes_it(path: Path) -> None:
    tensors = it.profile(path, pictures(2)).ranges.tensors
    assert [(tensors[name].producer, tensors[name].node) for name in ("x", "sum", "logits")] == [
        ("input", ""),
        ("Add", "add"),
        ("Gemm", "dense"),
    ]


def test_the_file_holds_all_and_is_the_same_again(path: Path, tmp_path: Path) -> None:
    found = it.profile(path, pictures(SAMPLES), tmp_path / "a.json")
    assert read_ranges(tmp_path / "a.json") == found.ranges
    it.profile(path, pictures(SAMPLES), tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert list(found.to_pandas()["name"]) == list(found.ranges.tensors)
    assert "9 tensors, 11 samples" in repr(found)


def test_the_same_samples_in_another_form_have_the_same_digest(path: Path, tmp_path: Path) -> None:
    samples = pictures(SAMPLES)
    np.save(tmp_path / "s.npy", samples)
    np.savez_compressed(tmp_path / "s.npz", x=samples, y=samples)
    np.savez(tmp_path / "t.npz", calibration=samples, labels=np.zeros(3))
    digests = {
        it.profile(path, data).ranges.data_sha256
        for data in (samples, tmp_path / "s.npy", tmp_path / "s.npz", tmp_path / "t.npz", lambda: iter(samples))
    }
    assert len(digests) == 1
    assert it.profile(path, samples, count=3).ranges.data_sha256 not in digests


def test_pictures_of_a_folder(path: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), np.uint8)
    for number, each in enumerate(pixels):
        image.fromarray(each).save(tmp_path / f"{number}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    options = {"divide": 255, "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.25)}
    found = it.profile(path, tmp_path, **options).ranges
    assert found.data_sha256 == it.profile(path, pixels, **options).ranges.data_sha256
    assert found.tensors["x"].maximum == pytest.approx(((pixels / 255 - options["mean"]) / options["std"]).max())


def test_a_function_of_a_module(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import numpy\ndef samples():\n    for n in range(3):\n        yield numpy.full((3, 8, 8), n, numpy.float32)\n"
    )
    (tmp_path / "own_samples.py").write_text(text + "def broken():\n    yield 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert it.profile(path, "own_samples:samples").ranges.tensors["x"].maximum == 2
    with pytest.raises(CalibrationError, match="own_samples:broken fails: ZeroDivisionError"):
        it.profile(path, "own_samples:broken")
    with pytest.raises(CalibrationError, match="has no attribute 'none'"):
        it.profile(path, "own_samples:none")


def test_a_model_of_a_fixed_batch_and_two_inputs() -> None:
    writer = Writer([2, 4])
    writer.inputs.append(onnx.helper.make_tensor_value_info("y", 1, [2, 4]))
    model = writer.model(writer.node("Add", ["x", "y"], "sum"))
    ones = np.ones((4, 4), np.float32)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = saved(model, Path(folder))
        assert it.profile(file, {"x": ones, "y": ones * 2}).ranges.tensors["sum"].maximum == 3
        with pytest.raises(CalibrationError, match="takes 2 samples at once, 3 leave 1"):
            it.profile(file, {"x": ones[:3], "y": ones[:3]})
        with pytest.raises(CalibrationError, match="must be a dict with arrays for x, y"):
            it.profile(file, ones)


def test_not_a_number_within_the_model_is_counted_and_said(tmp_path: Path) -> None:
    writer = Writer(["n", 2])
    model = saved(writer.model(writer.node("Log", ["x"], "logarithm", "log")), tmp_path)
    values = np.asarray([[1, 2], [0, -1], [3, 4]], np.float32)
    found = it.profile(model, values).ranges
    each = found.tensors["logarithm"]
    assert (each.nan, each.infinite, each.values) == (1, 1, 6)
    assert (each.minimum, each.maximum, sum(each.histogram)) == (0, pytest.approx(np.log(4)), 4)
    assert found.faults() == ["tensor `logarithm`, made by Log, has 1 NaN and 1 infinities"]


def test_a_constant_tensor_is_said(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.zeros((2, 3, 8, 8), np.float32))
    ended = in_process("profile", path, "--data", tmp_path / "s.npy", "-o", tmp_path / "o.json")
    assert ended.code == 0
    assert "tensor `x` is constant: 0" in ended.err.splitlines()
    assert read_ranges(tmp_path / "o.json").tensors["x"].counts[0] == 2 * 3 * 64


def changed(change: Callable[[Any], object]) -> Any:
    model = small()
    change(model)
    return model


def kept_elsewhere(model: Any) -> None:
    tensor = model.graph.initializer[0]
    tensor.data_location = 1
    tensor.external_data.add(key="location", value="weights.bin")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (kept_elsewhere, "keeps `stem.w` in `weights.bin`; make one file of both: python -c"),
        (lambda m: setattr(m.graph.node[0], "op_type", "QLinearConv"), "is quantized already: QLinearConv `stem`"),
        (lambda m: setattr(m.graph.node[1], "op_type", "Nothing"), "ONNX Runtime can't run it: .*Nothing"),
        (lambda m: m.graph.ClearField("input"), "a model needs an input"),
        (lambda m: m.graph.ClearField("node"), "one without operators"),
        (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", -1), "`x` must be of a type that ONNX has"),
    ],
)
def test_models_that_are_refused(change: Callable[[Any], object], words: str, tmp_path: Path) -> None:
    with pytest.raises(FloatModelError, match=words) as caught:
        it.profile(saved(changed(change), tmp_path), pictures(1))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.zeros((0, 3, 8, 8), np.float32), "no samples"),
        (np.zeros((2, 3, 8, 9), np.float32), r"`x` float32 \[\?, 3, 8, 8\] can't take samples of shape \[3, 8, 9\]"),
        (np.zeros((2, 1, 32), np.float32), r"of shape \[1, 32\], behind the axis that counts them$"),
        (np.zeros((2, 8, 8, 3), np.float32), r"can't take samples of shape \[8, 8, 3\]"),
        (np.zeros((2, 3, 8, 8), np.complex64), "must have numbers: complex64"),
        (
            np.where(np.arange(7).reshape(7, 1, 1, 1) == 5, np.nan, np.ones((7, 3, 8, 8), np.float32)),
            "sample 5 has NaN",
        ),
        (np.asfortranarray(np.zeros((2, 3, 8, 8), np.float32)), "by rows"),
    ],
)
def test_samples_that_are_refused(samples: Any, words: str, path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", samples)
    ended = in_process("profile", path, "--data", tmp_path / "s.npy", "-o", tmp_path / "o.json")
    assert ended.code == 1
    assert len(ended.errors) == 1
    with pytest.raises(CalibrationError, match=words):
        it.profile(path, tmp_path / "s.npy")
    assert list(tmp_path.iterdir()) == [tmp_path / "s.npy"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x93NUMPY\x01\x00"])
def test_files_of_something_else(content: bytes, path: Path, tmp_path: Path) -> None:
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(CalibrationError, match="no array of NumPy's"):
        it.profile(path, tmp_path / "s.npz")
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(FloatModelError, match="no ONNX file"):
        it.profile(tmp_path / "m.onnx", pictures(1))


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = saved(small(), tmp_path)
    data = path.read_bytes()
    assert data.count(b"GlobalAveragePool") > 0
    path.write_bytes(data.replace(b"GlobalAveragePool", b"Glo\xefalAveragePool"))
    with pytest.raises(FloatModelError, match="a name is no text: b'Glo"):
        it.profile(path, pictures(1))


def test_open_extents_are_those_of_the_samples(tmp_path: Path) -> None:
    writer = Writer(["n", 2, "height", "width"])
    model = saved(writer.model(writer.node("Relu", ["x"], "y", "relu")), tmp_path)
    assert it.profile(model, np.ones((3, 2, 5, 7), np.float32)).ranges.tensors["y"].shape == (3, 2, 5, 7)
    with pytest.raises(CalibrationError, match=r"must have one shape: \[2, 5, 6\] and \[2, 5, 7\]"):
        it.profile(model, lambda: (np.ones((2, 5, width), np.float32) for width in (6, 7)))


def test_a_model_that_draws_numbers_is_refused(tmp_path: Path) -> None:
    writer = Writer(["n", 4])
    model = saved(writer.model(writer.node("RandomNormalLike", ["x"], "y", "random")), tmp_path)
    with pytest.raises(FloatModelError, match=r"draws numbers, no two runs are alike: RandomNormalLike `random`"):
        it.profile(model, np.zeros((1, 4), np.float32))


def test_an_axis_of_channels_that_counts_samples(tmp_path: Path) -> None:
    writer = Writer(["n", 4])
    model = saved(writer.model(writer.node("Transpose", ["x"], "y", perm=[1, 0])), tmp_path)
    found = it.profile(model, np.arange(4.0 * SAMPLES, dtype=np.float32).reshape(SAMPLES, 4)).ranges.tensors["y"]
    assert (found.minimum, found.maximum, found.channel_maximum) == (0, 4 * SAMPLES - 1, ())


def test_a_tensor_without_values_has_no_range(tmp_path: Path) -> None:
    writer = Writer(["n", 4, 3])
    ends = [writer.constant(name, np.array([0]), np.int64) for name in ("starts", "ends")]
    nothing = writer.node("Slice", ["x", *ends, writer.constant("axes", np.array([1]), np.int64)], "nothing")
    model = saved(writer.model(writer.node("Concat", ["x", nothing], "y", axis=1)), tmp_path)
    tensors = it.profile(model, np.ones((3, 4, 3), np.float32)).ranges.tensors
    found = tensors["nothing"]
    assert (found.shape, found.values, found.minimum, found.maximum) == ((3, 0, 3), 0, 0, 0)
    assert (found.channel_minimum, found.channel_maximum) == ((), ())
    assert tensors["y"].values == 36


def test_numbers_that_are_none(path: Path) -> None:
    with pytest.raises(QuantizeSpecError, match="must be 1 to 1000000: 0"):
        it.profile(path, pictures(1), count=0)
    with pytest.raises(QuantizeSpecError, match="std must be finite and above 0"):
        it.profile(path, pictures(1), std=(0.0,))
    with pytest.raises(CalibrationError, match="need 3 values, or one: 2"):
        it.profile(path, pictures(1), mean=(1, 2))


def test_the_command_and_what_it_shows(path: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=pictures(SAMPLES))
    made = in_process("profile", path, "--data", tmp_path / "s.npz", "-o", tmp_path / "o.json")
    assert (made.code, made.out) == (0, "")
    assert made.err.startswith(f"{path}: 9 tensors, 11 samples")
    shown = in_process("profile", "show", tmp_path / "o.json")
    assert [line.split()[-1] for line in shown.out.splitlines()[1:4]] == ["x", "stem.y", "first"]
    one = in_process("profile", "show", tmp_path / "o.json", "--tensor", "first")
    counts = [int(line.split()[1].replace(",", "")) for line in one.out.splitlines()[4:]]
    assert sum(counts) == SAMPLES * 8 * 64
    found = json.loads(in_process("profile", "show", tmp_path / "o.json", "--format", "json").out)
    assert [each["name"] for each in found["tensors"]] == list(read_ranges(tmp_path / "o.json").tensors)
    unknown = in_process("profile", "show", tmp_path / "o.json", "--tensor", "nothing")
    assert (unknown.code, unknown.errors) == (2, [unknown.err.splitlines()[0]])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.update(int8tune_ranges=2), "int8tune_ranges must be 1: 2"),
        (lambda v: v["tensors"][0]["histogram"].pop(), "histogram must have 2048 counts: 2047"),
        (lambda v: v["tensors"][0].update(minimum=9e9), "minimum must be at most maximum"),
        (lambda v: v["tensors"][0].update(zeros=-1), "zeros must be a whole number"),
        (lambda v: v["tensors"][0].update(more=1), "unknown field: more"),
        (lambda v: v.pop("samples"), "lacks samples"),
    ],
)
def test_files_of_ranges_that_are_refused(
    change: Callable[[Any], object], words: str, path: Path, tmp_path: Path
) -> None:
    it.profile(path, pictures(1), tmp_path / "o.json")
    value = json.loads((tmp_path / "o.json").read_text())
    change(value)
    (tmp_path / "o.json").write_text(json.dumps(value))
    with pytest.raises(RangesError, match=words):
        read_ranges(tmp_path / "o.json")


def test_a_trained_network_by_the_archive_that_is_there() -> None:
    found = it.profile(float_model("resnet8"), shared_file("cifar10_sample.npz"), count=8).ranges
    assert (found.samples, found.tensors["input"].maximum) == (8, 255)
    assert found.tensors["t22"].producer == "Relu"
    assert found.faults() == []


@pytest.mark.parametrize("opset", [6, 17])
def test_a_clip_within_limits_that_are_constants_or_computed(opset: int, tmp_path: Path) -> None:
    """What a Relu or Clip makes is not asked of ONNX Runtime, but computed here: the same values."""
    writer = Writer(["n", 4])
    relu = writer.node("Relu", ["x"], "positive", "relu")
    if opset == 6:
        output = writer.node("Clip", [relu], "y", "clip", min=0.25, max=0.75)
    else:
        computed = writer.node("ReduceMean", ["x"], "mean", "mean", keepdims=0)
        bounded = writer.node("Clip", [relu, "", writer.constant("high", np.float32(0.75))], "bounded", "clip")
        output = writer.node("Clip", [bounded, computed], "y", "computed")
    model = writer.model(output, opset=opset)
    sample = np.asarray([[-1, 0.5, 3, 0.1]], np.float32)
    found = it.profile(saved(model, tmp_path), sample).ranges.tensors
    expected = all_values(model, sample)
    assert {name: (each.minimum, each.maximum) for name, each in found.items()} == {
        name: (values.min(), values.max()) for name, values in expected.items() if values.dtype == np.float32
    }
    assert found["positive"].zeros == (expected["positive"] == 0).sum()
