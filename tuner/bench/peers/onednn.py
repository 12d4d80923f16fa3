"""oneDNN: the primitives themselves, through the C API of its wheel; weights and epilogue are prepared beforehand.

The wheel `onednn-cpu-gomp` has oneDNN 3.2. The newer wheel `onednn` calls its CPU kernels through SYCL: that takes 700
MB of libraries and 10 us a call, and its int8 kernels were no faster where both were timed.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np

from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Workload
from int8tune.tuner.bench.peers.base import Array, LoadedLayer, PeerError
from int8tune.tuner.bench.peers.dnnl import (
    BIAS,
    F32,
    S8,
    SCALES,
    SOURCE,
    TARGET,
    U8,
    WEIGHTS,
    ZERO_POINTS,
    Dnnl,
    Handle,
    Tensor,
    Window,
)
from int8tune.tuner.bench.peers.forms import groups_of, usual_form

WHEEL = "onednn-cpu-gomp"
LIBRARY = "libdnnl.so.3"


class OneDnn:
    """Convolution and inner product primitives on data with channels last."""

    name = "onednn"
    requires = (WHEEL,)

    def form(self, workload: Workload) -> Workload | Rejection:
        return usual_form(workload, "u8")

    def version(self) -> str:
        return Dnnl(_library()).version

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:  # noqa: ARG002
        # The OpenMP runtime takes the number of threads from the environment, when it is loaded.
        return _Layer(Dnnl(_library()), workload, operands)


class _Layer:
    """A primitive ready to be executed, and the arrays that it reads and writes."""

    def __init__(self, dnnl: Dnnl, workload: Workload, operands: Operands) -> None:
        self._data = np.ascontiguousarray(operands.data)
        self._weight = np.ascontiguousarray(operands.weight)
        self._out = np.zeros(workload.output_shape, np.uint8)
        zero_points = _zero_points(workload, operands)
        self._vectors = [*_epilogue(workload, operands), *zero_points]
        source, weights, target = _tensors(workload)
        positions = [position & ~ZERO_POINTS for position, _ in zero_points]
        description = _description(dnnl, workload, dnnl.attributes(_scales_mask(workload), positions))
        plain = dnnl.memory(weights, self._weight)
        self._execute = dnnl.execution(
            description,
            [
                (SOURCE, dnnl.memory(source, self._data)),
                (WEIGHTS, dnnl.packed(plain, description)),
                (TARGET, dnnl.memory(target, self._out)),
                *((position, dnnl.vector(array)) for position, array in self._vectors),
            ],
        )

    def run(self) -> None:
        self._execute()

    def output(self) -> Array:
        return self._out


def _zero_points(workload: Workload, operands: Operands) -> list[tuple[int, Array]]:
    """Those that are not 0. An inner product takes none, and needs none: without a border they are part of the bias."""
    points = ((SOURCE, operands.data_zero_point), (TARGET, operands.output_zero_point))
    named = [(ZERO_POINTS | position, np.array([point], np.int32)) for position, point in points if point]
    return [] if isinstance(workload, Dense) else named


def _epilogue(workload: Workload, operands: Operands) -> list[tuple[int, Array]]:
    """Bias and scale of each channel; the bias is added to scaled sums."""
    scale = np.broadcast_to(operands.scale, workload.out_channels).astype(np.float32)
    bias = operands.bias.astype(np.float64)
    offset = 0
    if isinstance(workload, Dense):
        bias -= operands.data_zero_point * operands.weight.sum(axis=1, dtype=np.int64)
        offset = operands.output_zero_point
    return [(BIAS, (bias * scale + offset).astype(np.float32)), (SCALES | WEIGHTS, scale)]


def _tensors(workload: Workload) -> tuple[Tensor, Tensor, Tensor]:
    """Data, weights and output as oneDNN names their dimensions, and as they lie in memory."""
    if isinstance(workload, Dense):
        rows, features, out = workload.rows, workload.in_features, workload.out_channels
        return (
            Tensor((rows, features), U8, (features, 1)),
            Tensor((out, features), S8, (features, 1)),
            Tensor((rows, out), U8, (out, 1)),
        )
    return _image(workload.data_shape), _filters(workload), _image(workload.output_shape)


def _image(shape: tuple[int, ...]) -> Tensor:
    batch, height, width, channels = shape
    return Tensor((batch, channels, height, width), U8, (height * width * channels, 1, width * channels, channels))


def _filters(workload: Conv2d | DepthwiseConv2d) -> Tensor:
    groups, (height, width) = groups_of(workload), workload.window.kernel
    outputs, inputs = workload.out_channels // groups, workload.data_shape[3] // groups
    taps = height * width * inputs
    shape, strides = (outputs, inputs, height, width), (taps, 1, width * inputs, inputs)
    if groups == 1:
        return Tensor(shape, S8, strides)
    return Tensor((groups, *shape), S8, (outputs * taps, *strides))


def _scales_mask(workload: Workload) -> int:
    """The dimensions of the weights that scales differ in: the channels, and the groups where there are any."""
    return 0b1 if groups_of(workload) == 1 else 0b11


def _description(dnnl: Dnnl, workload: Workload, attributes: Handle) -> Handle:
    source, weights, target = _tensors(workload)
    chosen = Tensor(weights.shape, weights.element)
    bias = Tensor((workload.out_channels,), F32, (1,))
    if isinstance(workload, Dense):
        return dnnl.inner_product(source, chosen, bias, target, attributes)
    window = workload.window
    top, left, bottom, right = window.padding
    dilation = (window.dilation[0] - 1, window.dilation[1] - 1)
    moves = Window(window.stride, dilation, (top, left), (bottom, right))
    return dnnl.convolution(source, chosen, bias, target, moves, attributes)


def _library() -> Path:
    files = metadata.files(WHEEL) or []
    path = next((Path(str(file.locate())) for file in files if file.name == LIBRARY), None)
    if path is None:
        raise PeerError(f"the wheel {WHEEL} has no library of this name: {LIBRARY}")
    return path
