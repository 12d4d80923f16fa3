"""Where values between kernels lie: never two of them in one place while both are needed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from int8tune.compiler.compile import compile_model, program_of
from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.graph import Graph, Kind, Operator, Value
from int8tune.compiler.memory_plan import LINE_BYTES, bytes_of, memory_plan
from int8tune.compiler.program import Call, Program, watched_of
from int8tune.compiler.schedule_choice import Schedules
from int8tune.rpc.local import tvm_library
from tests.support.models.compiled import assert_bound_is_same
from tests.support.run.probes import host_target

pytestmark = pytest.mark.promise(1)

Array = npt.NDArray[Any]
MOST_CALLS = 12


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Calls of one to three known values, some of them reshapes; one to three outputs, the same perhaps twice."""
    values = {"x": Value("x", (draw(st.integers(1, 300)),), "u8")}
    calls = []
    for index in range(draw(st.integers(1, MOST_CALLS))):
        taken = draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=3))
        is_reshape = draw(st.booleans())
        names = [f"v{index}.{place}" for place in range(1 if is_reshape else draw(st.integers(1, 2)))]
        for name in names:
            shape = values[taken[0]].shape if is_reshape else (draw(st.integers(1, 300)),)
            values[name] = Value(name, shape, "u8")
        arguments = tuple(taken[:1] if is_reshape else taken)
        calls.append(Call(("layer",), "what", {}, "" if is_reshape else "kernel", arguments, tuple(names)))
    outputs = draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=3))
    return Program(Graph("drawn", values, (), ("x",), tuple(outputs)), tuple(calls), {})


@given(programs())
def test_what_is_needed_is_not_overwritten(program: Program) -> None:
    """Each call writes numbers of its own where the plan says, and reads what the program says."""
    plan, graph = memory_plan(program), program.graph
    memory = np.zeros(plan.size_bytes // LINE_BYTES, np.int64)
    outputs = [np.zeros(bytes_of(graph.values[name]) // LINE_BYTES, np.int64) for name in graph.needed]
    stamps = {"x": 0}

    def place(source: str | Array) -> Array:
        assert isinstance(source, str)
        lines = bytes_of(graph.values[source]) // LINE_BYTES
        if source in plan.outputs:
            return outputs[plan.outputs[source]][:lines]
        assert plan.offsets[source] % LINE_BYTES == 0
        begin = plan.offsets[source] // LINE_BYTES
        assert begin + lines <= len(memory)
        return memory[begin : begin + lines]

    for stamp, call in enumerate(program.calls, 1):
        sources = [plan.source_of(name) for name in call.arguments]
        for source in sources if call.kernel else ():
            assert source == "x" or (place(source) == stamps[str(source)]).all()
        for index, name in enumerate(call.outputs):
            stamps[name] = stamps[str(sources[0])] if not call.kernel else 10 * stamp + index
            if call.kernel:
                place(name)[:] = stamps[name]
    for index, source in plan.copies:
        assert source == "x" or (place(source) == stamps[str(source)]).all()
        outputs[index][:] = stamps[str(source)]
    assert [set(output) for output in outputs] == [{stamps[name]} for name in graph.needed]


def test_memory_is_used_again() -> None:
    names = [f"v{index}" for index in range(9)]
    values = {name: Value(name, (1000,), "u8") for name in ("x", *names)}
    calls = [Call(("l",), "w", {}, "k", (one,), (other,)) for one, other in itertools.pairwise(["x", *names])]
    plan = memory_plan(Program(Graph("chain", values, (), ("x",), (names[-1],)), tuple(calls), {}))
    assert plan.size_bytes == 2 * 1024
    assert plan.outputs == {names[-1]: 0}


def reshape(source: str, made: str) -> Operator:
    return Operator(Kind.RESHAPE, (made,), "Reshape", (source,), (made,), "float", None, {})


def lookup(source: str, made: str, step: int) -> Operator:
    table = np.roll(np.arange(256, dtype=np.uint8), -step)
    return Operator(Kind.LOOKUP, (made,), "Lookup", (source,), (made,), "float", None, {"table": table})


def test_outputs_that_are_other_values(tmp_path: Path) -> None:
    """An input, a constant, the same value twice, and one in another shape that is also read."""
    shapes = {"x": (2, 50), "flat": (100,), "made": (100,), "wide": (4, 25), "again": (4, 25), "other": (4, 25)}
    values = {name: Value(name, shape, "u8") for name, shape in shapes.items()}
    constant = np.arange(7, dtype=np.uint8)
    values["known"] = Value("known", (7,), "u8", None, constant)
    operators = (
        reshape("x", "flat"),
        lookup("flat", "made", 1),
        reshape("made", "wide"),
        lookup("wide", "again", 2),
        reshape("again", "other"),
    )
    outputs = ("wide", "x", "known", "again", "wide", "other", "flat", "made")
    graph, target = Graph("odd", values, operators, ("x",), outputs), host_target()
    library = tmp_path / "odd.so"
    compile_model(graph, target, Schedules(target), library)
    data = np.random.default_rng(0).integers(0, 256, (2, 50)).astype(np.uint8)
    model = CompiledModel(library)
    once, twice = (data + 1).reshape(-1), (data + 3).reshape(-1)
    expected = [once, data, constant, twice, once, twice, data, once]
    for _ in range(2):
        made = model.run([data])
        for name, found, wanted in zip(outputs, made, expected, strict=True):
            np.testing.assert_array_equal(found.reshape(-1), wanted.reshape(-1), err_msg=name)
            assert found.shape == values[name].shape
    assert_bound_is_same(model, [data], made)
    machine, tensors = tvm_library.virtual_machine(model._module), model._tensors([data], 0)
    for found, wanted in zip(machine[watched_of(0)](*tensors), made, strict=True):
        np.testing.assert_array_equal(tvm_library.array(found), wanted)
    assert len(model.profile([data], 2)) == sum(
        bool(call.kernel) for call in program_of(graph, target, Schedules(target)).calls
    )
