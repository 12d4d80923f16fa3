"""ONNX Runtime's products that are quantized at run time, as the nodes that they were made of.

Source: its docs/ContribOperators.md, DynamicQuantizeMatMul and MatMulIntegerToFloat.
"""

from __future__ import annotations

from typing import Any

from int8tune.compiler.onnx_reader.nodes import Node, written

# Where the scales and zero points of data and weights are, and the bias.
FUSED = {"DynamicQuantizeMatMul": ("", 2, "", 3, 4), "MatMulIntegerToFloat": (2, 3, 4, 5, 6)}


def unfused(node: Node) -> list[Node]:
    """A node that is in `FUSED` as MatMulInteger and what is around it."""
    scale, weight_scale, point, weight_point, bias = FUSED[node.operator]
    made, nodes = node.outputs[0], list[Node]()

    def apply(computes: str, inputs: list[str], outputs: tuple[str, ...], **attributes: Any) -> str:
        nodes.append(written(f"{node.name}/{computes}", computes, inputs, outputs, attributes))
        return outputs[0]

    data, names = node.input(0), [node.input(at) if isinstance(at, int) else "" for at in (scale, point)]
    if scale == "":
        names = [f"{made}/scale", f"{made}/zero point"]
        data = apply("DynamicQuantizeLinear", [data], (f"{made}/data", *names))
    assert isinstance(weight_scale, int)
    assert isinstance(weight_point, int)
    assert isinstance(bias, int)
    sums = apply(
        "MatMulInteger", [data, node.input(1), names[1], node.input(weight_point)], (f"{made}/sums of products",)
    )
    scales = apply("Mul", [names[0], node.input(weight_scale)], (f"{made}/scales",))
    numbers = apply("Cast", [sums], (f"{made}/numbers",), to=1)
    product = f"{made}/product" if node.input(bias) else made
    apply("Mul", [numbers, scales], (product,))
    if node.input(bias):
        apply("Add", [product, node.input(bias)], (made,))
    return nodes
