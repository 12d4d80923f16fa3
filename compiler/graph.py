"""A quantized model as a graph of operators, whatever file it came from.

Values are quantized tensors; an operator takes and makes them, and says by which rule it rounds. Images are
[N, H, W, C] and weights [OC, KH, KW, C / groups], as `schedules.workload` has them: readers move the axes of models
that have others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from int8tune.schedules.numerics import RoundingRule

ElementType = Literal["u8", "s8", "u16", "s16", "s32", "s64", "f16", "f32", "f64", "bool"]

DTYPES: dict[str, type[np.generic]] = {
    "u8": np.uint8,
    "s8": np.int8,
    "u16": np.uint16,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bool": np.bool_,
}


@dataclass(frozen=True, slots=True, eq=False)
class Quantization:
    """What stored values stand for: scale * (stored - zero point).

    Attributes:
        scale: float32 [1], or one for each index of a tensor's axis `axis`.
        zero_point: int64, as many as scales.
    """

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int64]
    axis: int | None = None

    @property
    def per_channel(self) -> bool:
        return self.axis is not None

    def numbers(self, stored: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """What the values of a tensor stand for, in binary32."""
        form = [1] * stored.ndim
        if self.axis is not None:
            form[self.axis] = -1
        steps = stored.astype(np.int64) - self.zero_point.reshape(form)
        return self.scale.reshape(form) * steps.astype(np.float32)


def whole_numbers(zero_point: int = 0) -> Quantization:
    """What stored values stand for in steps of 1."""
    return Quantization(np.ones(1, np.float32), np.array([zero_point], np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor that an operator takes or makes.

    Attributes:
        name: in the model's file.
        quantization: None for values that stand for themselves.
        constant: the values of a weight or a bias; None for what is only known at run time.
    """

    name: str
    shape: tuple[int, ...]
    type: ElementType
    quantization: Quantization | None = None
    constant: npt.NDArray[Any] | None = None


