"""Samples of models: those that are drawn show what noise does not, and those of a file may lack a batch of 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.graph import ElementType, Graph, Kind, Operator, Quantization, Value
from int8tune.compiler.model import read_model
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.schedules.target import Target
from int8tune.tuner.errors import SamplesError
from int8tune.tuner.models.arrays import read_samples
from int8tune.tuner.models.checks import Check, samples_of
from int8tune.tuner.models.drawn_samples import (
    LEAST_USUAL,
    MOST_USUAL,
    STATISTICS,
    _interpolated,
    drawn_samples,
    statistics_of,
    usual_count,
)
from tests.support.models.compiled import compile_once
from tests.support.models.onnx_islands import IslandWriter
from tests.support.models.shared_models import more_model

Array = npt.NDArray[Any]
SHAPE = (1, 24, 20, 3)


def graph_of(*types: ElementType, shape: tuple[int, ...] = SHAPE) -> Graph:
    """A model that quantizes its inputs of numbers: they stand for -2 to 10.75."""
    values, operators = {}, []
    for index, type_ in enumerate(types):
        values[f"x{index}"] = Value(f"x{index}", shape, type_)
        if type_ == "f32":
            quantization = Quantization(np.array([0.05], np.float32), np.array([40]))
            values[f"q{index}"] = Value(f"q{index}", shape, "u8", quantization)
            operators.append(Operator(Kind.QUANTIZE, ("q",), "Quantize", (f"x{index}",), (f"q{index}",), "float"))
    inputs = tuple(f"x{index}" for index in range(len(types)))
    return Graph("net", values, tuple(operators), inputs, inputs)


def levels_of(samples: Array) -> Array:
    """Quantized values of what a model with numbers is given."""
    return np.clip(np.rint(samples / np.float32(0.05)) + 40, 0, 255)


def by_statistic(type_: ElementType, count: int = 60) -> dict[str, Array]:
    (drawn,) = drawn_samples(graph_of(type_), count, 0)
    levels = levels_of(drawn) if type_ == "f32" else drawn.astype(np.int64) + 128 * (type_ == "s8")
    return {name: levels[index :: len(STATISTICS)] for index, name in enumerate(STATISTICS)}


@pytest.mark.parametrize("type_", ["u8", "s8", "f32"])
def test_statistics_are_what_they_are_called(type_: ElementType) -> None:
    found = by_statistic(type_)
    assert all(samples.min() == 0 and samples.max() == 255 for samples in found.values())
    lowest, highest, *others = found["constant"]
    assert (lowest == 0).all()
    assert (highest == 255).all()
    assert all(len(np.unique(sample)) == 1 for sample in others)
    assert len({sample.flat[0] for sample in others}) > len(others) // 2
    assert (np.isin(found["extremes"], (0, 255))).all()
    steps = {name: np.abs(np.diff(samples.astype(float), axis=2)).mean() for name, samples in found.items()}
    assert steps["smooth"] < 20 < 60 < min(steps["noise"], steps["extremes"])
    ends = {name: np.isin(samples, (0, 255)).mean() for name, samples in found.items()}
    assert ends["noise"] < 0.02 < 0.05 < ends["speckled"] < 0.2 < 0.3 < ends["saturated"]


def test_windows_meet_sums_that_noise_does_not_have() -> None:
    """A sum that overflows only where a whole window is at an end is found."""
    found = by_statistic("u8")
    windows = {
        name: np.lib.stride_tricks.sliding_window_view(samples, (5, 5), (2, 3)).sum((-1, -2))
        for name, samples in found.items()
    }
    assert windows["noise"].min() > 25 * 255 * 0.2
    assert windows["noise"].max() < 25 * 255 * 0.8
    everything = np.concatenate([each.reshape(-1) for each in windows.values()])
    assert (everything.min(), everything.max()) == (0, 25 * 255)
    assert len(np.unique(everything)) > 25 * 255 * 0.9 > 1.5 * len(np.unique(windows["noise"]))


def test_numbers_go_beyond_what_the_input_stands_for() -> None:
    (drawn,) = drawn_samples(graph_of("f32"), 12, 0)
    assert drawn.dtype == np.float32
    assert drawn.min() < -2.5
    assert drawn.max() > 12
    assert np.isfinite(drawn).all()


def test_a_seed_says_everything_and_more_samples_begin_with_fewer() -> None:
    graph = graph_of("u8", "f32")
    few, many, others = (drawn_samples(graph, *each) for each in ((7, 3), (20, 3), (7, 4)))
    assert [array.shape for array in few] == [(7, *SHAPE)] * 2
    for some, more, other in zip(few, many, others, strict=True):
        np.testing.assert_array_equal(some, more[:7])
        assert (some[0] != other[0]).any()
    assert (few[0][0] != levels_of(few[1][0])).any()
    assert statistics_of(8) == {"noise": 2, "smooth": 2, "constant": 1, "extremes": 1, "speckled": 1, "saturated": 1}


@pytest.mark.parametrize("shape", [(), (1,), (1, 640), (1, 1, 1, 7), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("type_", ["u8", "s16", "s64", "f32", "bool"])
def test_every_form_of_input_is_drawn(shape: tuple[int, ...], type_: ElementType) -> None:
    (drawn,) = drawn_samples(graph_of(type_, shape=shape), 13, 0)
    assert drawn.shape == (13, *shape)


@pytest.mark.parametrize("shape", [(1, 3, 8, 6), (1, 8, 6, 3), (1, 5), (1, 1, 5)])
def test_a_batch_of_one_may_be_left_out(shape: tuple[int, ...], tmp_path: Path) -> None:
    value = Value("x", shape, "u8")
    whole = np.random.default_rng(0).integers(0, 256, (4, *shape)).astype(np.uint8)
    for name, array in (("whole", whole), ("short", whole[:, 0])):
        np.save(tmp_path / f"{name}.npy", array)
        (found,) = read_samples(tmp_path / f"{name}.npy", [value])
        np.testing.assert_array_equal(found, whole)
    np.savez(tmp_path / "both.npz", x=whole, z=whole[:, 0])
    for array in read_samples(tmp_path / "both.npz", [value, Value("z", shape, "u8")]):
        np.testing.assert_array_equal(array, whole)


@pytest.mark.parametrize("array", [np.uint8(3), np.zeros((0, 1, 5), np.uint8), np.zeros((2, 4), np.uint8)])
def test_samples_that_fit_in_neither_form_are_refused(array: Array, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    want = r"input `x` needs uint8 \(samples, 1, 5\) or \(samples, 5\): uint8 \("
    with pytest.raises(SamplesError, match=want):
        read_samples(tmp_path / "x.npy", [Value("x", (1, 5), "u8")])


def test_a_batch_of_several_may_not_be_left_out(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 5), np.uint8))
    with pytest.raises(SamplesError, match=r"needs uint8 \(samples, 3, 5\): uint8 \(2, 5\)"):
        read_samples(tmp_path / "x.npy", [Value("x", (3, 5), "u8")])


def test_objects_in_an_archive_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{}], object))
    with pytest.raises(SamplesError, match="no array of NumPy's"):
        read_samples(tmp_path / "x.npz", [Value("x", (1, 5), "u8")])


def test_between_knots_smooth_noise_is_linear() -> None:
    made = _interpolated(np.random.default_rng(0), (5, 2), 3)
    knots = np.random.default_rng(0).standard_normal((3, 2))
    np.testing.assert_allclose(made[::2], knots)
    np.testing.assert_allclose(made[1::2], (knots[:-1] + knots[1:]) / 2)


@pytest.mark.parametrize("count", [None, 3])
def test_a_check_has_as_many_samples_as_it_asks_for_or_as_are_usual(count: int | None) -> None:
    graph = graph_of("u8", shape=(1, 5))
    check = Check(Path("net.onnx"), Path("results"), None, None, 1, samples=None, count=count, seed=0)
    (samples,) = samples_of(check, graph)
    assert samples.shape == (count or usual_count(graph), 1, 5)


def test_small_models_get_more_samples() -> None:
    """Without layers as many as there may be; of inputs of 32 MiB as many as fit in memory, ten at the least."""
    assert usual_count(graph_of("u8")) == MOST_USUAL
    assert usual_count(graph_of("f32", shape=(1, 1024, 2048, 4))) == LEAST_USUAL


@pytest.mark.thorough
def test_swapped_summands_are_found(native: Target, tmp_path: Path) -> None:
    """In one layer, one pair of 65,536 has another sum; one sample of many shows it in an output."""
    path = more_model("resnet8_minmax.qdq.onnx")
    graph = with_file_layouts(read_model(path))
    swapped = [replace(each, inputs=each.inputs[::-1]) if each.kind is Kind.ADD else each for each in graph.operators]
    samples = drawn_samples(graph, usual_count(graph), 0)
    outputs = []
    for name, model in (("right", graph), ("wrong", replace(graph, operators=tuple(swapped)))):
        library = tmp_path / f"{name}.so"
        compile_once(model, native, library)
        compiled = CompiledModel(library)
        outputs.append(np.stack([compiled.run(list(sample))[0] for sample in zip(*samples, strict=True)]))
    assert 0 < np.count_nonzero(outputs[0] != outputs[1]) < 100


def test_words_are_entries_of_the_tables_that_they_choose_from() -> None:
    onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
    w = IslandWriter()
    place = "words"
    w.inputs.append(onnx.helper.make_tensor_value_info(place, onnx.TensorProto.INT32, (1, 5)))
    kinds, mask = (w.integer_input(name, (1, 5)) for name in ("kinds", "mask"))
    kinds = w.apply("Reshape", kinds, np.array([5]))
    made = [
        w.apply("Gather", np.ones((9, 4)), place),
        w.apply("Gather", np.ones((7, 4)), w.apply("Where", w.apply("Less", place, np.int32(0)), np.int32(0), place)),
        w.apply("Gather", np.ones((2, 3)), kinds, axis=1),
        w.apply("Cast", mask, to=onnx.TensorProto.FLOAT),
    ]
    graph = read_onnx(w.file(*made, w.quantized(w.data)), "words")
    drawn = dict(zip(graph.inputs, drawn_samples(graph, 24, 0), strict=True))
    assert [np.unique(drawn[name]).tolist() for name in ("words", "kinds")] == [[*range(7)], [*range(3)]]
    assert drawn["mask"].min() < 0 < drawn["mask"].max()
