"""A model as one kernel: a device that measures kernels finds it exact, or says what is not."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Graph, Kind, Operator, Quantization, State, Value
from int8tune.compiler.memory_plan import LINE_BYTES
from int8tune.compiler.model_kernel import write_model_kernel
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.program import Array
from int8tune.compiler.schedule_choice import Schedules
from int8tune.results.record import Outcome
from int8tune.rpc.request import Program, Reply, Request, Timing
from int8tune.rpc.transports.local import LocalTransport
from int8tune.schedules.target import Target
from tests.support.models.drawn_operators import Drawn, graph_of
from tests.support.models.onnx_islands import IslandWriter

pytestmark = pytest.mark.promise(17)

TIMING = Timing(repeats=3, min_repeat_s=0.001)
LENGTHS = (5, 2 * LINE_BYTES, 70)


def quantized(length: int) -> Drawn:
    """Numbers that become bytes."""
    numbers = Value("in0", (1, length), "f32", None)
    stored = Value("out", (1, length), "u8", Quantization(np.array([0.1], np.float32), np.array([7])))
    return Drawn(Operator(Kind.QUANTIZE, ("made",), "quantize", ("in0",), ("out",), "float"), (numbers,), stored)


def model() -> Graph:
    """A model of several outputs, only one of which ends where the next one may begin."""
    return graph_of([quantized(length) for length in LENGTHS])


def samples() -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 30, (1, length)).astype(np.float32) for length in LENGTHS]


def written(folder: Path, target: Target) -> Program:
    return write_model_kernel(model(), samples(), target, Schedules(target), folder)


def measured(program: Program) -> Reply:
    with closing(LocalTransport((0,))) as transport:
        transport.start()
        return transport.run(Request((program,), TIMING, 30.0))


def test_a_device_finds_it_exact_and_times_it(tmp_path: Path, native: Target) -> None:
    reply = measured(written(tmp_path, native))
    assert reply.outcome is Outcome.OK, reply.error
    (times_s,) = reply.times_s
    assert len(times_s) == TIMING.repeats
    assert min(times_s) > 0


@pytest.mark.parametrize("output", range(len(LENGTHS)))
@pytest.mark.matrix(at_most=1)
def test_each_output_is_compared(output: int, tmp_path: Path, native: Target) -> None:
    program = written(tmp_path, native)
    (case,) = program.cases
    expected = np.load(case.expected)
    at = sum(-(-length // LINE_BYTES) * LINE_BYTES for length in LENGTHS[:output]) + LENGTHS[output] - 1
    expected[at] ^= 1
    np.save(case.expected, expected)
    reply = measured(program)
    assert (reply.outcome, reply.error_class) == (Outcome.WRONG_ANSWER, "WrongValues")
    assert f"1 of {expected.size} values differ" in reply.error


def test_what_differs_from_cpu_to_cpu_is_refused(tmp_path: Path, generic: Target) -> None:
    writer = IslandWriter((1, 4))
    graph = read_onnx(writer.file(writer.apply("Sin", writer.data)), "waves")
    with pytest.raises(ModelError, match=r"^waves: last bits of what is computed in float .*: Sin$"):
        write_model_kernel(graph, [np.ones((1, 4), np.float32)], generic, Schedules(generic), tmp_path)


def test_what_goes_on_where_it_was_is_refused(tmp_path: Path, generic: Target) -> None:
    graph = model()
    kept = State("kept", graph.inputs[0], graph.outputs[0], np.zeros((1, LENGTHS[0]), np.float32))
    graph = Graph(graph.name, graph.values, graph.operators, graph.inputs, graph.outputs, states=(kept,))
    with pytest.raises(ModelError, match="its outputs depend on the runs before"):
        write_model_kernel(graph, samples(), generic, Schedules(generic), tmp_path)
