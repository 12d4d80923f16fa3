"""Runs kernels of islands on arrays between pages that can't be touched: `python guarded_islands.py PROFILE SHARE`.

A kernel that reads or writes outside its arrays ends the process with SIGSEGV. Used by `test_islands_bounds`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tvm

from int8tune.compiler.graph import DTYPES, Graph, Kind
from int8tune.compiler.islands.emission import FloatCall, float_calls
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.target import Target
from tests.support.kernels.guarded_memory import Place, before_a_guard, behind_a_guard
from tests.support.models.onnx_islands import Array, IslandWriter
from tests.support.run.probes import host_target

RNG = np.random.default_rng(0)


def graph(share: int) -> Graph:
    """Every other operator: extents that no tile and no vector divides, and indices that point outside."""
    w = IslandWriter((1, 7, 13, 11))
    place = w.integer_input("place", (5,))
    curve = w.apply("Exp", w.data)
    wide = w.apply("Expand", w.apply("Reshape", place, np.array([1, 5, 1, 1])), np.array([1, 5, 13, 11]))
    pairs = w.apply("Concat", *[w.apply("Unsqueeze", place, np.array([1]))] * 2, axis=1)
    made = [
        w.apply("MatMul", curve, RNG.normal(size=(11, 37))),
        w.apply("MatMul", curve, w.apply("Transpose", w.apply("Erf", w.data), perm=[0, 1, 3, 2])),
        w.apply("Gemm", w.apply("Flatten", curve, axis=3), RNG.normal(size=(11, 70))),
        w.apply("Conv", curve, RNG.normal(size=(9, 7, 3, 3)), pads=[1, 2, 0, 1]),
        w.apply("Conv", curve, RNG.normal(size=(9, 7, 3, 2)), strides=[2, 3], dilations=[2, 1]),
        w.apply("Conv", curve, RNG.normal(size=(7, 1, 3, 3)), pads=[1] * 4, group=7, strides=[2, 2]),
        w.apply("Conv", curve, RNG.normal(size=(14, 1, 3, 3)), group=7),
        w.apply("ConvTranspose", curve, RNG.normal(size=(7, 5, 2, 2)), strides=[2, 2]),
        w.apply("ConvTranspose", curve, RNG.normal(size=(7, 5, 3, 3)), strides=[2, 1], pads=[1] * 4),
        w.apply("Softmax", curve, axis=-1),
        w.apply("Softmax", curve, axis=1),
        w.apply("LayerNormalization", curve, np.ones(11), np.zeros(11)),
        w.apply("LayerNormalization", curve, np.ones((13, 11)), np.zeros((13, 11)), axis=2),
        w.apply("ReduceMean", curve, np.array([2, 3])),
        w.apply("MaxPool", curve, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        w.apply("Tile", curve, np.array([3, 2, 1, 2])),
        w.apply("Pad", curve, np.array([0, 0, 1, 2, 0, 1, 3, 0]), mode="reflect"),
        w.apply("Resize", curve, "", np.array([1.0, 1, 2, 3]), mode="linear"),
        w.apply("Gather", curve, place, axis=2),
        w.apply("GatherElements", curve, wide, axis=1),
        w.apply("GatherND", w.apply("Reshape", curve, np.array([7, 13, 11])), pairs),
        w.apply("TopK", curve, np.array([3]), outputs=2),
    ]
    return read_onnx(w.file(*made[share::2]), "guarded")


def compiled_calls(graph: Graph, target: Target) -> list[tuple[FloatCall, Any]]:
    """The calls of all islands, in order, each with its kernel; None where it only gives a value another shape."""
    islands = (operator for operator in graph.operators if operator.kind is Kind.FLOAT)
    calls = [call for operator in islands for call in float_calls(graph, operator, target)]
    return [(call, call.function and _kernel(call.function, target)) for call in calls]


def _kernel(function: Any, target: Target) -> Any:
    return compile_function(function.with_attr("global_symbol", "main"), target)


def run(graph: Graph, calls: list[tuple[FloatCall, Any]], place: Place) -> None:
    values: dict[str, Array] = {}
    for call, kernel in calls:
        taken = [_array(graph, each, values) if isinstance(each, str) else each for each in call.arguments]
        outputs = [place(np.zeros(value.shape, DTYPES[value.type])) for value in call.outputs]
        if kernel is None:
            outputs = [taken[0].reshape(call.outputs[0].shape)]
        else:
            print(call.name, flush=True)
            kernel(
                *(tvm.runtime.from_dlpack(place(np.asarray(each, order="C"))) for each in taken),
                *(tvm.runtime.from_dlpack(each) for each in outputs),
            )
        values.update(zip((value.name for value in call.outputs), outputs, strict=True))


def _array(graph: Graph, name: str, values: dict[str, Array]) -> Array:
    """What an earlier call made, or an input: numbers, or indices of which most point outside."""
    if name in values:
        return values[name]
    value = graph.values[name]
    if value.type == "s64":
        return np.array([-(1 << 62), -99, 0, 99, 1 << 62])
    return RNG.normal(size=value.shape).astype(DTYPES[value.type])


if __name__ == "__main__":
    model = graph(int(sys.argv[2]))
    kernels = compiled_calls(model, host_target(sys.argv[1]))
    for place in (before_a_guard, behind_a_guard):
        run(model, kernels, place)
