"""Numbers and options of operators, as LiteRT takes them from files that other tools have written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Array, Writer, network, packed, schema, values_of

pytest.importorskip("tflite", reason="needs the extra `models`")

FORM = (0.05, -3)
SHAPE = (2, 9)
RELU = 1


def sums(options: str = "Add", **fields: int) -> Writer:
    """An ADD of a value with itself."""
    w = Writer()
    x = w.input("x", "s8", SHAPE, *FORM)
    w.operator("ADD", [x, x], [w.tensor("y", "s8", SHAPE, *FORM)], options, **fields)
    return w


def assert_is_litert_s(file: bytes, x: Array, folder: Path) -> None:
    model = compiled(file, folder)
    (made,) = model.run([x])
    assert np.array_equal(made, values_of(file, {"x": x})[model.about.outputs[0]["name"]])


def bytes_of(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)


def test_either_field_has_an_operator_s_number(tmp_path: Path) -> None:
    """ai-edge-quantizer leaves the older one out, which is then that of an ADD."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(network(), 0))
    for code in model.operatorCodes:
        code.deprecatedBuiltinCode = 0
    assert_is_litert_s(packed(model), bytes_of((1, 8, 8, 4)), tmp_path)
    assert [each.operator for each in read_tflite(packed(model), "codes").operators][:2] == [
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
    ]


@pytest.mark.parametrize(
    "w", [sums(""), sums("Mul", fusedActivationFunction=RELU)], ids=["no options", "those of another operator"]
)
def test_options_that_lack_are_zeros(w: Writer, tmp_path: Path) -> None:
    assert_is_litert_s(w.model(1), bytes_of(SHAPE), tmp_path)


@pytest.mark.parametrize("word", ["ADD", "SUB"])
def test_sums_of_16_bits_without_options_take_no_powers_of_two(word: str, tmp_path: Path) -> None:
    """Options that are there say by default that such scales are shifts, which round otherwise."""
    w = Writer()
    inputs = [w.input(name, "s16", SHAPE, scale, 0) for name, scale in (("x", 2**-9), ("z", 2**-11))]
    w.operator(word, inputs, [w.tensor("y", "s16", SHAPE, 2**-7, 0)])
    file, rng = w.model(2), np.random.default_rng(1)
    feeds = {name: rng.integers(-32768, 32768, SHAPE).astype(np.int16) for name in ("x", "z")}
    model = compiled(file, tmp_path)
    (made,) = model.run([feeds[form["name"]] for form in model.about.inputs])
    assert np.array_equal(made, values_of(file, feeds)["y"])


def test_a_convolution_without_options_is_refused() -> None:
    w = Writer()
    x = w.input("x", "s8", (1, 4, 4, 3), *FORM)
    weight = w.constant("w", "s8", np.ones((5, 1, 1, 3)), 0.1)
    w.operator("CONV_2D", [x, weight], [w.tensor("y", "s8", (1, 4, 4, 5), *FORM)])
    with pytest.raises(ModelError, match="codes: an operator lacks its options"):
        read_tflite(w.model(2), "codes")
