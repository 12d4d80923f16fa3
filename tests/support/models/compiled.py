"""Models that are compiled and run in the test's own process, every value of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.compile import Compilation, all_values, compile_model
from int8tune.compiler.compiled_model import BoundKernel, CompiledModel
from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.graph import Graph, Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.schedule_choice import Schedules
from int8tune.schedules.target import Target
from tests.support.run.kept_kernels import kernel_cache

Array = npt.NDArray[Any]


def compile_once(graph: Graph, target: Target, library: Path) -> Compilation:
    """Write the library of a model, with the kernels that an earlier test of this run has compiled."""
    return compile_model(graph, target, Schedules(target), library, cache=kernel_cache())


def assert_exact(graph: Graph, target: Target, inputs: Mapping[str, Array], folder: Path) -> dict[str, Array]:
    """Every value of the compiled model is that of the reference, bit for bit; the values.

    Args:
        inputs: as the model's file has them.
    """
    whole = with_file_layouts(graph)
    graph = all_values(whole)
    library = folder / f"{target.name}.so"
    compile_once(graph, target, library)
    model, given = CompiledModel(library), [inputs[name] for name in graph.inputs]
    made = model.run(given)
    assert_bound_is_same(model, given, made)
    ours, expected = dict(zip(graph.outputs, made, strict=True)), run_reference(whole, inputs)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
        assert array.dtype == expected[name].dtype
    assert set(whole.outputs) <= set(ours)
    return ours


def assert_bound_is_same(model: CompiledModel, inputs: Sequence[Array], made: Sequence[Array]) -> None:
    """The model with its inputs computes the same, without TVM's machine where it is one function."""
    bound = model.bind(inputs)
    assert isinstance(bound, BoundKernel) == bool(model.about.kernel and not model.about.states)
    for _ in range(2):
        bound.run()
    for ours, expected in zip(bound.outputs(), made, strict=True):
        np.testing.assert_array_equal(ours, expected, strict=True)


def assert_close_but_exact_integers(
    graph: Graph, target: Target, inputs: Mapping[str, Array], folder: Path, relative: float, of_largest: float
) -> None:
    """Every integer of a model with islands is that of the reference on the same inputs; numbers are close to it.

    Args:
        inputs: as the model's file has them.
    """
    whole = with_file_layouts(graph)
    graph = all_values(whole)
    library = folder / f"{target.name}.so"
    compile_once(graph, target, library)
    made = CompiledModel(library).run([inputs[name] for name in graph.inputs])
    ours = dict(zip(graph.outputs, made, strict=True))
    expected = run_reference(whole, inputs, ours)
    islands = {name for each in graph.operators if each.kind is Kind.FLOAT for name in each.outputs}
    assert islands <= set(ours)
    for name, array in ours.items():
        if name in islands:
            largest = float(np.abs(expected[name]).max())
            np.testing.assert_allclose(array, expected[name], relative, of_largest * largest, err_msg=name)
        else:
            np.testing.assert_array_equal(array, expected[name], err_msg=name)
        assert array.dtype == expected[name].dtype
