"""The arguments of a kernel, each of one axis, as `schedules.arguments` makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import params_length, rescale_shape, rescale_type
from int8tune.schedules.epilogue import DTYPES
from int8tune.schedules.lowering import AS_WRITTEN, SIMPLIFIED
from int8tune.schedules.template import OperandLayout
from int8tune.schedules.workload import Workload


@dataclass(frozen=True, slots=True)
class Arguments:
    """TIR buffers.

    Attributes:
        rescale: [P] or, where the rounding rule has some rows, [rows, P]: the only one that may have two axes.
            [rows * P] if `simplified`.
        residual: None where the layer has none.
        positions: of channels in the bias and in per-channel rescale values.
        row_length: values of a row of `rescale`.
    """

    data: Any
    weight: Any
    bias: Any
    rescale: Any
    params: Any
    residual: Any
    out: Any
    positions: int
    row_length: int

    def load_rescale(self, row: int, at: Any, width: int) -> Any:
        """`width` values of `rescale` from position `at` on, in this row where there are some."""
        has_rows = len(self.rescale.shape) > 1
        at = at if has_rows or row == 0 else at + self.row_length * row
        place = T.ramp(at, 1, width) if width > 1 else at
        return self.rescale[(row, place) if has_rows else place]


def declare_arguments(
    workload: Workload, layout: OperandLayout, weight_length: int, *, simplified: bool = False
) -> Arguments:
    """Begin the kernel `main`: declare its arguments in the function that is being built.

    Args:
        simplified: whether the kernel leaves nothing to simplify (`schedules.lowering.SIMPLIFIED`).
    """
    numerics, positions = workload.numerics, len(layout.channels)
    T.func_name("main")
    out_length, residual = math.prod(workload.output_shape), numerics.residual
    data = flat_argument("data", math.prod(workload.data_shape), DTYPES[numerics.data])
    weight = flat_argument("weight", weight_length, "int8")
    bias = flat_argument("bias", len(layout.border_taps) * positions, "int32")
    shape, rescale_dtype = rescale_shape(numerics, positions), rescale_type(numerics)
    rescale = T.arg("rescale", T.buffer(shape, rescale_dtype))
    params = flat_argument("params", params_length(numerics), "int32")
    added = flat_argument("residual", out_length, DTYPES[residual.data]) if residual else None
    out = flat_argument("out", out_length, DTYPES[numerics.output])
    T.func_attr(
        {"global_symbol": "main", "tirx.noalias": True, AS_WRITTEN: True, **({SIMPLIFIED: True} if simplified else {})}
    )
    if simplified and len(shape) > 1:
        rescale = T.decl_buffer((math.prod(shape),), rescale_dtype, data=rescale.data)
    return Arguments(data, weight, bias, rescale, params, added, out, positions, shape[-1])


def flat_argument(name: str, length: int, dtype: str) -> Any:
    """Declare an argument of one axis in the function that is being built."""
    return T.arg(name, T.buffer((length,), dtype))
