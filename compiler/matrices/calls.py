"""Layers whose weights are computed, as two calls: one packs them for the layer's kernel, one runs that kernel.

This module imports TVM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from int8tune.compiler.graph import Graph, Value
from int8tune.compiler.layer_call import schedule_of
from int8tune.compiler.layer_operands import known_operands
from int8tune.compiler.matrices.pack_kernel import write_pack
from int8tune.compiler.matrices.packing import Packing, packing_of
from int8tune.compiler.matrices.product_kernel import scratch_of, write_product
from int8tune.compiler.matrices.values import Argument, Packed, whole_lines
from int8tune.compiler.operator_kernels.kernel import ELEMENTS, TYPES
from int8tune.compiler.program import Array, Call
from int8tune.compiler.quantized_layers import ModelLayer
from int8tune.compiler.schedule_choice import Choice, Chooser, Source
from int8tune.schedules.arguments import kernel_inputs, params_length, rescale_shape, rescale_type
from int8tune.schedules.generic.direct import DirectGeneric
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.operands import Operands
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import Dense, Workload
from int8tune.schedules.x86.threads import threads_of

PACKING = "packed weights"
"""What a call computes that packs."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kernels:
    """What layers with computed weights have in common that are alike in all but scales.

    Attributes:
        kernel: the layer's own, for one pair of matrices.
        packed: what the function called `pack` does.
        run: the name of the function that calls the layer's own, with `arguments` and then what `scratch` says.
    """

    choice: Choice
    kernel: Kernel
    packed: Packed
    pack: str
    run: str
    scratch: tuple[Value, ...]


class Products:
    """Makes calls of layers with computed weights.

    Attributes:
        values: those between calls of one layer.
    """

    def __init__(self, graph: Graph, target: Target, schedules: Chooser, add: Callable[[str, Any], str]) -> None:
        self._graph, self._target, self._schedules, self._add = graph, target, schedules, add
        self.values: dict[str, Value] = {}
        self._own: dict[tuple[Workload, int], tuple[str, Choice, Kernel, Packing]] = {}
        self._kernels: dict[tuple[Any, ...], _Kernels] = {}

    def calls(self, layer: ModelLayer) -> list[Call]:
        """One that packs the second input, and one that makes the output.

        Raises:
            ModelError: a scale of the model is out of the range of its rounding rule.
        """
        operands = known_operands(self._graph, layer)
        used = self._kernels_of(layer, operands)
        (first, second), (made,) = layer.operator.inputs, layer.operator.outputs
        values = [
            Value(f"{made}/packed", (used.packed.count, used.packed.packed_stride), "s8"),
            Value(f"{made}/bias", (used.packed.count, used.packed.bias_stride), "s32"),
            *(replace(value, name=f"{made}/{value.name}") for value in used.scratch),
        ]
        self.values |= {value.name: value for value in values}
        packed, bias, *scratch = [value.name for value in values]
        _, _, _, *constants = kernel_inputs(layer.workload, used.kernel, operands)
        to_pack: tuple[str | Array, ...] = (second, used.packed.packing.starts, used.packed.channels)
        to_run: tuple[str | Array, ...] = (first, packed, bias, *(each.reshape(-1) for each in constants))
        return [
            Call(layer.names, PACKING, {}, used.pack, to_pack, (packed, bias)),
            Call(layer.names, layer.workload.key, schedule_of(used.choice), used.run, to_run, (made, *scratch)),
        ]

    def _kernels_of(self, layer: ModelLayer, operands: Operands) -> _Kernels:
        values = [self._graph.values[name] for name in (*layer.operator.inputs, layer.operator.outputs[0])]
        order = layer.operator.attributes["order"]
        key = (layer.workload, operands.data_zero_point, operands.weight_zero_point, order, *(v.shape for v in values))
        if key not in self._kernels:
            self._kernels[key] = self._made(layer.workload, operands, values, order)
        return self._kernels[key]

    def _made(
        self, workload: Workload, operands: Operands, values: Sequence[Value], order: tuple[int, ...]
    ) -> _Kernels:
        assert isinstance(workload, Dense)
        zero_point = operands.weight_zero_point
        if (workload, zero_point) not in self._own:
            choice, kernel, packing = _packable(self._schedules.choose(workload), workload, self._target, zero_point)
            self._own[workload, zero_point] = self._add(workload.op, kernel.function), choice, kernel, packing
        name, choice, kernel, packing = self._own[workload, zero_point]
        # A kernel that uses threads itself has all of them for each pair.
        threads = self._target.threads if threads_of(choice.config) == 1 else 1
        packed = _packed(packing, kernel, operands, values[1], order, threads)
        batch = values[-1].shape[:-2]
        arguments = _arguments(values[0], values[-1], packed, workload.numerics, batch)
        threads = min(threads, math.prod(batch))
        run = self._add("matmul", write_product(name, arguments, batch, threads))
        scratch = tuple(
            Value(f"copy {index}", (length,), ELEMENTS[dtype])
            for index, (dtype, length) in enumerate(scratch_of(arguments, threads))
        )
        return _Kernels(choice, kernel, packed, self._add("pack", write_pack(packed)), run, scratch)


