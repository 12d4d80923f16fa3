"""Which kernel computes which kind of operator. Reshapes need none, and layers have templates."""

from __future__ import annotations

from int8tune.compiler.graph import Kind
from int8tune.compiler.operator_kernels.addition import add, subtract
from int8tune.compiler.operator_kernels.blocks import depth_to_space, space_to_depth
from int8tune.compiler.operator_kernels.concat import concat
from int8tune.compiler.operator_kernels.detection import detection
from int8tune.compiler.operator_kernels.division import divide
from int8tune.compiler.operator_kernels.elementwise import elementwise
from int8tune.compiler.operator_kernels.extremum import extremum
from int8tune.compiler.operator_kernels.kernel import Writer
from int8tune.compiler.operator_kernels.lookup import lookup
from int8tune.compiler.operator_kernels.lstm import lstm
from int8tune.compiler.operator_kernels.mean import mean
from int8tune.compiler.operator_kernels.movement import cut, gather, pad, transpose
from int8tune.compiler.operator_kernels.multiply import multiply
from int8tune.compiler.operator_kernels.pool import average_pool, max_pool
from int8tune.compiler.operator_kernels.prelu import prelu
from int8tune.compiler.operator_kernels.quantize import dequantize, quantize
from int8tune.compiler.operator_kernels.reduction import arguments, extreme, total
from int8tune.compiler.operator_kernels.requantize import requantize
from int8tune.compiler.operator_kernels.resize import resize
from int8tune.compiler.operator_kernels.softmax import softmax
from int8tune.compiler.operator_kernels.squared_difference import squared_difference
from int8tune.compiler.operator_kernels.svdf import svdf
from int8tune.compiler.operator_kernels.word_arithmetic import word_arithmetic
from int8tune.compiler.operator_kernels.words import word_byte, word_sums

KERNELS: dict[Kind, Writer] = {
    Kind.ADD: add,
    Kind.ARG_MAX: arguments,
    Kind.ARG_MIN: arguments,
    Kind.AVERAGE_POOL: average_pool,
    Kind.CONCAT: concat,
    Kind.DEPTH_TO_SPACE: depth_to_space,
    Kind.DEQUANTIZE: dequantize,
    Kind.DIVIDE: divide,
    Kind.ELEMENTWISE: elementwise,
    Kind.GATHER: gather,
    Kind.LOOKUP: lookup,
    Kind.MAXIMUM: extremum,
    Kind.MAX_POOL: max_pool,
    Kind.MEAN: mean,
    Kind.MINIMUM: extremum,
    Kind.MULTIPLY: multiply,
    Kind.PAD: pad,
    Kind.PRELU: prelu,
    Kind.QUANTIZE: quantize,
    Kind.REDUCE_MAX: extreme,
    Kind.REDUCE_MIN: extreme,
    Kind.REQUANTIZE: requantize,
    Kind.RESIZE: resize,
    Kind.SLICE: cut,
    Kind.SOFTMAX: softmax,
    Kind.SQUARED_DIFFERENCE: squared_difference,
    Kind.SPACE_TO_DEPTH: space_to_depth,
    Kind.SUBTRACT: subtract,
    Kind.SUM: total,
    Kind.TRANSPOSE: transpose,
    Kind.WORD_ARITHMETIC: word_arithmetic,
    Kind.WORD_BYTE: word_byte,
    Kind.WORD_SUMS: word_sums,
}
# Of operators with several outputs.
WIDE_KERNELS: dict[Kind, Writer] = {Kind.DETECTION: detection, Kind.LSTM: lstm, Kind.SVDF: svdf}
