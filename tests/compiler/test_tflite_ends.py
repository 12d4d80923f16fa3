"""TFLite models that end before their outputs, beside LiteRT on the same shorter files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.given import Given
from int8tune.compiler.model import model_bytes, read_model
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.ends import ended
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, litert, packed, schema

pytest.importorskip("tflite", reason="needs the extra `models`")

SHAPE = (1, 6, 8, 4)


def detector() -> bytes:
    """Two values of a quantized input, and the places where one of them is not 0: as many as there are."""
    w = Writer()
    data, unused = w.input("x", "s8", SHAPE, 0.1, 3), w.input("limits", "f32", (3,))
    boxes, scores = w.tensor("boxes", "s8", SHAPE, 0.2, -5), w.tensor("scores", "s8", SHAPE, 1 / 256, -128)
    flags = w.tensor("flags", "bool", SHAPE)
    w.operator("ADD", [data, data], [boxes], "Add", 2)
    w.operator("LOGISTIC", [boxes], [scores], "", 2)
    w.operator("CAST", [boxes], [flags], "Cast", 1)
    places, most = w.tensor("places", "s64", (7, 4)), w.tensor("most", "f32", ())
    w.operator("WHERE", [flags], [places], "", 1)
    w.operator("REDUCE_MAX", [unused, w.constant("axis", "s32", np.array([0], np.int32))], [most], "Reducer", 1)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(w.model(places, most, boxes), 0))
    signature, model.signatureDefs = schema.SignatureDefT(), []
    signature.signatureKey, signature.subgraphIndex = "serve", 0
    signature.inputs, signature.outputs = [_named("x", data)], [_named("places", places)]
    model.signatureDefs.append(signature)
    return packed(model)


def _named(name: str, tensor: int) -> Any:
    found = schema.TensorMapT()
    found.name, found.tensorIndex = name, tensor
    return found


def written(folder: Path, file: bytes) -> Path:
    path = folder / "detector.tflite"
    path.write_bytes(file)
    return path


def feed() -> np.ndarray[Any, np.dtype[np.int8]]:
    return np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)


@pytest.mark.parametrize("ends", [("scores",), ("scores", "boxes"), ("boxes",)])
def test_values_are_those_of_litert(ends: tuple[str, ...], tmp_path: Path) -> None:
    whole = written(tmp_path, detector())
    assert [each.operator for each in obstacles(read_model(whole))] == ["WHERE"]
    shorter = model_bytes(whole, Given(until=ends))
    model = compiled(shorter, tmp_path)
    assert [form["name"] for form in model.about.outputs] == list(ends)
    assert [form["name"] for form in model.about.inputs] == ["x"]
    theirs = litert.Interpreter(model_content=shorter)
    theirs.allocate_tensors()
    theirs.set_tensor(theirs.get_input_details()[0]["index"], feed())
    theirs.invoke()
    for ours, output in zip(model.run([feed()]), theirs.get_output_details(), strict=True):
        np.testing.assert_array_equal(ours, theirs.get_tensor(output["index"]), strict=True)


def test_what_the_ends_do_not_need_is_left_out(tmp_path: Path) -> None:
    graph = read_model(written(tmp_path, detector()), Given(until=("boxes",)))
    assert [operator.operator for operator in graph.operators] == ["ADD"]
    shorter = model_bytes(written(tmp_path, detector()), Given(until=("boxes",)))
    signatures = [litert.Interpreter(model_content=each).get_signature_list() for each in (detector(), shorter)]
    assert signatures == [{"serve": {"inputs": ["x"], "outputs": ["places"]}}, {}]
    both = read_model(written(tmp_path, detector()), Given(until=("most", "scores")))
    assert both.inputs == ("x", "limits")


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (("score",), "detector: no operator makes a value `score`, did you mean `scores`?"),
        (("x",), "detector: no operator makes a value `x`"),
        (("boxes", "boxes"), "detector: it can't end at `boxes` twice"),
    ],
)
def test_what_is_no_end_is_refused(ends: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as refused:
        read_model(written(tmp_path, detector()), Given(until=ends))
    assert str(refused.value) == message


def test_shapes_are_still_given_to_onnx_models_alone(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="only ONNX models are given values and shapes of inputs"):
        model_bytes(written(tmp_path, detector()), Given(shapes={"x": SHAPE}, until=("boxes",)))


def test_a_damaged_file_is_one_line() -> None:
    file, rng = detector(), np.random.default_rng(0)
    with pytest.raises(ModelError, match="no TFLite model"):
        ended(b"", ("boxes",), "empty")
    read = 0
    for _ in range(300):
        changed = bytearray(file)
        changed[rng.integers(8, len(file))] = rng.integers(256)
        read += is_read(bytes(changed))
    assert 30 < read < 300


def is_read(file: bytes) -> bool:
    try:
        return len(ended(file, ("boxes",), "changed")) > len(file)
    except ModelError as fault:
        lines = str(fault).splitlines()
    assert len(lines) == 1
    return False