def _packable(choice: Choice, workload: Dense, target: Target, zero_point: int) -> tuple[Choice, Kernel, Packing]:
    """A layer's schedule whose weights can be packed when the model runs: the chosen one, or that of any CPU."""
    found = _packed_by(choice, workload, target, zero_point)
    if found is not None:
        return found
    template = DirectGeneric()
    default = Choice(template, dict(template.space(workload, target).default), Source.DEFAULT)
    found = _packed_by(default, workload, target, zero_point)
    assert found is not None, "weights of the template for any CPU are copied"
    return found


def _packed_by(
    choice: Choice, workload: Dense, target: Target, zero_point: int
) -> tuple[Choice, Kernel, Packing] | None:
    """A schedule, its kernel, and how that has its weights packed; None where it can't be done when the model runs."""
    kernel = choice.template.apply(workload, target, choice.config)
    packing = packing_of(workload, kernel.layout, zero_point)
    return None if packing is None else (choice, kernel, packing)


def _packed(
    packing: Packing, kernel: Kernel, operands: Operands, other: Value, order: tuple[int, ...], threads: int
) -> Packed:
    channels, strides = kernel.layout.channels.astype(np.int32), _strides(other.shape, order)
    return Packed(
        packing=packing,
        dtype=TYPES[other.type],
        size=math.prod(other.shape),
        batch=tuple(other.shape[axis] for axis in order[:-2]),
        strides=strides[:-2],
        features=other.shape[order[-2]],
        tap_stride=strides[-2],
        channel_stride=strides[-1],
        packed_stride=whole_lines(packing.length, 1),
        bias_stride=whole_lines(len(channels), 4),
        channels=channels,
        data_zero_point=operands.data_zero_point + kernel.layout.data_offset,
        weight_zero_point=operands.weight_zero_point,
        threads=threads,
    )


def _arguments(
    data: Value, output: Value, packed: Packed, numerics: Numerics, batch: tuple[int, ...]
) -> list[Argument]:
    def matrices(name: str, value: Value) -> Argument:
        size, own = math.prod(value.shape[-2:]), value.shape[:-2]
        return Argument(name, TYPES[value.type], size, size, math.prod(own), _steps(own, batch))

    def same(name: str, dtype: str, length: int) -> Argument:
        return Argument(name, dtype, length, length, 1, (0,) * len(batch))

    positions = len(packed.channels)
    steps = _steps(packed.batch, batch)
    return [
        matrices("data", data),
        Argument("weight", "int8", packed.packing.length, packed.packed_stride, packed.count, steps),
        Argument("bias", "int32", positions, packed.bias_stride, packed.count, steps),
        same("rescale", rescale_type(numerics), math.prod(rescale_shape(numerics, positions))),
        same("params", "int32", params_length(numerics)),
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
