"""Functions of one value of 16 bits, and softmax: bit for bit LiteRT's, in the compiled model, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.tflite_islands import compiled
from tests.support.models.tflite_models import Writer, values_of

pytest.importorskip("tflite", reason="needs the extra `models`")

EVERY = {"x": np.arange(-(1 << 15), 1 << 15).astype(np.int16).reshape(256, 256)}
FRACTION = 2.0**-15
# With the scales of data and output, the class of options and what these are set to.
FUNCTIONS: dict[str, tuple[str, float, float, str, dict[str, Any]]] = {
    "sigmoid": ("LOGISTIC", 0.00021, FRACTION, "", {}),
    "sigmoid of a power of two": ("LOGISTIC", 2.0**-12, FRACTION, "", {}),
    "tanh": ("TANH", 0.00017, FRACTION, "", {}),
    "tanh of a power of two": ("TANH", 2.0**-11, FRACTION, "", {}),
    "exponential": ("EXP", 0.00006, 0.0003, "", {}),
    "gelu": ("GELU", 0.0001, 0.00009, "Gelu", {"approximate": False}),
    "gelu by tanh": ("GELU", 0.0003, 0.0001, "Gelu", {"approximate": True}),
    "logarithm": ("LOG", 0.0002, 0.0002, "", {}),
    "absolute": ("ABS", 0.0002, 0.0002, "", {}),
    "absolute, rescaled": ("ABS", 0.0002, 0.00013, "", {}),
    "leaky": ("LEAKY_RELU", 0.0002, 0.00013, "LeakyRelu", {"alpha": 0.1}),
    "leaky downwards": ("LEAKY_RELU", 0.0002, 0.00013, "LeakyRelu", {"alpha": -0.7}),
    "relu": ("RELU", 0.0002, 0.00013, "", {}),
    "root": ("SQRT", 0.0002, 0.0001, "", {}),
    "inverse root": ("RSQRT", 0.0002, 0.002, "", {}),
    "relu6": ("RELU6", 0.0004, 0.0003, "", {}),
}
VERSIONS = {"GELU": 2, "LEAKY_RELU": 2, "LOG": 2, "EXP": 2, "SQRT": 2}


# At numbers that have no root LiteRT stops.
ONLY_POSITIVE = {name: np.maximum(array, 0) for name, array in EVERY.items()}


def written(*names: str) -> bytes:
    w, made = Writer(), []
    inputs: dict[float, int] = {}
    for name in names:
        word, scale, output, options, fields = FUNCTIONS[name]
        if scale not in inputs:
            inputs[scale] = w.input("x" if not inputs else f"x{len(inputs)}", "s16", (256, 256), scale)
        made.append(w.tensor(name, "s16", (256, 256), output))
        w.operator(word, [inputs[scale]], made[-1:], options, VERSIONS.get(word, 3), **fields)
    return w.model(*made)


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_every_value_is_litert_s(name: str) -> None:
    file, feed = written(name), EVERY if "root" not in name else ONLY_POSITIVE
    ours, theirs = run_reference(read_tflite(file, "wide"), feed)[name], values_of(file, feed)[name]
    assert len(np.unique(theirs)) > 1000
    np.testing.assert_array_equal(ours, theirs, strict=True)


def test_compiled_functions_are_litert_s(tmp_path: Path) -> None:
    file = written(*(name for name in FUNCTIONS if "root" not in name))
    names = read_tflite(file, "wide").inputs
    model, theirs = compiled(file, tmp_path), values_of(file, dict.fromkeys(names, EVERY["x"]))
    made = model.run([EVERY["x"]] * len(names))
    for form, array in zip(model.about.outputs, made, strict=True):
        np.testing.assert_array_equal(array, theirs[form["name"]], form["name"], strict=True)


@pytest.mark.parametrize("depth", [1, 3, 1000])
@pytest.mark.parametrize(("scale", "beta"), [(0.0003, 1.0), (0.00002, 1.0), (0.001, 0.5)])
def test_softmax_of_rows_is_litert_s(depth: int, scale: float, beta: float) -> None:
    file, feed = softmax((7, depth), scale, beta), {"x": rows((7, depth))}
    ours, theirs = run_reference(read_tflite(file, "wide"), feed)["y"], values_of(file, feed)["y"]
    np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.thorough
def test_compiled_softmax_is_litert_s(tmp_path: Path) -> None:
    file, feed = softmax((2, 9, 40), 0.0002, 1.0), rows((2, 9, 40))
    (made,) = compiled(file, tmp_path).run([feed])
    np.testing.assert_array_equal(made, values_of(file, {"x": feed})["y"], strict=True)


def softmax(shape: tuple[int, ...], scale: float, beta: float) -> bytes:
    w = Writer()
    data, made = w.input("x", "s16", shape, scale), w.tensor("y", "s16", shape, FRACTION)
    w.operator("SOFTMAX", [data], [made], "Softmax", 3, beta=beta)
    return w.model(made)


def rows(shape: tuple[int, ...]) -> npt.NDArray[np.int16]:
    """Noise of several sizes, and rows of both ends of the type."""
    rng = np.random.default_rng(6)
    sizes = np.resize([1.0, 0.1, 0.003], shape[-2])[:, None]
    made = (rng.uniform(-32768, 32768, shape) * sizes).astype(np.int16)
    made[..., 0, :], made[..., -1, :] = -32768, 32767
    return made


@pytest.mark.parametrize(("corners", "centers"), [(False, False), (True, False), (False, True)])
def test_resized_images_are_litert_s(corners: bool, centers: bool) -> None:
    for size, made in (((5, 7), (11, 9)), ((9, 12), (4, 5)), ((3, 1), (7, 1)), ((6, 6), (1, 9)), ((16, 16), (33, 47))):
        file, feed = resize(size, made, corners, centers), {"x": ends_and_noise((2, *size, 3))}
        ours, theirs = run_reference(read_tflite(file, "wide"), feed)["y"], values_of(file, feed)["y"]
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.thorough
def test_compiled_resize_is_litert_s(tmp_path: Path) -> None:
    file, feed = resize((5, 7), (11, 9), False, True), ends_and_noise((2, 5, 7, 3))
    (made,) = compiled(file, tmp_path).run([feed])
    np.testing.assert_array_equal(made, values_of(file, {"x": feed})["y"], strict=True)


def resize(size: tuple[int, int], made: tuple[int, int], corners: bool, centers: bool) -> bytes:
    w = Writer()
    inputs = [w.input("x", "s16", (2, *size, 3), 0.0003), w.constant("size", "s32", made)]
    output = w.tensor("y", "s16", (2, *made, 3), 0.0003)
    fields = {"alignCorners": corners, "halfPixelCenters": centers}
    w.operator("RESIZE_BILINEAR", inputs, [output], "ResizeBilinear", 4, **fields)
    return w.model(output)


def ends_and_noise(shape: tuple[int, ...]) -> npt.NDArray[np.int16]:
    """An image of the ends of the type, and one of noise."""
    rng = np.random.default_rng(7)
    made = rng.integers(-32768, 32768, shape).astype(np.int16)
    made[0] = np.where(rng.integers(0, 2, shape[1:]), 32767, -32768)
    return made


def test_what_litert_refuses_says_why() -> None:
    w = Writer()
    data, made = w.input("x", "s16", (4,), 0.001), w.tensor("y", "s16", (4,), 0.001)
    w.operator("LOGISTIC", [data], [made], version=3)
    (found,) = obstacles(read_tflite(w.model(made), "wide"))
    assert found.reason == "the scale of its output must be 1/32768"
