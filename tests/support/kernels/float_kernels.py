"""Layers in float32, scheduled for Advanced SIMD: what int8 kernels are estimated beside.

A tile of columns times channels is in registers; for each tap and input channel, one value of each column is multiplied
with vectors of weights. Depthwise layers are vectors of channels.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir, te, tirx

from int8tune.schedules.image import image_of
from int8tune.schedules.workload import DepthwiseConv2d, Window, Workload

LANES = 4
# Columns and channels of a tile, whose sums are in registers.
TILES = ((4, 16), (8, 8), (4, 8), (2, 16), (7, 8), (5, 8), (3, 16), (7, 4), (5, 4), (1, 32), (1, 16), (1, 64))


def float_functions(workload: Workload) -> list[Any]:
    """PrimFuncs of a layer with bias and ReLU, by tiles that divide its row: the caller takes the best."""
    if isinstance(workload, DepthwiseConv2d):
        columns = [size for size in (4, 2, 1) if workload.output_shape[2] % size == 0]
        return [
            _scheduled(_depthwise(workload), size, LANES * 2, True, any(workload.window.padding)) for size in columns
        ]
    image = image_of(workload)
    fitting = [tile for tile in TILES if image.output[1] % tile[0] == 0]
    function = _conv(image)
    return [
        _scheduled(function, columns, channels, False, any(image.window.padding)) for columns, channels in fitting[:3]
    ]


def _padded(data: Any, shape: tuple[int, ...], window: Window) -> Any:
    top, left, bottom, right = window.padding
    n, height, width, channels = shape
    if not any(window.padding):
        return data

    def inside(y: Any, x: Any) -> Any:
        return tirx.all(y >= top, y < top + height, x >= left, x < left + width)

    return te.compute(
        (n, height + top + bottom, width + left + right, channels),
        lambda b, y, x, c: tirx.if_then_else(inside(y, x), data[b, y - top, x - left, c], tirx.const(0.0, "float32")),
        name="pad",
    )


def _conv(image: Any) -> Any:
    """[n, y, x, outputs] of data [n, y, x, channels] and weights [kh, kw, channels, outputs]."""
    (kh, kw), (sh, sw) = image.window.kernel, image.window.stride
    shape, outputs = (image.batch, image.height, image.width, image.group_channels), _filled(image.out_channels)
    data = te.placeholder(shape, "float32", "data")
    weight = te.placeholder((kh, kw, shape[3], outputs), "float32", "weight")
    bias = te.placeholder((outputs,), "float32", "bias")
    padded = _padded(data, shape, image.window)
    ky, kx, c = (te.reduce_axis((0, extent), name) for extent, name in ((kh, "ky"), (kw, "kx"), (shape[3], "c")))
    sums = te.compute(
        (shape[0], *image.output, outputs),
        lambda n, y, x, o: te.sum(padded[n, y * sh + ky, x * sw + kx, c] * weight[ky, kx, c, o], [ky, kx, c]),
        name="sums",
    )
    return _with_relu(data, weight, bias, sums)


def _depthwise(workload: DepthwiseConv2d) -> Any:
    """[n, y, x, channels] of data of the same form and weights [kh, kw, channels]."""
    (kh, kw), (sh, sw) = workload.window.kernel, workload.window.stride
    n, height, width, _ = workload.data_shape
    channels = _filled(workload.output_shape[3], LANES * 2)
    shape = (n, height, width, channels)
    data = te.placeholder(shape, "float32", "data")
    weight = te.placeholder((kh, kw, channels), "float32", "weight")
    bias = te.placeholder((channels,), "float32", "bias")
    padded = _padded(data, shape, workload.window)
    ky, kx = (te.reduce_axis((0, extent), name) for extent, name in ((kh, "ky"), (kw, "kx")))
    sums = te.compute(
        (n, *workload.output_shape[1:3], channels),
        lambda b, y, x, c: te.sum(padded[b, y * sh + ky, x * sw + kx, c] * weight[ky, kx, c], [ky, kx]),
        name="sums",
    )
    return _with_relu(data, weight, bias, sums)


def _filled(channels: int, lanes: int = 64) -> int:
    return -(-channels // lanes) * lanes


def _with_relu(data: Any, weight: Any, bias: Any, sums: Any) -> Any:
    zero = tirx.const(0.0, "float32")
    out = te.compute(sums.shape, lambda n, y, x, o: tirx.max(sums[n, y, x, o] + bias[o], zero), name="out")
    return te.create_prim_func([data, weight, bias, out]).with_attr("global_symbol", "main")


def _scheduled(function: Any, columns: int, channels: int, unrolls_taps: bool, is_padded: bool) -> Any:
    """Tiles of so many columns and channels, whose sums are in registers."""
    schedule = s_tir.Schedule(function)
    sums, out = schedule.get_sblock("sums"), schedule.get_sblock("out")
    n, y, x, o = schedule.get_loops(out)
    x_outer, x_inner = schedule.split(x, [None, columns])
    o_outer, o_inner, lane = schedule.split(o, [None, channels // LANES, LANES])
    schedule.reorder(n, y, o_outer, x_outer, x_inner, o_inner, lane)
    schedule.vectorize(lane)
    schedule.unroll(x_inner)
    schedule.unroll(o_inner)
    schedule.compute_at(sums, x_outer, preserve_unit_loops=True)
    *_, column, output = schedule.get_loops(sums)[: 4 + 4]
    taps = schedule.get_loops(sums)[4 + 4 :]
    vector, lane = schedule.split(output, [None, LANES])
    schedule.reorder(*taps, column, vector, lane)
    for loop in (column, vector, *(taps if unrolls_taps else ())):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    schedule.decompose_reduction(sums, taps[0])
    schedule.set_scope(sums, 0, "local")
    if is_padded:
        *_, last = schedule.get_loops(schedule.get_sblock("pad"))
        schedule.vectorize(schedule.split(last, [None, LANES])[1])
    return schedule.mod["main"]