class Kind(StrEnum):
    """What an operator computes: on 8-bit values, but for `FLOAT`; `QUANTIZE` and `DEQUANTIZE` on 16-bit ones, too,
    `WORD_ARITHMETIC` on these alone, and `REQUANTIZE` on those of 16 and 32 bits.

    `WORD_BYTE` and `WORD_SUMS` are before and behind the layers of bytes that a layer of 16-bit data becomes
    (`compiler.word_layers`). `ARG_MAX` makes places. `RESHAPE`, `TRANSPOSE`, `SLICE` and `GATHER` move values of any
    type. Templates take the first four. `DETECTION` takes numbers. `FLOAT` is an island of nodes in float32. Both,
    `LSTM` and `SVDF` have several outputs. `OTHER` is what nothing here computes; its attribute `reason` says why.
    """

    CONV2D = "conv2d"
    DEPTHWISE = "dwconv2d"
    DENSE = "dense"
    MATMUL = "matmul"
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    PRELU = "prelu"
    ELEMENTWISE = "elementwise"
    AVERAGE_POOL = "average_pool"
    MAX_POOL = "max_pool"
    MEAN = "mean"
    SUM = "sum"
    REDUCE_MAX = "reduce_max"
    REDUCE_MIN = "reduce_min"
    ARG_MAX = "arg_max"
    ARG_MIN = "arg_min"
    CONCAT = "concat"
    RESHAPE = "reshape"
    TRANSPOSE = "transpose"
    PAD = "pad"
    SLICE = "slice"
    GATHER = "gather"
    DEPTH_TO_SPACE = "depth_to_space"
    SPACE_TO_DEPTH = "space_to_depth"
    RESIZE = "resize"
    SOFTMAX = "softmax"
    LOOKUP = "lookup"
    SQUARED_DIFFERENCE = "squared_difference"
    WORD_ARITHMETIC = "word_arithmetic"
    WORD_BYTE = "word_byte"
    WORD_SUMS = "word_sums"
    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"
    REQUANTIZE = "requantize"
    DETECTION = "detection"
    LSTM = "lstm"
    SVDF = "svdf"
    FLOAT = "float"
    OTHER = "other"


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One step of a model; `compiler.operators` has what each kind computes.

    Attributes by kind; axes are those of the graph's values:

    - convolutions: `stride`, `padding` (top, left, bottom, right), `dilation`, `groups`
    - layers of 16-bit data: `sums` (`compiler.operators.word_sums`), what becomes of their sums, in place of a bias
    - matmul, of matrices on the last two axes of both inputs, those of other axes spread over each other: `order`, the
      axis of the second input of each axis that it has as [.., K, N]
    - pools: `kernel`, `stride`, `padding` (top, left, bottom, right); average pools `include_pad`, whether the border
      counts among the values
    - mean, sum, reductions: `axes`, ascending; the output's shape says whether they are kept
    - arg max, arg min: `axes`, one, and `last`, whether the last of equal values counts, else the first
    - concat: `axis`
    - transpose: `permutation`: the input axis of each output axis
    - pad: `padding`, (before, after) of each axis, and `value`, the stored value of the border
    - slice: `begin`, `end`, `strides` of each axis, all of them within its extent and strides positive
    - gather: `places`, for each axis int64 [O], the place in the input of each place of the output; None for all
    - depth to space, space to depth, of images: `block`, rows and columns that are channels in the other one; with
      `minor`, these are behind the channels of the image, else before them
    - elementwise: `operations` (`compiler.operators.elementwise`)
    - resize, of images: `method` (nearest, bilinear), `align_corners`, `half_pixel_centers`
    - softmax: `axis`, `beta`, the factor before the exponential
    - lookup: `table`, the 256 stored outputs, by the stored input minus the lowest of its type
    - word arithmetic: `operation` (`compiler.operators.word_arithmetic`), and of sums `powers`, whether those of scales
      that are powers of two are shifted only
    - word byte: `is_high`
    - word sums: `sums`; takes the sums of high bytes and of low ones
    - detection: `options` (`compiler.operators.detection`); takes boxes, scores and anchors, makes boxes, classes,
      scores, and how many there are
    - lstm: `lstm` (`compiler.operators.lstm`); takes data, the state and the cell, makes outputs and both anew
    - svdf: `svdf` (`compiler.operators.svdf`); takes data and the memory, makes outputs and the memory anew
    - float: `island` (`compiler.islands.island`), nodes of an ONNX file; its values have the file's order of axes
    - other: `reason`

    Attributes:
        layers: names in the original model of what this computes.
        operator: what the file calls it, such as `CONV_2D` or `QLinearConv`.
        inputs: names of values; of convolutions and dense layers the data, the weights and, if there is one, the bias.
        clamp: bounds of the stored output values that the model asks for, such as those of a fused ReLU6.
        rule: which runtime's rounding counts: `fixed` is TFLite's reference kernels, `float` ONNX Runtime on CPUs.
    """

    kind: Kind
    layers: tuple[str, ...]
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rule: RoundingRule
    clamp: tuple[int, int] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What a model keeps from one run for the next.

    Attributes:
        name: in the model's file.
        read: the value that it is when a run begins.
        made: the value that it is when a run ends, of the same form.
        initial: what it is before the first run.
    """

    name: str
    read: str
    made: str
    initial: npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A model: its operators in an order in which they can run.

    Attributes:
        name: of the model.
        values: all of them by name, with inputs and constants.
        moved: inputs and outputs of the model that the file has as [N, C, H, W] and the graph as [N, H, W, C].
    """

    name: str
    values: Mapping[str, Value]
    operators: tuple[Operator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    moved: frozenset[str] = frozenset()
    states: tuple[State, ...] = ()

    @property
    def given(self) -> tuple[str, ...]:
        """What is known when a run begins: inputs, and what the run before left."""
        return (*self.inputs, *(state.read for state in self.states))

    @property
    def needed(self) -> tuple[str, ...]:
        """What a run must make: outputs, and what is kept for the next one."""
        return (*self.outputs, *(state.made for state in self.states))
