"""ONNX models of Loop and Scan."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.support.models.onnx_islands import IslandWriter

SIZE = (3, 4)


def info(name: str, element: int = 1) -> Any:
    return onnx.helper.make_tensor_value_info(name, element, None)


def loop(turns: Any, condition: Any = None, inner: Any = None) -> bytes:
    """A value that grows turn by turn, with the sum of each turn; `turns` is a constant or what makes one."""
    w = IslandWriter(SIZE)
    nodes = [
        onnx.helper.make_node("Cast", ["turn"], ["number"], to=1),
        onnx.helper.make_node("Mul", ["value", "half"], ["less"]),
        onnx.helper.make_node("Add", ["less", "number"], ["more"]),
        onnx.helper.make_node("ReduceSum", ["more"], ["sum"], keepdims=0),
        inner or onnx.helper.make_node("Identity", ["goes"], ["goes_on"]),
    ]
    half = onnx.numpy_helper.from_array(np.array(0.5, np.float32), "half")
    taken = [onnx.helper.make_tensor_value_info("turn", 7, []), onnx.helper.make_tensor_value_info("goes", 9, [])]
    body = onnx.helper.make_graph(
        nodes, "body", [*taken, info("value")], [info("goes_on", 9), info("more"), info("sum")], [half]
    )
    count = turns(w) if callable(turns) else w.constant("turns", turns, np.int64)
    goes = "" if condition is None else w.constant("condition", condition, bool)
    w.node("Loop", [count, goes, "d"], "y", body=body)
    w.nodes[-1].output.append("sums")
    return w.file("y", "sums")


def scan(axis: int, is_backwards: bool, is_turned: bool, opset: int = 18) -> bytes:
    """A state that meets each row or column, one after the other."""
    w = IslandWriter(SIZE)
    nodes = [
        onnx.helper.make_node("Add", ["state", "row"], ["both"]),
        onnx.helper.make_node("Tanh", ["both"], ["next"]),
        onnx.helper.make_node("Mul", ["next", "next"], ["made"]),
    ]
    shape = [SIZE[1 - axis]]
    forms = {name: onnx.helper.make_tensor_value_info(name, 1, shape) for name in ("state", "row", "next", "made")}
    body = onnx.helper.make_graph(nodes, "body", [forms["state"], forms["row"]], [forms["next"], forms["made"]])
    fields: dict[str, Any] = {"scan_input_directions": [int(is_backwards)], "scan_output_directions": [int(is_turned)]}
    fields |= {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    w.node("Scan", [w.constant("begin", np.zeros(shape)), "d"], "y", body=body, num_scan_inputs=1, **fields)
    w.nodes[-1].output.append("rows")
    return w.file("y", "rows", opset=opset)


def loop_and_layer() -> bytes:
    """A loop, and an int8 layer beside it."""
    model = onnx.ModelProto.FromString(loop(5, True))
    weight = np.random.default_rng(0).integers(-127, 128, (SIZE[1], 5)).astype(np.int8)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name)
        for name, array in (("w", weight), ("w.s", np.array(0.01, np.float32)))
    )
    model.graph.node.extend(
        [
            onnx.helper.make_node("DequantizeLinear", ["w", "w.s"], ["w.d"]),
            onnx.helper.make_node("MatMul", ["d", "w.d"], ["product"]),
            onnx.helper.make_node("QuantizeLinear", ["product", "s", "z"], ["layer"]),
        ]
    )
    model.graph.output.append(onnx.ValueInfoProto(name="layer"))
    data: bytes = model.SerializeToString()
    return data
