"""Large initializers beside a model's file: it is read as it is with them, or refused in the same words."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.onnx_reader import detached
from int8tune.compiler.onnx_reader.detached import LEAST_BYTES, without_large
from int8tune.compiler.onnx_reader.file import load
from tests.fuzz.files import changed_onnx
from tests.fuzz.texts import changed_bytes
from tests.support.models.onnx_inner_graphs import loop
from tests.support.models.onnx_models import quantized_layer

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")


def stored(model: Any) -> Any:
    """The model with all constants as bytes."""
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    return model


def constants_of(data: bytes) -> dict[str, Any] | str:
    try:
        return dict(load(data, "m").constants)
    except ModelError as fault:
        return str(fault)


def assert_same(one: dict[str, Any] | str, other: dict[str, Any] | str) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        np.testing.assert_array_equal(array, other[name])


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "LEAST_BYTES", 1)


def test_only_what_is_large_is_left_out() -> None:
    model = stored(quantized_layer())
    assert without_large(model.SerializeToString()) == (model.SerializeToString(), {})
    large = np.arange(LEAST_BYTES // 8)
    model.graph.initializer.insert(1, onnx.numpy_helper.from_array(large, "large"))
    data = model.SerializeToString()
    short, left = without_large(data)
    assert len(short) < len(data) - LEAST_BYTES + 64
    assert {index: bytes(values) for index, values in left.items()} == {1: large.tobytes()}
    found = load(data, "m").constants
    np.testing.assert_array_equal(found["large"], large)
    assert found["large"].flags.writeable


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("data_type", [22, 10, 16, 99])
def test_values_of_other_types_are_read_or_refused_as_they_were(
    data_type: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = stored(quantized_layer())
    model.graph.initializer.append(onnx.TensorProto(name="more", data_type=data_type, dims=[3], raw_data=b"\x12" * 6))
    data = model.SerializeToString()
    assert without_large(data)[1]
    ours = constants_of(data)
    monkeypatch.setattr(detached, "LEAST_BYTES", 1 << 40)
    assert_same(ours, constants_of(data))


@pytest.mark.usefixtures("any_size")
def test_models_with_graphs_within_are_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    data = stored(onnx.ModelProto.FromString(loop(3, True))).SerializeToString()
    ours = constants_of(data)
    monkeypatch.setattr(detached, "LEAST_BYTES", 1 << 40)
    assert_same(ours, constants_of(data))


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("mutation", [changed_onnx, changed_bytes])
def test_changed_files_are_read_or_refused_as_they_were(mutation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, draw = stored(quantized_layer(activation="Clip")).SerializeToString(), random.Random(5)
    for _ in range(300):
        data = mutation(whole, draw)
        ours = constants_of(data)
        with monkeypatch.context() as patched:
            patched.setattr(detached, "LEAST_BYTES", 1 << 40)
            theirs = constants_of(data)
        assert_same(ours, theirs)
