"""Which nodes of ONNX an island may have: those that TVM's importer converts and whose results are tested here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

# By operator, the inputs that must be known before the model runs; those of others may all be computed.
STANDARD: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum", "Mean"), ()),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Xor", "Not"), ()),
    **dict.fromkeys(("Abs", "Neg", "Reciprocal", "Sqrt", "Exp", "Log", "Erf", "Sign", "Floor", "Ceil", "Round"), ()),
    **dict.fromkeys(("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"), ()),
    **dict.fromkeys(("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "ThresholdedRelu", "Shrink", "Mish"), ()),
    **dict.fromkeys(("Sigmoid", "Tanh", "Softplus", "Softsign", "HardSigmoid", "HardSwish", "Gelu"), ()),
    **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), ()),
    **dict.fromkeys(("IsInf", "IsNaN", "Where", "Cast", "Identity", "Dropout"), ()),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LayerNormalization", "RMSNormalization"), ()),
    **dict.fromkeys(("InstanceNormalization", "BatchNormalization", "LRN"), ()),
    **dict.fromkeys(
        ("Conv", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger", "Einsum", "DynamicQuantizeLinear"), ()
    ),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "GlobalLpPool"), ()),
    **dict.fromkeys(("ArgMax", "ArgMin", "Concat", "Transpose", "DepthToSpace", "SpaceToDepth"), ()),
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"), ()),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), ()),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare"), (1,)),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"), (1,)),
    "Clip": (),
    **dict.fromkeys(("Pad", "Slice", "Resize"), (1, 2, 3, 4)),
    **dict.fromkeys(("Split", "Tile", "TopK", "CumSum", "Trilu"), (1,)),
}
# ONNX Runtime's own.
MICROSOFT: dict[str, tuple[int, ...]] = dict.fromkeys(("Gelu", "FastGelu", "BiasGelu"), ())
# What these make is their input in the shape that is known of their output.
RESHAPING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")

Shape = tuple[int, ...]


def multiply_adds(operator: str, inputs: Sequence[Shape], output: Shape) -> int:
    """The multiply-adds of a node; 0 for what is no product and no convolution."""
    count = _COUNTS.get(operator)
    return count(inputs, output) if count is not None and len(inputs) > 1 else 0


def _product(inputs: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * (inputs[0][-1] if inputs[0] else 1)


def _convolution(inputs: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * math.prod(inputs[1][1:])


def _transposed(inputs: Sequence[Shape], _output: Shape) -> int:
    return math.prod(inputs[0]) * math.prod(inputs[1][1:])


def _recurrent(inputs: Sequence[Shape], _output: Shape) -> int:
    """Each step of each sequence meets both weights of each direction."""
    return math.prod(inputs[0][:2]) * sum(math.prod(weight) for weight in inputs[1:3])


def _recurrent_states(inputs: Sequence[Shape], _output: Shape) -> int:
    """A layer computes what the data is multiplied by; each step meets the weights of states."""
    return math.prod(inputs[0][:2]) * math.prod(inputs[1])


_COUNTS: dict[str, Callable[[Sequence[Shape], Shape], int]] = {
    **dict.fromkeys(("MatMul", "Gemm", "MatMulInteger"), _product),
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    "DynamicQuantizeLSTM": _recurrent_states,
}
