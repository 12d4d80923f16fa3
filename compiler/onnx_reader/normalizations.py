"""Normalizations as ONNX Runtime's optimizer writes them, as ONNX's own or what these are made of."""

from __future__ import annotations

import numpy as np

from int8tune.compiler.onnx_reader.fused_writer import FusedWriter, number

# ONNX Runtime has it in ONNX's domain, whatever the version.
LAYER_NORMALIZATION, OPSET_OF_LAYER_NORMALIZATION = "LayerNormalization", 17
SIMPLIFIED = "SimplifiedLayerNormalization"
# From this one on, axes of means are an input.
OPSET_OF_MEAN_AXES = 18
_EPSILON = 1e-12


def write_skip_layer_normalization(w: FusedWriter) -> None:
    """Inputs, those that are added, scale, bias, and a bias of the sum; the sum may be an output."""
    w.require_only(0, 1, 2, 3, 4, outputs=(0, 3))
    normalized(w, (w.node.input(0), w.node.input(1), w.node.input(4)), w.node.input(2), w.node.input(3))


def normalized(w: FusedWriter, summands: tuple[str, ...], scale: str, bias: str, total: int = 3) -> None:
    w.require(bool(summands[0]))
    first, *others = filter(None, summands)
    names = [f"{w.node.outputs[0]}/sum {at}" for at in range(len(others))]
    if len(w.node.outputs) > total and w.node.outputs[total]:
        w.require(bool(names))
        names[-1] = w.node.outputs[total]
    for name, other in zip(names, others, strict=True):
        first = w.apply("Add", first, other, output=name)
    inputs = [first, scale, *([bias] if bias else [])]
    epsilon = w.real("epsilon", 1e-5 if w.node.operator == LAYER_NORMALIZATION else _EPSILON)
    if w.opset >= OPSET_OF_LAYER_NORMALIZATION:
        w.apply(LAYER_NORMALIZATION, *inputs, output=w.node.outputs[0], axis=-1, epsilon=epsilon)
        return
    rest = w.apply("Sub", first, w.apply("ReduceMean", first, axes=[-1]))
    variance = w.apply("ReduceMean", w.apply("Mul", rest, rest), axes=[-1])
    deviation = w.apply("Sqrt", w.apply("Add", variance, number(epsilon)))
    scaled = w.apply("Mul", w.apply("Div", rest, deviation), scale, output="" if bias else w.node.outputs[0])
    if bias:
        w.apply("Add", scaled, bias, output=w.node.outputs[0])


def write_layer_normalization(w: FusedWriter) -> None:
    w.require_only(0, 1, 2)
    w.require(w.attribute("axis", -1) == -1)
    normalized(w, (w.node.input(0),), w.node.input(1), w.node.input(2))


def write_skip_simplified(w: FusedWriter) -> None:
    """Inputs, those that are added, scale, and a bias of the sum; the sum may be an output."""
    w.require_only(0, 1, 2, 3, outputs=(0, 3))
    summands = [name for name in (w.node.input(0), w.node.input(1), w.node.input(3)) if name]
    w.require(bool(w.node.input(0)))
    total = w.node.outputs[3] if len(w.node.outputs) > 3 else ""
    made = summands[0]
    for at, other in enumerate(summands[1:], 2):
        made = w.apply("Add", made, other, output=total if at == len(summands) else "")
    _of_mean_square(w, made, w.node.input(2), w.real("epsilon", _EPSILON))


def write_simplified(w: FusedWriter) -> None:
    """A normalization without a mean, which ONNX Runtime has in ONNX's domain."""
    w.require_only(0, 1)
    w.require(w.attribute("axis", -1) == -1)
    _of_mean_square(w, w.node.input(0), w.node.input(1), w.real("epsilon", 1e-5))


def _of_mean_square(w: FusedWriter, data: str, scale: str, epsilon: float) -> None:
    square = w.apply("Mul", data, data)
    if w.opset < OPSET_OF_MEAN_AXES:
        mean = w.apply("ReduceMean", square, axes=[-1])
    else:
        mean = w.apply("ReduceMean", square, np.array([-1]))
    deviation = w.apply("Sqrt", w.apply("Add", mean, number(epsilon)))
    w.apply("Mul", w.apply("Div", data, deviation), scale, output=w.node.outputs[0])
