"""How operators of Relax become TIR in islands, where TVM's own way is slow or unsafe. This module imports TVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax, te, tirx, topi
from tvm.ir import GenericConst
from tvm.target.codegen import llvm_cpu_has_features

from int8tune.compiler.islands import angles, convolutions, functions, products, resizing, rows
from int8tune.compiler.islands.expressions import number_of, of_each
from int8tune.compiler.islands.functions import number
from int8tune.compiler.islands.rows import call_written, threads_for
from int8tune.compiler.operator_kernels.transposition import is_copy, write_transpose

Legalize = Callable[[Any, Any], Any]

LEAST_TRANSPOSED = 1 << 12
SQUARE, CUBE, ROOT, THREE_FOURTHS = 2.0, 3.0, 0.5, 0.75


def _take(builder: Any, call: Any) -> Any:
    """Indices out of bounds are clipped: TVM's own default reads wherever they point."""
    data, indices = call.args
    return builder.call_te(topi.take, data, indices, call.attrs.axis, mode="clip")


def _gather_elements(builder: Any, call: Any) -> Any:
    def gathered(data: Any, indices: Any) -> Any:
        axis = int(call.attrs.axis) % len(data.shape)
        return topi.gather(
            data, axis, te.compute(indices.shape, lambda *at: _within(indices[at], data.shape[axis], indices.dtype))
        )

    return builder.call_te(gathered, *call.args)


def _gather_nd(builder: Any, call: Any) -> Any:
    def gathered(data: Any, indices: Any) -> Any:
        batch, rank = int(call.attrs.batch_dims), len(indices.shape)
        places = int(indices.shape[rank - 1])

        def clipped(first: Any, *at: Any) -> Any:
            """TVM has the places on the first axis."""
            found = indices[(*at, first)]
            for place in range(places):
                found = tirx.Select(first == place, _within(found, data.shape[batch + place], indices.dtype), found)
            return found

        return topi.gather_nd(data, te.compute((places, *list(indices.shape)[:-1]), clipped), batch)

    return builder.call_te(gathered, *call.args)


def _within(index: Any, extent: Any, dtype: str) -> Any:
    """An index of an axis, whatever it was."""
    zero, last = tirx.const(0, dtype), tirx.const(int(extent) - 1, dtype)
    return tirx.min(tirx.max(index, zero), last)


def _elementwise(function: Callable[[Any], Any]) -> Legalize:
    def legalize(builder: Any, call: Any) -> Any:
        (data,) = call.args
        if data.ty.dtype.dtype != "float32":
            return _default(str(call.op.name))(builder, call)
        name = str(call.op.name).rpartition(".")[2]
        return of_each(builder, function, data, name)

    return legalize


def _multiply(builder: Any, call: Any) -> Any:
    """A product is rounded before anything is added to it, as the model says: LLVM would make one rounding of both.

    Zero is added to it, by the same instruction, and `llvm.arithmetic.fence` hides that it is zero. A fence around the
    product itself would keep LLVM from making vectors of the loop.
    """
    if any(each.ty.dtype.dtype != "float32" for each in call.args) or not _fuses_products():
        return _default("relax.multiply")(builder, call)

    def product(one: Any, other: Any) -> Any:
        def rounded(*at: Any) -> Any:
            nothing = tirx.call_llvm_pure_intrin("float32", "llvm.arithmetic.fence", number(-0.0))
            return tirx.call_llvm_pure_intrin("float32", "llvm.fma", spread(one, at), spread(other, at), nothing)

        shape = topi.multiply(one, other).shape

        def spread(value: Any, at: Sequence[Any]) -> Any:
            if not isinstance(value, te.Tensor):
                return value
            axes = range(len(shape) - len(value.shape), len(shape))
            places = zip(axes, value.shape, strict=True)
            return value(*(at[axis] if int(extent) == int(shape[axis]) else 0 for axis, extent in places))

        return te.compute(shape, rounded, name="multiply")

    one, other = call.args
    one, other = (_scalar(one), other) if isinstance(one, GenericConst) else (one, _scalar(other))
    return builder.call_te(product, one, other, primfunc_name_hint="multiply")


