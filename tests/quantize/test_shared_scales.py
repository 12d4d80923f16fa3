"""One scale for all that meet in an Add or a Concat, and what a Relu or Clip then still does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from tests.support.models.float_models import pictures, run, saved, small, sqnr_db
from tests.support.models.onnx_models import Writer, onnx

PLAIN = {"equalize": False, "round_weights": False, "bias_correction": False}


def branches(operator: str, high: float = 6.0) -> Any:
    """A convolution with an activation and one without, both pooled, joined; pictures [n, 3, 8, 8]."""
    writer = Writer(["n", 3, 8, 8])
    bounds = [writer.constant("low", 0.0), writer.constant("high", high)] if operator == "Clip" else []
    made = writer.conv("x", "one", (4, 3, 3, 3), pads=[1] * 4)
    one = writer.node(operator, [made, *bounds], "active", "act")
    other = writer.conv("x", "other", (4, 3, 1, 1))
    pooled = [writer.node("MaxPool", [name], f"pooled {name}", kernel_shape=[2, 2]) for name in (one, other)]
    return writer.model(writer.node("Concat", pooled, "y", "join", axis=1))


def of(made: Any) -> dict[str, Any]:
    """Scale and zero point of each tensor that a QuantizeLinear reads."""
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    nodes = [node for node in made.graph.node if node.op_type == "QuantizeLinear"]
    return {node.input[0]: tuple(arrays[name].item() for name in node.input[1:]) for node in nodes}


def test_operands_and_results_have_one_scale_and_a_relu_is_kept(tmp_path: Path) -> None:
    file, samples = saved(small(), tmp_path), pictures(20)
    before = of(it.quantize(file, samples, **PLAIN).proto)
    made = it.quantize(file, samples, **PLAIN, share_scales=True).proto
    scales = of(made)
    names = ("first", "body.y", "second")
    assert len({before[name][0] for name in names}) == 3
    assert len({scales[name][0] for name in names}) == 1
    assert (scales["first"][1], scales["second"][1]) == (0, 0)
    assert scales["body.y"][1] > 0
    assert scales["x"] == before["x"]
    assert "Relu" not in {node.op_type for node in made.graph.node}
    assert sqnr_db(run(file, samples), run(made, samples)) > 25


@pytest.mark.parametrize("operator", ["Relu", "Clip"])
@pytest.mark.parametrize("options", [{}, {"activations": "s8"}, {"symmetric": True}], ids=str)
def test_a_concat_moves_values_as_they_are(operator: str, options: dict[str, Any], tmp_path: Path) -> None:
    file, samples = saved(branches(operator, high=0.25), tmp_path), pictures(20)
    made = it.quantize(file, samples, **PLAIN, **options, share_scales=True).proto
    scales = of(made)
    # A Clip that stays has an operand with a scale of its own.
    assert len({scale for name, (scale, _) in scales.items() if name not in ("x", "one.y")}) == 1
    seen = run(made, samples)
    assert seen[:, :4].min() == 0
    assert operator == "Relu" or seen[:, :4].max() <= 0.25 + scales["active"][0]
    assert sqnr_db(run(file, samples), seen) > 25


def test_an_addition_that_is_skipped_shares_nothing(tmp_path: Path) -> None:
    file, samples = saved(small(), tmp_path), pictures(8)
    left = {**PLAIN, "skip": ["add"]}
    assert of(it.quantize(file, samples, **left).proto) == of(
        it.quantize(file, samples, **left, share_scales=True).proto
    )


def test_a_tensor_that_is_added_to_itself_has_the_scale_of_the_sum(tmp_path: Path) -> None:
    writer = Writer(["n", 3, 8, 8])
    made = writer.conv("x", "one", (4, 3, 3, 3), pads=[1] * 4)
    twice = writer.node("Add", [made, made], "twice")
    file = saved(writer.model(writer.conv(twice, "other", (4, 4, 1, 1))), tmp_path)
    scales = of(it.quantize(file, pictures(20), **PLAIN, share_scales=True).proto)
    assert scales[made] == scales[twice]
