"""ONNX models with functions of their own, and with operators that ONNX defines by others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.models.onnx_islands import IslandWriter

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

OPSET = 24
IMPORTS = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("mine", 1)]


def function(name: str, *nodes: Any, attributes: tuple[str, ...] = ()) -> Any:
    """A function of one value that makes another one, `out`."""
    return onnx.helper.make_function("mine", name, ["in"], ["out"], list(nodes), IMPORTS, list(attributes))


def called(name: str, taken: str, made: str, **attributes: Any) -> Any:
    return onnx.helper.make_node(name, [taken], [made], domain="mine", **attributes)


def model_of(w: IslandWriter, output: str, *functions: Any) -> bytes:
    model = onnx.ModelProto.FromString(w.file(output, opset=OPSET))
    model.functions.extend(functions)
    model.opset_import.append(IMPORTS[1])
    data: bytes = model.SerializeToString()
    return data


def with_layer() -> bytes:
    """A function that calls another one, with an attribute, on both sides of a quantized layer."""
    w = IslandWriter()
    steep = onnx.helper.make_node("Elu", ["in"], ["out"])
    steep.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1))
    twice = [called("steep", "in", "half", slope=0.3), onnx.helper.make_node("Neg", ["half"], ["out"])]
    w.nodes.append(called("twice", w.data, "made"))
    weight = w.constant("w", np.random.default_rng(0).integers(-127, 128, (6, 6, 1, 1)), np.int8)
    taken = w.node("DequantizeLinear", [weight, w.constant("w.s", 0.01)], "w.d")
    layer = w.node("Conv", [w.quantized("made"), taken], "layer")
    w.nodes.append(called("steep", w.quantized(layer), "end", slope=2.0))
    return model_of(w, "end", function("steep", steep, attributes=("slope",)), function("twice", *twice))


def with_attention() -> bytes:
    """The same, and attention of its output."""
    model = onnx.ModelProto.FromString(with_layer())
    model.graph.node.append(onnx.helper.make_node("Attention", ["end", "end", "end"], ["mixed"], is_causal=1))
    model.graph.output.append(onnx.ValueInfoProto(name="mixed"))
    data: bytes = model.SerializeToString()
    return data
