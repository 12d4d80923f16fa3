"""Dilated convolutions that a file has as SPACE_TO_BATCH_ND, a convolution without dilation, and BATCH_TO_SPACE_ND."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operators.base import byte_fault, is_same_quantization
from int8tune.compiler.tflite_reader.steps import integers

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Dilation:
    """What a convolution computes between two operators that it takes the place of.

    Attributes:
        data, made: names of values.
        padding: top, left, bottom, right.
        idle: indexes of the operators.
    """

    data: str
    made: str
    dilation: Pair
    padding: tuple[int, int, int, int]
    idle: Pair

    def applied(self, convolution: Operator) -> Operator:
        """The convolution with dilation; it has none, and a stride of 1."""
        attributes = {**convolution.attributes, "dilation": self.dilation, "padding": self.padding}
        inputs = (self.data, *convolution.inputs[1:])
        return replace(convolution, inputs=inputs, outputs=(self.made,), attributes=attributes)


def dilations_of(
    plains: Sequence[Operator], values: Mapping[str, Value], outputs: Sequence[str], is_simple: Callable[[int], bool]
) -> dict[int, Dilation]:
    """By index of the convolution.

    Args:
        plains: operators as the file has them.
        outputs: of the model.
        is_simple: whether a convolution has no border, stride and dilation.
    """
    made_by = {name: index for index, plain in enumerate(plains) for name in plain.outputs}
    readers = {name: index for index, plain in enumerate(plains) for name in plain.inputs}
    uses = Counter(name for plain in plains for name in plain.inputs) + Counter(outputs)
    found = {}
    for index, plain in enumerate(plains):
        if plain.operator not in CONVOLUTIONS or len(plain.inputs) < 2 or uses[plain.outputs[0]] != 1:
            continue
        first, last = made_by.get(plain.inputs[0]), readers.get(plain.outputs[0])
        if first is None or last is None or uses[plain.inputs[0]] != 1:
            continue
        dilation = _dilation(plains, values, (first, index, last))
        if dilation is not None and is_simple(index):
            found[index] = dilation
    return found


def _dilation(plains: Sequence[Operator], values: Mapping[str, Value], at: tuple[int, int, int]) -> Dilation | None:
    spread, convolution, gathered = (plains[index] for index in at)
    words = spread.operator, gathered.operator
    if words != ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND") or not len(spread.inputs) == len(gathered.inputs) == 3:
        return None
    block, widths, again, crops = (integers(values[name]) for name in (*spread.inputs[1:], *gathered.inputs[1:]))
    if block is None or widths is None or crops is None or block != again or not len(widths) == len(crops) == 4:
        return None
    ends = [
        (values[spread.inputs[0]], values[spread.outputs[0]]),
        (values[gathered.inputs[0]], values[gathered.outputs[0]]),
    ]
    for outer, inner in ends:
        if byte_fault(outer, inner) or not is_same_quantization(outer, inner) or len(outer.shape) != 4:
            return None
    (data, _), (_, made) = ends
    kernel = values[convolution.inputs[1]].shape[1:3]
    top, bottom, left, right = (width - crop for width, crop in zip(widths, crops, strict=True))
    sizes = [
        extent + before + after - step * (taps - 1)
        for extent, before, after, step, taps in zip(
            data.shape[1:3], (top, left), (bottom, right), block, kernel, strict=False
        )
    ]
    if min(top, left, bottom, right) < 0 or len(block) != 2 or min(block) < 1 or tuple(sizes) != made.shape[1:3]:
        return None
    return Dilation(data.name, made.name, (block[0], block[1]), (top, left, bottom, right), (at[0], at[2]))
