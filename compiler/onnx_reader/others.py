"""What ONNX's operators around convolutions and products are in a graph; axes are still those of the file.

Sources: the operators of ONNX, and cpu/tensor/upsample.cc of ONNX Runtime for the places of a Resize.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from int8tune.compiler.graph import Kind
from int8tune.compiler.onnx_reader.layers import MAX_NUMBER, padding_of, pair_of, with_one_row
from int8tune.compiler.onnx_reader.movements import MOVEMENTS
from int8tune.compiler.onnx_reader.resizes import resize_attributes
from int8tune.compiler.onnx_reader.steps import Found, Reason, Step
from int8tune.compiler.operators.base import FloatArray
from int8tune.compiler.operators.float_tables import mapped
from int8tune.compiler.operators.functions import FUNCTIONS, clipped_to

# The axis of a Softmax is one of several from this version on; before, it is all behind it, too.
OPSET_OF_ONE_AXIS = 13
# What makes places of values.
PLACES = ("ArgMax", "ArgMin")
# What means the same for stored values as for what they stand for.
MOVES_STORED = (
    "MaxPool",
    "GlobalMaxPool",
    "ReduceMax",
    "ReduceMin",
    *PLACES,
    "Transpose",
    "Pad",
    "Slice",
    "Split",
    "Resize",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Identity",
    "Dropout",
    "Gather",
    "Expand",
    "Tile",
    "DepthToSpace",
    "SpaceToDepth",
)


def kind_of(step: Step) -> Found | Reason:
    """What a node that is in `READ` is, or why it has no kind."""
    if step.is_raw and step.node.computes not in MOVES_STORED:
        return "it computes with stored values as if they were numbers"
    return _READERS[step.node.computes](step)


def _max_pool(step: Step) -> Found | Reason:
    if step.node.attributes.get("storage_order"):
        return "its storage_order must be 0"
    window, shapes = _window(step)
    return window if isinstance(window, str) else Found(Kind.MAX_POOL, window, 1, *shapes)


def _average_pool(step: Step) -> Found | Reason:
    window, shapes = _window(step)
    if isinstance(window, str):
        return window
    include_pad = bool(step.node.attributes.get("count_include_pad", 0))
    if include_pad and step.node.attributes.get("ceil_mode", 0):
        return "the border can't count where ceil_mode makes it wider"
    return Found(Kind.AVERAGE_POOL, {**window, "include_pad": include_pad}, 1, *shapes)


Shapes = tuple[tuple[int, ...] | None, tuple[int, ...] | None]


def _window(step: Step) -> tuple[dict[str, Any] | Reason, Shapes]:
    """The window of a pool, and the shapes of its data and output if these are no images in the file."""
    if len(step.shape) != 3:
        return _window_of_image(step), (None, None)
    data, made = ((*each.shape[:2], 1, *each.shape[2:]) for each in (step.data, step.output))
    image = replace(step.data, shape=data), replace(step.output, shape=made)
    wide = replace(step, node=with_one_row(step.node), inputs=(image[0], *step.inputs[1:]), output=image[1])
    return _window_of_image(wide), (data, made)


def _window_of_image(step: Step) -> dict[str, Any] | Reason:
    kernel = step.node.attributes.get("kernel_shape")
    if len(step.shape) != 4 or not isinstance(kernel, tuple) or len(kernel) != 2:
        return f"its image must have four axes and its kernel two: {step.shape}, {kernel}"
    if not all(1 <= extent <= MAX_NUMBER for extent in kernel):
        return f"its kernel must be 1 to {MAX_NUMBER}: {kernel}"
    stride = pair_of(step.file, step.node, "strides")
    if pair_of(step.file, step.node, "dilations") != (1, 1):
        return "dilated windows are not supported"
    padding = list(padding_of(step.file, step.node, step.shape[2:], kernel, stride, (1, 1)))
    if step.node.attributes.get("ceil_mode", 0):
        for axis in (0, 1):
            reach = (step.output.shape[2 + axis] - 1) * stride[axis] + kernel[axis]
            padding[2 + axis] = max(padding[2 + axis], reach - step.shape[2 + axis] - padding[axis])
    return {"kernel": kernel, "stride": stride, "padding": tuple(padding)}


def _global_max(step: Step) -> Found | Reason:
    if len(step.shape) != 4:
        return Found(Kind.REDUCE_MAX, {"axes": tuple(range(2, len(step.shape)))})
    return Found(Kind.MAX_POOL, {"kernel": step.shape[2:], "stride": (1, 1), "padding": (0, 0, 0, 0)})


def _global_average(step: Step) -> Found | Reason:
    return Found(Kind.MEAN, {"axes": tuple(range(2, len(step.shape)))})


REDUCTIONS = {
    "ReduceMean": Kind.MEAN,
    "ReduceSum": Kind.SUM,
    "ReduceMax": Kind.REDUCE_MAX,
    "ReduceMin": Kind.REDUCE_MIN,
}


def _reduction(step: Step) -> Found | Reason:
    axes, rank = step.integers(1, "axes"), len(step.shape)
    if step.is_computed(1):
        return "its axes must be constant"
    if not axes:
        if step.node.attributes.get("noop_with_empty_axes"):
            return Found(Kind.RESHAPE, {})
        axes = tuple(range(rank))
    if not all(-rank <= axis < rank for axis in axes):
        return f"its axes must be those of {step.shape}: {axes}"
    return Found(REDUCTIONS[step.node.computes], {"axes": tuple(sorted({axis % rank for axis in axes}))})


def _argument(step: Step) -> Found | Reason:
    axis, rank = step.node.attributes.get("axis", 0), len(step.shape)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return f"its axis must be one of {step.shape}: {axis}"
    kind = Kind.ARG_MAX if step.node.computes == "ArgMax" else Kind.ARG_MIN
    return Found(kind, {"axes": (axis % rank,), "last": bool(step.node.attributes.get("select_last_index", 0))})


def _concat(step: Step) -> Found | Reason:
    axis, rank = step.node.attributes.get("axis"), len(step.shape)
    if not isinstance(axis, int) or not -rank <= axis < rank or any(value is None for value in step.inputs):
        return "its inputs must be quantized, and its axis one of theirs"
    return Found(Kind.CONCAT, {"axis": axis % rank}, len(step.inputs))


def _multiply(step: Step) -> Found | Reason:
    if len(step.inputs) != 2 or any(value is None for value in step.inputs):
        return "both of its inputs must be quantized"
    return Found(Kind.MULTIPLY, {}, 2)


def _resize(step: Step) -> Found | Reason:
    if step.is_raw and step.node.attributes.get("mode", "nearest") != "nearest":
        return "stored values are resized by the nearest only"
    attributes = resize_attributes(step.file, step.node, step.shape, step.output.shape, step.constants)
    if isinstance(attributes, str):
        return attributes
    return Found(Kind.GATHER if "places" in attributes else Kind.RESIZE, attributes)


def _softmax(step: Step) -> Found | Reason:
    opset, rank = step.node.attributes.get("opset", step.file.opset), len(step.shape)
    axis = step.node.attributes.get("axis", -1 if opset >= OPSET_OF_ONE_AXIS else 1)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return f"its axis must be one of {step.shape}: {axis}"
    axis %= rank
    if opset < OPSET_OF_ONE_AXIS and any(extent != 1 for extent in step.shape[axis + 1 :]):
        return f"the sums must be of one axis, not of all from {axis} on: {step.shape}"
    return Found(Kind.SOFTMAX, {"axis": axis, "beta": 1.0})


def _function(step: Step) -> Found | Reason:
    function, *names = FUNCTIONS[step.node.computes]
    numbers = [np.float32(step.number(name, default)) for name, default in names]
    if not np.isfinite(numbers).all():
        return f"its attributes must be finite: {numbers}"
    return _looked_up(step, lambda values: function(values, *numbers))


def _clip(step: Step) -> Found | Reason:
    limits = []
    for index, name, default in ((1, "min", -np.inf), (2, "max", np.inf)):
        if step.is_computed(index):
            return "its bounds must be constant"
        constant = step.constants.get(step.node.input(index))
        if constant is not None and constant.array.size != 1:
            return "its bounds must be numbers"
        bound = step.number(name, default) if constant is None else float(constant.real.reshape(-1)[0])
        if np.isnan(bound):
            return "its bounds must be numbers"
        limits.append(np.float32(bound))
    return _looked_up(step, lambda values: clipped_to(values, *limits))


def _looked_up(step: Step, function: Callable[[FloatArray], FloatArray]) -> Found:
    return Found(Kind.LOOKUP, {"table": mapped(step.data, step.output, function)})


_READERS: dict[str, Callable[[Step], Found | Reason]] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": _global_max,
    "GlobalAveragePool": _global_average,
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(PLACES, _argument),
    "Concat": _concat,
    "Mul": _multiply,
    "Resize": _resize,
    "Softmax": _softmax,
    "Clip": _clip,
    **dict.fromkeys(FUNCTIONS, _function),
    **MOVEMENTS,
}
READ = tuple(_READERS)