def _power(builder: Any, call: Any) -> Any:
    """Squares and cubes are products, as in ONNX Runtime, halves and three fourths (LRN's) roots; others are TVM's."""
    base, exponent = call.args
    known, is_single = number_of(exponent), base.ty.dtype.dtype == "float32"

    def product(one: Any, other: Any) -> Any:
        return builder.emit(_multiply(builder, relax.op.multiply(one, other)))

    def root(value: Any) -> Any:
        return builder.emit(of_each(builder, functions.power_of_half, value, "sqrt"))

    if known == CUBE:
        return product(product(base, base), base)
    if known == SQUARE and is_single:
        return product(base, base)
    if known == ROOT and is_single:
        return root(base)
    if known == THREE_FOURTHS and is_single:
        half = root(base)
        return product(half, root(half))
    return _default("relax.power")(builder, call)


def _fuses_products() -> bool:
    """Whether the target has an instruction for a product and a sum; others have a call of a function for it."""
    target = tvm.target.Target.current()
    return str(target.attrs.get("mtriple", "")).startswith("aarch64") or llvm_cpu_has_features("fma", target)


def _scalar(value: Any) -> Any:
    """A constant of no axes as a number of the code, others as they are."""
    known = number_of(value)
    return value if known is None else number(known)


def _default(operator: str) -> Legalize:
    """TVM's own."""
    found: Legalize = tvm.ir.Op.get(operator).get_attr("FLegalize")
    return found


def _other(operator: str, write: Callable[[Any, Any, Legalize], Any]) -> Legalize:
    return lambda builder, call: write(builder, call, _default(operator))


def _extremum(operator: str, combine: Callable[[Any, Any], Any], least: float) -> Legalize:
    """The greatest or least along axes: TVM's begins with the last finite number, which infinite values don't reach."""
    reduction = rows.extremum_of(combine, least)

    def legalize(builder: Any, call: Any) -> Any:
        (data,), attributes = call.args, call.attrs
        shape, rank = [int(extent) for extent in data.ty.shape], len(data.ty.shape)
        if data.ty.dtype.dtype not in ("float16", "float32", "float64") or rank == 0:
            return _default(operator)(builder, call)
        if (along_rows := rows.extremum(builder, call, reduction)) is not None:
            return along_rows
        axes = range(rank) if attributes.axis is None else sorted(int(axis) % rank for axis in attributes.axis)
        kept = [axis for axis in range(rank) if axis not in axes]
        made = [1 if axis in axes else shape[axis] for axis in range(rank)] if attributes.keepdims else None

        def reduced(values: Any) -> Any:
            along = {axis: te.reduce_axis((0, shape[axis])) for axis in axes}

            def value(*at: Any) -> Any:
                outer = dict(zip(kept, (at[axis] for axis in kept) if made else at, strict=True))
                return reduction.reducer(
                    values[tuple({**outer, **along}[axis] for axis in range(rank))], axis=[*along.values()]
                )

            return te.compute(made or [shape[axis] for axis in kept], value, name=operator.rpartition(".")[2])

        return builder.call_te(reduced, data, primfunc_name_hint=operator.rpartition(".")[2])

    return legalize


def _prelu(builder: Any, call: Any) -> Any:
    """A product with the slopes of an axis, then the choice: LLVM makes no vectors of a product within the choice."""
    data, slopes = call.args
    axis = int(call.attrs.axis) % len(data.ty.shape)
    if data.ty.dtype.dtype != "float32" or slopes.ty.ndim != 1:
        return _default("relax.nn.prelu")(builder, call)

    def chosen(values: Any, slope: Any) -> Any:
        def value(*at: Any) -> Any:
            place = at[axis] if int(slope.shape[0]) > 1 else 0
            steep = values[at] * slope[place]
            return functions.bound(steep, lambda less: tirx.Select(values[at] > number(0.0), values[at], less))

        return te.compute(values.shape, value, name="prelu")

    return builder.call_te(chosen, data, slopes, primfunc_name_hint="prelu")


