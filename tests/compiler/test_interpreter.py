"""Whole models by their references: every value is LiteRT's, bit for bit, and pictures get their names."""

from __future__ import annotations

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.model import read_model
from tests.compiler.test_tflite import tensors_of
from tests.support.models.shared_models import PICTURES, V1, V1_SMALL, V2, V2_INT8, labels, model_path, picture

NAMES = {
    "bird": {"chickadee"},
    "cat": {"tiger cat", "tabby", "Egyptian cat"},
    "grace_hopper": {"military uniform", "academic gown"},
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", [V1_SMALL, V1, V2, V2_INT8])
@pytest.mark.parametrize(
    "subject", [*PICTURES[:1], *(pytest.param(one, marks=pytest.mark.slow) for one in PICTURES[1:])]
)
def test_every_value_of_a_real_model_is_litert_s(name: str, subject: str) -> None:
    graph = read_model(model_path(name))
    assert all(operator.kind is not Kind.OTHER for operator in graph.operators)
    (source,), (made,) = graph.inputs, graph.outputs
    data = picture(subject, *graph.values[source].shape[1:3])
    ours, theirs = run_reference(graph, {source: data}), tensors_of(model_path(name), data)
    for operator in graph.operators:
        (value,) = operator.outputs
        np.testing.assert_array_equal(ours[value], theirs[value], operator.layers[0], strict=True)
    assert labels()[int(ours[made].argmax())].split(",")[0] in NAMES[subject]


def test_inputs_of_another_form_are_refused() -> None:
    graph = read_model(model_path(V1_SMALL))
    image = np.zeros(graph.values["input"].shape, np.uint8)
    for inputs, message in (
        ({}, "input `input` is missing"),
        ({"input": image[0]}, r"input `input` must be uint8 \(1, 128, 128, 3\): uint8 \(128, 128, 3\)"),
        ({"input": image.astype(np.int8)}, "must be uint8"),
    ):
        with pytest.raises(ModelError, match=message):
            run_reference(graph, inputs)
