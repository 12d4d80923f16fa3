"""How far ONNX Runtime is from itself where the last bit of its numbers differs.

Sums in another order differ in their last bits, and so do all runtimes. What comes of it is no fault of any: a value
between two steps becomes one or the other, and of dynamic quantization the largest value scales all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHANGES = 4
# Nodes whose numbers are moved: sums and functions, of which runtimes round each in their own way.
ROUNDED = ("Mul", "Add", "Div", "LayerNormalization", "Softmax", "ReduceMean", "GlobalAveragePool", "Sigmoid", "Conv")


def least_sqnr_db(file: Path) -> float | None:
    """The least of several inputs' and changes', in decibels; None where no output changes."""
    import numpy as np
    import onnx

    data = file.read_bytes()
    session, changed = _session(data), [_session(_moved(data, seed)) for seed in range(CHANGES)]
    found = []
    for feed in _feeds(session.get_inputs()[0], onnx.load(file)):
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
    return onnxruntime.InferenceSession(data, options)


def _feeds(form: Any, model: Any) -> Iterator[dict[str, Any]]:
    """Noise, one value everywhere, both ends, and a slope; of token numbers noise, and one of them everywhere."""
    import numpy as np

    rng, shape = np.random.default_rng(0), form.shape
    if "int" in form.type:
        tables = [each.dims[0] for each in model.graph.initializer if len(each.dims) == 2]
        yield from ({form.name: rng.integers(0, most, shape)} for most in (max(tables), 1))
        return
    slope = np.broadcast_to(np.linspace(-1, 1, shape[-1]), shape)
    for values in (rng.uniform(-1, 1, shape), np.full(shape, 0.37), rng.choice([-1.0, 1.0], shape), slope):
        yield {form.name: values.astype(np.float32)}


def _moved(data: bytes, seed: int) -> bytes:
    """The model with half of the numbers of each rounding node a last bit off."""
    import numpy as np
    import onnx

    model, rng = onnx.ModelProto.FromString(data), np.random.default_rng(seed)
    shapes = {info.name: _shape(info) for info in onnx.shape_inference.infer_shapes(model).graph.value_info}
    nodes, one = [], np.float32(1)
    for node in model.graph.node:
        nodes.append(node)
        name = node.output[0]
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


def _shape(info: Any) -> tuple[int, ...]:
    """The shape of numbers that is known; empty for everything else."""
    form = info.type.tensor_type
    shape = tuple(extent.dim_value for extent in form.shape.dim)
    return shape if form.elem_type == 1 and all(shape) else ()
