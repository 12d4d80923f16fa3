"""Tensors in files beside the model: the same library as with all of it in one file, and nothing from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.model import model_bytes, read_model
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import quantized_layers
from tests.support.models.onnx_inner_graphs import loop
from tests.support.models.onnx_models import quantized_layer

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

Change = Callable[[Any], None]


def written(folder: Path, model: Any, one_file: bool = True) -> Path:
    """The model with every constant in a file of its own, or all in one."""
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    onnx.save_model(
        model,
        str(path),
        save_as_external_data=True,
        all_tensors_to_one_file=one_file,
        location="weights.bin" if one_file else None,
        size_threshold=0,
        convert_attribute=True,
    )
    return path


def stored_layer() -> Any:
    """A layer whose constants are stored as bytes."""
    model = quantized_layer("Conv")
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    return model


@pytest.mark.parametrize("one_file", [True, False])
def test_a_model_in_parts_is_the_model(one_file: bool, tmp_path: Path) -> None:
    whole = stored_layer().SerializeToString()
    path = written(tmp_path / "parts", stored_layer(), one_file)
    assert b"weights.bin" in path.read_bytes() or not one_file
    assert onnx.ModelProto.FromString(model_bytes(path)) == onnx.ModelProto.FromString(whole)
    ours, theirs = (quantized_layers(graph) for graph in (read_model(path), read_onnx(whole, "model")))
    assert [layer.workload for layer in ours] == [layer.workload for layer in theirs] != []


def test_constants_of_graphs_within_may_be_there_too(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(loop(3, True))
    path = written(tmp_path / "parts", onnx.ModelProto.FromString(loop(3, True)))
    assert onnx.ModelProto.FromString(model_bytes(path)) == model


def entry(key: str, value: str) -> Change:
    def change(tensor: Any) -> None:
        for each in tensor.external_data:
            if each.key == key:
                each.value = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (entry("location", "../secret.bin"), r"must be in the model's folder: `\.\./secret\.bin`"),
        (entry("location", "/etc/passwd"), "must be in the model's folder: `/etc/passwd`"),
        (entry("location", "link.bin"), "must be in the model's folder: `link.bin`"),
        (entry("location", ""), "must be in the model's folder: ``"),
        (entry("location", "no.bin"), "which is not there: `no.bin`"),
        (entry("location", "pipe"), "which is not there: `pipe`"),
        (entry("offset", "9999999"), r"of \d+ bytes, which does not have \d+ bytes from 9999999 on"),
        (entry("length", "9999999"), "which does not have 9999999 bytes from"),
        (entry("offset", "-1"), "bytes from -1 on"),
        (entry("length", "9" * 5000), "does not have 999"),
        (entry("length", "1"), "can't be read: "),
        (entry("location", "weights.bin\0"), "what is said of that can't be printed"),
        (entry("offset", "\x1b[2J"), "what is said of that can't be printed"),
    ],
)
def test_what_is_not_beside_the_model_is_not_read(change: Change, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "parts", stored_layer())
    (tmp_path / "secret.bin").write_bytes(bytes(1 << 16))
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    os.mkfifo(path.parent / "pipe")
    model = onnx.ModelProto.FromString(path.read_bytes())
    change(next(each for each in model.graph.initializer if each.name == "w"))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=message):
        read_model(path)


@pytest.mark.parametrize("text", [b"weights.bin", b"location", b"w"])
def test_texts_that_are_no_unicode_are_refused(text: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "parts", stored_layer())
    data = path.read_bytes()
    place = data.index(bytes([len(text)]) + text) + 1
    path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
    with pytest.raises(ModelError, match=r"can't be (printed|read)|must be in the model's folder"):
        read_model(path)


def test_data_of_too_many_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "parts", stored_layer())
    monkeypatch.setattr("int8tune.compiler.model.MOST_BYTES", path.stat().st_size + 10)
    with pytest.raises(ModelError, match=r"with its data in other files it has over \d+ bytes"):
        read_model(path)
