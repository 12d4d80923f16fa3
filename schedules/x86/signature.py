"""The arguments of an x86 kernel, each of one axis, as `schedules.arguments` makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from schedules.arguments import params_length, rescale_shape, rescale_type
from schedules.epilogue import DTYPES
from schedules.lowering import AS_WRITTEN
from schedules.template import OperandLayout
from schedules.workload import Workload


@dataclass(frozen=True, slots=True)
class Arguments:
    """TIR buffers.

    Attributes:
        rescale: [P] or, for the fixed rule, [2, P]; the only one that may have two axes.
        residual: None where the layer has none.
        positions: of channels in the bias and in per-channel rescale values.
    """

    data: Any
    weight: Any
    bias: Any
    rescale: Any
    params: Any
    residual: Any
    out: Any
    positions: int


def declare_arguments(workload: Workload, layout: OperandLayout, weight_length: int) -> Arguments:
    """Begin the kernel `main`: declare its arguments in the function that is being built."""
    numerics, positions = workload.numerics, len(layout.channels)
    T.func_name("main")
    out_length, residual = math.prod(workload.output_shape), numerics.residual
    declared = (
        _argument("data", math.prod(workload.data_shape), DTYPES[numerics.data]),
        _argument("weight", weight_length, "int8"),
        _argument("bias", len(layout.border_taps) * positions, "int32"),
        T.arg("rescale", T.buffer(rescale_shape(numerics, positions), rescale_type(numerics))),
        _argument("params", params_length(numerics), "int32"),
        _argument("residual", out_length, DTYPES[residual.data]) if residual else None,
        _argument("out", out_length, DTYPES[numerics.output]),
    )
    T.func_attr({"global_symbol": "main", "tirx.noalias": True, AS_WRITTEN: True})
    return Arguments(*declared, positions)


def _argument(name: str, length: int, dtype: str) -> Any:
    return T.arg(name, T.buffer((length,), dtype))
