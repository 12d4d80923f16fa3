"""How far ONNX Runtime is from itself where the last bit of its numbers differs.

Sums in another order differ in their last bits, and so do all runtimes. What comes of it is no fault of any: a value
between two steps becomes one or the other, and of dynamic quantization the largest value scales all others. Of values
that are all the same a normalization leaves what its mean was rounded by, so that means are those of binary64, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHANGES = 8
# Nodes whose numbers are moved: sums and functions, of which runtimes round each in their own way.
ROUNDED = (
    "Mul",
    "Add",
    "Div",
    "LayerNormalization",
    "Softmax",
    "ReduceMean",
    "GlobalAveragePool",
    "Sigmoid",
    "Conv",
    "MatMul",
    "Gemm",
)


def least_sqnr_db(file: Path, samples: int) -> float | None:
    """The least of several inputs' and changes', in decibels; None where no output changes."""
    import numpy as np

    data = file.read_bytes()
    session, changed = _session(data), [_session(_moved(data, seed)) for seed in range(CHANGES)]
    found = []
    for feed in _feeds(data, samples):
        (first, *_) = session.run(None, feed)
        for other in changed:
            noise = np.square(first.astype(np.float64) - other.run(None, feed)[0]).sum()
            if noise > 0:
                found.append(10 * np.log10(np.square(first.astype(np.float64)).sum() / noise))
    return min(found, default=None)


def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        return onnxruntime.InferenceSession(data, options)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        # One of its own optimizations fails on layers that share a bias, as NNCF writes them.
        return onnxruntime.InferenceSession(data, options, disabled_optimizers=["MatMulAddFusion"])


def _feeds(data: bytes, samples: int) -> Iterator[dict[str, Any]]:
    """What `int8tune accuracy` draws: noise, a smooth input, one value everywhere, extremes, and so on."""
    from int8tune.compiler.file_layout import with_file_layouts
    from int8tune.compiler.onnx_reader.model import read_onnx
    from int8tune.tuner.models.drawn_samples import drawn_samples

    graph = with_file_layouts(read_onnx(data, "model"))
    for arrays in zip(*drawn_samples(graph, samples, 0), strict=True):
        yield dict(zip(graph.inputs, arrays, strict=True))


def _moved(data: bytes, seed: int) -> bytes:
    """The model with half of the numbers of each rounding node a last bit off, and exact means of normalizations."""
    import numpy as np
    import onnx

    model, rng = onnx.ModelProto.FromString(data), np.random.default_rng(seed)
    shapes = {info.name: _shape(info) for info in onnx.shape_inference.infer_shapes(model).graph.value_info}
    nodes: list[Any] = []
    one = np.float32(1)
    for node in model.graph.node:
        name = node.output[0]
        if node.op_type == "InstanceNormalization" and shapes.get(node.input[0]):
            nodes += _by_exact_means(model.graph, node, shapes[node.input[0]])
            continue
        nodes.append(node)
        if node.op_type not in ROUNDED or not shapes.get(name):
            continue
        node.output[0] = f"{name}/before"
        factors = np.where(rng.random(shapes[name]) < 0.5, one, np.nextafter(one, np.float32(rng.choice([0, 2]))))
        model.graph.initializer.append(onnx.numpy_helper.from_array(factors.astype(np.float32), f"{name}/bit"))
        nodes.append(onnx.helper.make_node("Mul", [f"{name}/before", f"{name}/bit"], [name]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    moved: bytes = model.SerializeToString()
    return moved


def _by_exact_means(graph: Any, node: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    """A normalization of each image's channels [N, C, ...] as its parts, whose means are rounded once."""
    import numpy as np
    import onnx

    (data, scale, offset), made = node.input, node.output[0]
    epsilon = next((at.f for at in node.attribute if at.name == "epsilon"), 1e-5)
    length = int(np.prod(shape[2:]))
    known = {
        "shares": np.full((length, 1), 1 / length),
        "epsilon": np.float32(epsilon),
        "flat": np.array([0, 0, -1]),
        "column": np.array([-1, 1]),
        "shape": np.array(shape),
    }
    graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), f"{made}/{k}") for k, v in known.items())
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Reshape", [data, "flat"], "rows", {}),
        ("Cast", ["rows"], "wide", {"to": 11}),
        ("MatMul", ["wide", "shares"], "wide mean", {}),
        ("Cast", ["wide mean"], "mean", {"to": 1}),
        ("Sub", ["rows", "mean"], "left", {}),
        ("Mul", ["left", "left"], "squares", {}),
        ("Cast", ["squares"], "wide squares", {"to": 11}),
        ("MatMul", ["wide squares", "shares"], "wide variance", {}),
        ("Cast", ["wide variance"], "variance", {"to": 1}),
        ("Add", ["variance", "epsilon"], "least", {}),
        ("Sqrt", ["least"], "deviation", {}),
        ("Div", ["left", "deviation"], "normal", {}),
        ("Reshape", [scale, "column"], "scales", {}),
        ("Mul", ["normal", "scales"], "scaled", {}),
        ("Reshape", [offset, "column"], "offsets", {}),
        ("Add", ["scaled", "offsets"], "moved", {}),
        ("Reshape", ["moved", "shape"], "", {}),
    ]
    given = {data, scale, offset}
    for operator, inputs, output, attributes in steps:
        names = [name if name in given else f"{made}/{name}" for name in inputs]
        yield onnx.helper.make_node(operator, names, [f"{made}/{output}" if output else made], **attributes)


def _shape(info: Any) -> tuple[int, ...]:
    """The shape of numbers that is known; empty for everything else."""
    form = info.type.tensor_type
    shape = tuple(extent.dim_value for extent in form.shape.dim)
    return shape if form.elem_type == 1 and all(shape) else ()
