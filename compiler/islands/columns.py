"""Softmax along an axis that is not the last: columns beside each other are lanes. This module imports TVM."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import relax, te

from int8tune.compiler.islands import functions
from int8tune.compiler.islands.functions import number

LEAST_COLUMNS = 8

Legalize = Callable[[Any, Any], Any]


def softmax(builder: Any, call: Any, default: Legalize) -> Any:
    """A softmax along an axis with enough values behind it."""

    def normalized(data: Any) -> Any:
        _, powers, total = _powers(data)
        factor = te.compute(total.shape, lambda o, i: number(1.0) / total[o, i], name="factor")
        return te.compute(data.shape, lambda o, c, i: powers[o, c, i] * factor[o, i], name="softmax")

    return _on_columns(builder, call, default, normalized, "softmax")


def log_softmax(builder: Any, call: Any, default: Legalize) -> Any:
    """The logarithms of a softmax along an axis with enough values behind it."""

    def normalized(data: Any) -> Any:
        largest, _, total = _powers(data)
        logarithm = te.compute(total.shape, lambda o, i: functions.logarithm(total[o, i]), name="logarithm")
        return te.compute(data.shape, lambda o, c, i: data[o, c, i] - largest[o, i] - logarithm[o, i], name="log")

    return _on_columns(builder, call, default, normalized, "log_softmax")


def _powers(data: Any) -> tuple[Any, Any, Any]:
    """The largest of each column of data [outer, length, columns], powers of e beside that, and their sums."""
    outer, length, inner = data.shape
    along = te.reduce_axis((0, length), name="along")
    largest = te.compute((outer, inner), lambda o, i: te.max(data[o, along, i], axis=along), name="largest")
    powers = te.compute(data.shape, lambda o, c, i: functions.exponential(data[o, c, i] - largest[o, i]), name="powers")
    added = te.reduce_axis((0, length), name="added")
    total = te.compute((outer, inner), lambda o, i: te.sum(powers[o, added, i], axis=added), name="total")
    return largest, powers, total


def _on_columns(builder: Any, call: Any, default: Legalize, compute: Callable[[Any], Any], name: str) -> Any:
    (data,) = call.args
    shape = [int(extent) for extent in data.ty.shape]
    axis = int(call.attrs.axis) % max(len(shape), 1)
    inner = math.prod(shape[axis + 1 :])
    if data.ty.dtype.dtype != "float32" or not shape or inner < LEAST_COLUMNS:
        return default(builder, call)
    taken = builder.normalize(relax.op.reshape(data, (math.prod(shape[:axis]), shape[axis], inner)))
    made = builder.emit(builder.call_te(compute, taken, primfunc_name_hint=name))
    return relax.op.reshape(made, call.ty.shape)
