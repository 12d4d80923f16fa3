"""What ONNX's operators around convolutions and products are in a graph; axes are still those of the file.

Sources: the operators of ONNX, and cpu/tensor/upsample.cc of ONNX Runtime for the places of a Resize.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.compiler.graph import Kind, Value
from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.layers import MAX_NUMBER, padding_of, pair_of
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.quantization import Constant
from int8tune.compiler.onnx_reader.resizes import resize_attributes
from int8tune.compiler.operators.base import FloatArray
from int8tune.compiler.operators.float_tables import mapped
from int8tune.compiler.operators.float_tables import quantized as stored_of
from int8tune.compiler.operators.functions import FUNCTIONS, clipped_to

# The axis of a Softmax is one of several from this version on; before, it is all behind it, too.
OPSET_OF_ONE_AXIS = 13
# What means the same for stored values as for what they stand for.
MOVES_STORED = (
    "MaxPool",
    "GlobalMaxPool",
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
)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a node is.

    Attributes:
        inputs: how many of the node's inputs the operator takes; others are constants that its attributes say.
    """

    kind: Kind
    attributes: Mapping[str, Any]
    inputs: int = 1


# What a reader gives instead: why a node has no kind.
Reason = str


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One output of a node that takes quantized values and makes one.

    Attributes:
        inputs: of the node; None for what is not quantized, or left out.
        output: as it is stored.
        index: of the output among the node's.
        constants: what is known, by every name.
        is_raw: the node takes and makes stored values themselves, no scale is between them in the file.
    """

    file: OnnxFile
    node: Node
    inputs: tuple[Value | None, ...]
    output: Value
    index: int
    constants: Mapping[str, Constant]
    is_raw: bool = False

    @property
    def data(self) -> Value:
        assert self.inputs[0] is not None
        return self.inputs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def number(self, name: str, default: float) -> float:
        value = self.node.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def integers(self, index: int, name: str) -> tuple[int, ...] | None:
        """A list of integers that is an attribute in old versions and an input in new ones; None where it is absent."""
        if name in self.node.attributes:
            value = self.node.attributes[name]
            return value if isinstance(value, tuple) else None
        constant = self.constants.get(self.node.input(index))
        if constant is None or constant.array.dtype.kind != "i":
            return None
        return tuple(int(each) for each in constant.array.reshape(-1))

    def is_computed(self, index: int) -> bool:
        """Whether an input is there, and not known before the model runs."""
        return bool(self.node.input(index)) and self.node.input(index) not in self.constants


def kind_of(step: Step) -> Found | Reason:
    """What a node that is in `READ` is, or why it has no kind."""
    if step.is_raw and step.node.computes not in MOVES_STORED:
        return "it computes with stored values as if they were numbers"
    return _READERS[step.node.computes](step)


def _max_pool(step: Step) -> Found | Reason:
    if step.node.attributes.get("storage_order"):
        return "its storage_order must be 0"
    window = _window(step)
    return window if isinstance(window, str) else Found(Kind.MAX_POOL, window)


def _average_pool(step: Step) -> Found | Reason:
    window = _window(step)
    if isinstance(window, str):
        return window
    include_pad = bool(step.node.attributes.get("count_include_pad", 0))
    if include_pad and step.node.attributes.get("ceil_mode", 0):
        return "the border can't count where ceil_mode makes it wider"
    return Found(Kind.AVERAGE_POOL, {**window, "include_pad": include_pad})


def _window(step: Step) -> dict[str, Any] | Reason:
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
        return f"its image must have four axes: {step.shape}"
    return Found(Kind.MAX_POOL, {"kernel": step.shape[2:], "stride": (1, 1), "padding": (0, 0, 0, 0)})


def _global_average(step: Step) -> Found | Reason:
    return Found(Kind.MEAN, {"axes": tuple(range(2, len(step.shape)))})


def _reduce_mean(step: Step) -> Found | Reason:
    axes, rank = step.integers(1, "axes"), len(step.shape)
    if step.is_computed(1):
        return "its axes must be constant"
    if not axes:
        if step.node.attributes.get("noop_with_empty_axes"):
            return Found(Kind.RESHAPE, {})
        axes = tuple(range(rank))
    if not all(-rank <= axis < rank for axis in axes):
        return f"its axes must be those of {step.shape}: {axes}"
    return Found(Kind.MEAN, {"axes": tuple(sorted({axis % rank for axis in axes}))})


def _concat(step: Step) -> Found | Reason:
    axis, rank = step.node.attributes.get("axis"), len(step.shape)
    if not isinstance(axis, int) or not -rank <= axis < rank or any(value is None for value in step.inputs):
        return "its inputs must be quantized, and its axis one of theirs"
    return Found(Kind.CONCAT, {"axis": axis % rank}, len(step.inputs))


def _multiply(step: Step) -> Found | Reason:
    if len(step.inputs) != 2 or any(value is None for value in step.inputs):
        return "both of its inputs must be quantized"
    return Found(Kind.MULTIPLY, {}, 2)


def _reshape(step: Step) -> Found | Reason:  # noqa: ARG001
    return Found(Kind.RESHAPE, {})


def _transpose(step: Step) -> Found | Reason:
    rank = len(step.shape)
    order = step.node.attributes.get("perm", tuple(reversed(range(rank))))
    if not isinstance(order, tuple) or sorted(order) != list(range(rank)):
        return f"{order} is no order of {rank} axes"
    return Found(Kind.TRANSPOSE, {"permutation": order})


def _pad(step: Step) -> Found | Reason:
    rank, widths, axes = len(step.shape), step.integers(1, "pads"), step.integers(3, "axes")
    if step.node.attributes.get("mode", "constant") not in ("constant", b"constant"):
        return "its border must be constant"
    if widths is None or step.is_computed(2) or step.is_computed(3):
        return "its pads, their value and axes must be constant"
    axes = tuple(range(rank)) if axes is None else axes
    if len(widths) != 2 * len(axes) or not all(-rank <= axis < rank for axis in axes):
        return f"{len(widths)} pads don't fit axes {axes}"
    padding = [(0, 0)] * rank
    for axis, before, after in zip(axes, widths, widths[len(axes) :], strict=False):
        padding[axis % rank] = before, after
    filling = step.constants.get(step.node.input(2))
    if filling is not None and filling.array.size != 1:
        return "its border must have one value"
    value = step.number("value", 0.0) if filling is None else float(filling.real.reshape(-1)[0])
    if not np.isfinite(value):
        return f"the value of its border must be finite: {value}"
    stored = int(value) if step.is_raw else stored_of(value, step.output)
    return Found(Kind.PAD, {"padding": tuple(padding), "value": stored})


def _slice(step: Step) -> Found | Reason:
    rank = len(step.shape)
    starts, ends = step.integers(1, "starts"), step.integers(2, "ends")
    axes, steps = step.integers(3, "axes"), step.integers(4, "steps")
    if starts is None or ends is None or step.is_computed(3) or step.is_computed(4):
        return "its places must be constant"
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or not all(-rank <= axis < rank for axis in axes):
        return f"its places don't fit {step.shape}"
    if min(steps, default=1) < 1:
        return f"its steps must be positive: {steps}"
    places = [(0, extent, 1) for extent in step.shape]
    for axis, start, end, stride in zip(axes, starts, ends, steps, strict=True):
        places[axis % rank] = slice(start, end, stride).indices(step.shape[axis])
    return _places(places)


def _split(step: Step) -> Found | Reason:
    rank, axis = len(step.shape), step.node.attributes.get("axis", 0)
    sizes, parts = step.integers(1, "split"), len(step.node.outputs)
    if step.is_computed(1) or not isinstance(axis, int) or not -rank <= axis < rank:
        return "its axis and sizes must be constant"
    extent = step.shape[axis]
    if sizes is None:
        sizes = (-(-extent // parts),) * parts
    begin = sum(sizes[: step.index])
    places = [(0, length, 1) for length in step.shape]
    places[axis % rank] = begin, min(extent, begin + (*sizes, *(0,) * parts)[step.index]), 1
    return _places(places)


def _places(places: list[tuple[int, int, int]]) -> Found:
    names = ("begin", "end", "strides")
    return Found(Kind.SLICE, dict(zip(names, zip(*places, strict=True), strict=True)))


def _resize(step: Step) -> Found | Reason:
    if step.is_raw and step.node.attributes.get("mode", "nearest") != "nearest":
        return "stored values are resized by the nearest only"
    attributes = resize_attributes(step.file, step.node, step.shape, step.output.shape, step.constants)
    return attributes if isinstance(attributes, str) else Found(Kind.RESIZE, attributes)


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
    "ReduceMean": _reduce_mean,
    "Concat": _concat,
    "Mul": _multiply,
    "Transpose": _transpose,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Resize": _resize,
    "Softmax": _softmax,
    "Clip": _clip,
    **dict.fromkeys(FUNCTIONS, _function),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"), _reshape),
}
READ = tuple(_READERS)
