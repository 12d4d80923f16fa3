"""Layers whose weights are computed, as two calls: one packs them for the layer's kernel, one runs that kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.compiler.graph import DTYPES, ElementType, Graph, Value
from int8tune.compiler.layer_operands import known_operands
from int8tune.compiler.matrices.packing import Packing, packing_of
from int8tune.compiler.operators.base import zero_point_of
from int8tune.compiler.program import Array
from int8tune.compiler.quantized_layers import ModelLayer
from int8tune.compiler.schedule_choice import Choice, Source
from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.generic.direct import DirectGeneric
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import Dense

LINE_BYTES = 64
_ELEMENTS: dict[str, ElementType] = {"uint8": "u8", "int8": "s8", "int32": "s32"}


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """What a layer with computed weights runs.

    Attributes:
        pack: the function that makes `packed` and `bias` of the second input and `pack_constants`.
        run: the function that makes the output, and what it needs as `scratch`, of the first input, those two and
            `run_constants`.
    """

    pack: Any
    pack_constants: tuple[Array, ...]
    packed: Value
    bias: Value
    run: Any
    run_constants: tuple[Array, ...]
    scratch: tuple[Value, ...]


def packable(choice: Choice, workload: Dense, target: Target, zero_point: int) -> tuple[Choice, Kernel, Packing]:
    """A layer's schedule whose weights can be packed when the model runs: the chosen one, or that of any CPU."""
    kernel = choice.template.apply(workload, target, choice.config)
    packing = packing_of(workload, kernel.layout, zero_point)
    if packing is not None:
        return choice, kernel, packing
    template = DirectGeneric()
    choice = Choice(template, dict(template.space(workload, target).default), Source.DEFAULT)
    kernel = template.apply(workload, target, choice.config)
    packing = packing_of(workload, kernel.layout, zero_point)
    assert packing is not None
    return choice, kernel, packing


def product_of(
    graph: Graph, layer: ModelLayer, kernel: Kernel, name: str, packing: Packing, target: Target, used: int
) -> Product:
    """The calls of a layer.

    Args:
        name: of the kernel's function.
        used: the threads of the kernel; where it has one, the target's threads share the matrices.

    Raises:
        ModelError: a scale of the model is out of the range of its rounding rule.
    """
    from int8tune.compiler.matrices.pack_kernel import Packed, write_pack
    from int8tune.compiler.matrices.product_kernel import scratch_of, write_product

    data, other, output = (graph.values[each] for each in (*layer.operator.inputs, layer.operator.outputs[0]))
    threads = target.threads if used == 1 else 1
    operands = known_operands(graph, layer)
    _, _, _, rescale, params = kernel_inputs(layer.workload, kernel, operands)
    channels = kernel.layout.channels.astype(np.int32)
    strides = _strides(other.shape, layer.operator.attributes["order"])
    batch = tuple(other.shape[axis] for axis in layer.operator.attributes["order"])[:-2]
    packed = Packed(
        packing=packing,
        dtype=np.dtype(DTYPES[other.type]).name,
        size=math.prod(other.shape),
        batch=batch,
        strides=strides[:-2],
        features=layer.workload.reduction,
        tap_stride=strides[-2],
        channel_stride=strides[-1],
        packed_stride=_whole_lines(packing.length, 1),
        bias_stride=_whole_lines(len(channels), 4),
        channels=channels,
        data_zero_point=operands.data_zero_point + kernel.layout.data_offset,
        weight_zero_point=zero_point_of(other),
        threads=threads,
    )
    around = output.shape[:-2]
    values = (
        Value(f"{output.name}/packed", (packed.count, packed.packed_stride), "s8"),
        Value(f"{output.name}/bias", (packed.count, packed.bias_stride), "s32"),
    )
    arguments = _arguments(data, output, packed, packing, (rescale, params), around)
    threads = min(threads, math.prod(around))
    run = write_product(name, arguments, around, threads)
    scratch = tuple(
        Value(f"{output.name}/copy {index}", (length,), _ELEMENTS[dtype])
        for index, (dtype, length) in enumerate(scratch_of(arguments, threads))
    )
    constants = tuple(each.reshape(-1) for each in (rescale, params))
    return Product(write_pack(packed), (packing.starts, channels), *values, run, constants, scratch)


def _arguments(
    data: Value, output: Value, packed: Any, packing: Packing, constants: Sequence[Array], batch: tuple[int, ...]
) -> list[Any]:
    from int8tune.compiler.matrices.product_kernel import Argument

    def matrices(name: str, value: Value) -> Argument:
        size, own = math.prod(value.shape[-2:]), value.shape[:-2]
        return Argument(name, np.dtype(DTYPES[value.type]).name, size, size, math.prod(own), _steps(own, batch))

    def same(name: str, array: Array) -> Argument:
        return Argument(name, array.dtype.name, array.size, array.size, 1, (0,) * len(batch))

    steps = _steps(packed.batch, batch)
    return [
        matrices("data", data),
        Argument("weight", "int8", packing.length, packed.packed_stride, packed.count, steps),
        Argument("bias", "int32", len(packed.channels), packed.bias_stride, packed.count, steps),
        same("rescale", constants[0]),
        same("params", constants[1]),
        matrices("out", output),
    ]


def _strides(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Values from one place to the next along the axes that an order makes of those of a shape."""
    own = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(own[axis] for axis in order)


def _steps(own: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """How many of one's own matrices a step along each axis of the batch is, over which they are spread."""
    wide = (1,) * (len(batch) - len(own)) + own
    return tuple(0 if extent == 1 else math.prod(wide[axis + 1 :]) for axis, extent in enumerate(wide))


def _whole_lines(values: int, bytes_of_value: int) -> int:
    """The values of as many cache lines as so many need."""
    return -(-values * bytes_of_value // LINE_BYTES) * LINE_BYTES // bytes_of_value
