"""SVDF of 8-bit values, written as loops."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Graph, Operator
from int8tune.compiler.operator_kernels.kernel import TYPES, OperatorKernel
from int8tune.compiler.operators.fixed_gates import HIGH, LOW
from int8tune.compiler.operators.svdf import FixedSvdf, svdf_of
from int8tune.compiler.program import Array
from int8tune.schedules.epilogue import scale_fixed_point
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.target import Target


def svdf(graph: Graph, operator: Operator, target: Target) -> OperatorKernel:  # noqa: ARG001
    """The memory moves on by one place, which gets what each filter makes of the data; then sums over time."""
    form, names = svdf_of(operator), ("data", "memory", "made", "kept")
    constants: tuple[Array, ...] = form.feature, form.offset, form.time, form.bias
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        ends = [graph.values[name] for name in (*operator.inputs, *operator.outputs)]
        forms = [(name, value.shape, TYPES[value.type]) for name, value in zip(names, ends, strict=True)]
        known = [(f"c{index}", each.shape, str(each.dtype)) for index, each in enumerate(constants)]
        _write(form, [T.arg(name, T.buffer(*rest)) for name, *rest in (*forms[:2], *known, *forms[2:])])
    return OperatorKernel(builder.get(), operator.inputs, constants)


def _write(form: FixedSvdf, arguments: list[Any]) -> None:
    data, memory, feature, offset, time, bias, made, kept = arguments
    (filters, length), values = form.time.shape, form.feature.shape[1]
    total = T.alloc_buffer((1,), "int32", scope="local")
    wrapped = T.alloc_buffer((1,), "int64", scope="local")
    with T.serial(0, data.shape[0]) as row:
        with T.serial(0, filters) as at:
            T.buffer_store(total, offset[at], [0])
            with T.serial(0, values) as place:
                product = data[row, place].astype("int32") * feature[at, place].astype("int32")
                T.buffer_store(total, total[0] + product, [0])
            with T.serial(0, length - 1) as place:
                T.buffer_store(kept, memory[row, at * length + place + 1], [row, at * length + place])
            newest = tirx.min(tirx.max(_scaled(total[0], form.feature_scale), LOW), HIGH)
            T.buffer_store(kept, newest.astype("int16"), [row, at * length + length - 1])
        with T.serial(0, filters // form.rank) as at:
            # Cut to 32 bits at last, as sums that wrap around: TVM tells LLVM that those of 32 bits do not.
            T.buffer_store(wrapped, bias[at].astype("int64"), [0])
            with T.serial(0, form.rank) as each, T.serial(0, length) as place:
                own = at * form.rank + each
                product = kept[row, own * length + place].astype("int32") * time[own, place].astype("int32")
                T.buffer_store(wrapped, wrapped[0] + product.astype("int64"), [0])
            steps = _scaled(wrapped[0].astype("int32"), form.scale) + form.zero_point
            low, high = RANGES["s8"]
            T.buffer_store(made, tirx.min(tirx.max(steps, low), high).astype("int8"), [row, at])


def _scaled(total: Any, scale: tuple[int, int]) -> Any:
    multiplier, shift = (tirx.const(each) for each in scale)
    return scale_fixed_point(total, multiplier, shift)
