"""Compiled models: every value is the reference's bit for bit, and the outputs are those of the model's own runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from compiled import assert_exact
from onnx_models import MODELS, input_data, quantized, values_of
from onnx_operators import every_operator

from compiler.onnx_reader.model import read_onnx
from schedules.target import Target

FORMS = {
    "u8s8.c": ("u8", "s8", True, "QDQ", False),
    "s8s8.c": ("s8", "s8", True, "QDQ", False),
    "u8u8.t": ("u8", "u8", False, "QDQ", False),
    "u8s8.c nodes": ("u8", "s8", True, "QOperator", False),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_operator(form: str, native: Target, tmp_path: Path) -> None:
    model = every_operator()
    file = quantized(model, tmp_path, *FORMS[form])
    feed = input_data(model, 9)
    ours = assert_exact(read_onnx(file, "net"), native, {"x": feed}, tmp_path)
    np.testing.assert_array_equal(ours["y"], values_of(file, ["y"], feed)["y"])


@pytest.mark.parametrize("name", MODELS)
def test_networks_of_layers(name: str, native: Target, tmp_path: Path) -> None:
    model = MODELS[name]()
    file = quantized(model, tmp_path, *FORMS["u8s8.c"])
    assert_exact(read_onnx(file, "net"), native, {"x": input_data(model, 3)}, tmp_path)