def _transposed(builder: Any, call: Any) -> Any:
    """In square blocks where there are enough values; others are fused with what is around them."""
    data, axes = call.args[0], call.attrs.axes
    shape = [int(extent) for extent in data.ty.shape]
    order = [int(axis) % len(shape) for axis in axes] if axes is not None else list(range(len(shape)))[::-1]
    values = math.prod(shape)
    dtype = data.ty.dtype.dtype
    if values < LEAST_TRANSPOSED or is_copy(shape, order) or dtype not in ("float32", "uint8", "int8"):
        return _default("relax.permute_dims")(builder, call)
    function = write_transpose(shape, order, dtype, threads_for(values))
    if function is None:
        return _default("relax.permute_dims")(builder, call)
    return call_written(builder, call, function, (values,), "transpose")


def _angle(function: str) -> Legalize:
    """In vectors, where the target has a product and a sum of one rounding."""

    def legalize(builder: Any, call: Any) -> Any:
        (data,) = call.args
        values = math.prod(int(extent) for extent in data.ty.shape)
        if data.ty.dtype.dtype != "float32" or not values or not _fuses_products():
            return _default(f"relax.{function}")(builder, call)
        written = angles.write_angles(function, values, threads_for(values))
        return call_written(builder, call, written, (values,), function)

    return legalize


def _gelu(x: Any) -> Any:
    return functions.bound(x, lambda x: x * (_half_of_error(x) + number(0.5)))


def _half_of_error(x: Any) -> Any:
    return functions.error_function(x * number(0.5**0.5)) * number(0.5)


def _gelu_tanh(x: Any) -> Any:
    def made(x: Any) -> Any:
        inner = number((2 / math.pi) ** 0.5) * (x + number(0.044715) * x * x * x)
        return number(0.5) * x * (number(1.0) + functions.hyperbolic_tangent(inner))

    return functions.bound(x, made)


LEGALIZATIONS: dict[str, Legalize] = {
    "relax.take": _take,
    "relax.gather_elements": _gather_elements,
    "relax.gather_nd": _gather_nd,
    "relax.log": _elementwise(functions.logarithm),
    "relax.exp": _elementwise(functions.exponential),
    "relax.erf": _elementwise(functions.error_function),
    "relax.sin": _angle("sin"),
    "relax.cos": _angle("cos"),
    "relax.tanh": _elementwise(functions.hyperbolic_tangent),
    "relax.sigmoid": _elementwise(functions.sigmoid),
    "relax.nn.silu": _elementwise(lambda x: functions.bound(x, lambda x: x * functions.sigmoid(x))),
    "relax.nn.gelu": _elementwise(_gelu),
    "relax.nn.gelu_tanh": _elementwise(_gelu_tanh),
    "relax.multiply": _multiply,
    "relax.power": _power,
    "relax.permute_dims": _transposed,
    "relax.image.resize2d": _other("relax.image.resize2d", resizing.resize),
    "relax.nn.prelu": _prelu,
    "relax.nn.softmax": _other("relax.nn.softmax", rows.softmax),
    "relax.nn.log_softmax": _other("relax.nn.log_softmax", rows.log_softmax),
    "relax.variance": _other("relax.variance", rows.variance),
    "relax.nn.layer_norm": _other("relax.nn.layer_norm", rows.layer_norm),
    "relax.mean": _other("relax.mean", rows.mean),
    "relax.sum": _other("relax.sum", rows.total),
    "relax.max": _extremum("relax.max", tirx.max, -math.inf),
    "relax.min": _extremum("relax.min", tirx.min, math.inf),
    "relax.matmul": _other("relax.matmul", products.matmul),
    "relax.nn.conv1d": _other("relax.nn.conv1d", convolutions.convolution),
    "relax.nn.conv2d": _other("relax.nn.conv2d", convolutions.convolution),
    "relax.nn.conv2d_transpose": _other("relax.nn.conv2d_transpose", convolutions.transposed_convolution),
}
