"""From a graph to a compiled model: a shared library that needs TVM's runtime and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.about import about_text
from int8tune.compiler.errors import ModelError
from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.free_memory import constant_bytes, forget_constants, give_back
from int8tune.compiler.graph import Graph, Kind, Operator, Value
from int8tune.compiler.islands.emission import float_calls
from int8tune.compiler.layer_call import layer_arguments, schedule_of
from int8tune.compiler.matrices.calls import Products
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.operator_kernels.registry import KERNELS, WIDE_KERNELS
from int8tune.compiler.program import Array, Call, Program, Step, steps_of
from int8tune.compiler.quantized_layers import ModelLayer
from int8tune.compiler.relax_module import build_executable, compiled_kernels, export
from int8tune.compiler.replacing import replaced
from int8tune.compiler.report import Report, ignore
from int8tune.compiler.schedule_choice import Choice, Chooser
from int8tune.compiler.spilled import Spilled
from int8tune.compiler.toolchain.kernel_cache import KernelCache, KernelCounts
from int8tune.compiler.toolchain.kernel_key import SYMBOL, function_digest
from int8tune.compiler.toolchain.stand_ins import StandIns
from int8tune.compiler.whole_program import whole_programs
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import Workload

# Of an island's layers that each of its calls has.
MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class Compilation:
    """What came of writing a library.

    Attributes:
        about: what the library says of itself (`compiler.about`).
    """

    about: str
    kernels: KernelCounts


def compile_model(
    graph: Graph,
    target: Target,
    schedules: Chooser,
    library: Path,
    report: Report = ignore,
    cache: KernelCache | None = None,
) -> Compilation:
    """Write the compiled model of a graph.

    Raises:
        ModelError, NoLinkerError, ExportError: as `compile_models`.
    """
    return compile_models([graph], target, schedules, library, report, cache)


def compile_models(
    graphs: Sequence[Graph],
    target: Target,
    schedules: Chooser,
    library: Path,
    report: Report = ignore,
    cache: KernelCache | None = None,
    is_last_use: bool = False,
) -> Compilation:
    """Write one model that was read for inputs of several shapes; it runs what was read for those that it is given.

    Args:
        cache: kernels of earlier compilations, which may be taken; the library is the same without it.
        is_last_use: the graphs are no good afterwards: their constants are let go as soon as kernels have theirs.

    Raises:
        ModelError: operators that nothing computes; the message names all. Or two graphs have the same inputs.
        NoLinkerError: nothing is there to link with.
        ExportError: the file can't be written; an older one is as it was.
    """
    inputs = [[(graph.values[name].type, graph.values[name].shape) for name in graph.inputs] for graph in graphs]
    if len(inputs) != len({str(each) for each in inputs}):
        raise ModelError(f"{graphs[0].name}: two of the given shapes are the same")
    with replaced(library) as made:
        size_bytes = sum(constant_bytes(graph.values) for graph in graphs)
        spilled = Spilled(made.parent / "constants")
        programs = [program_of(graph, target, schedules, report, is_last_use, spilled) for graph in graphs]
        wholes = whole_programs(programs)
        about = about_text(programs, target, {at: (each.bound_name, each.memory_bytes) for at, each in wholes.items()})
        kernels, counts = compiled_kernels(
            programs, wholes, target, made.parent, cache, lambda done, total: report("building kernels", done, total)
        )
        give_back(size_bytes)
        stand_ins = StandIns()
        executable = build_executable(programs, wholes, target, about, kernels, stand_ins)
        report("linking", 0, 1)
        if is_last_use:
            del programs, wholes, kernels
            for graph in graphs:
                forget_constants(graph)
        give_back(size_bytes)
        export(executable, stand_ins, made, target)
    return Compilation(about, counts)


def all_values(graph: Graph) -> Graph:
    """The graph with every value that a step makes as an output: what a comparison layer by layer needs."""
    made = [name for step in steps_of(graph) for name in _outputs(step)]
    return replace(graph, outputs=tuple(dict.fromkeys(made)))


@np.errstate(all="ignore")  # scales of a file may be anything
def program_of(
    graph: Graph,
    target: Target,
    schedules: Chooser,
    report: Report = ignore,
    is_last_use: bool = False,
    spilled: Spilled | None = None,
) -> Program:
    """The calls and kernels of a graph.

    Args:
        is_last_use: weights of the graph are let go, one by one, when they are packed for their kernel.
        spilled: where large constants of calls are kept meanwhile; in memory without it.

    Raises:
        ModelError: operators that nothing computes; the message names all.
    """
    refuse_obstacles(graph)
    given, graph = graph, with_file_layouts(graph)
    readers = Counter(name for operator in graph.operators for name in operator.inputs)
    writer = _Writer(graph, target, schedules)
    steps = steps_of(graph)
    calls: list[Call] = []
    for step in steps:
        report("choosing schedules", len(calls), len(steps))
        made = writer.calls(step)
        calls += made if spilled is None else map(spilled.call, made)
        if is_last_use and isinstance(step, ModelLayer) and step.operator.kind is not Kind.MATMUL:
            own = [name for name in step.operator.inputs[1:] if readers[name] == 1 and name not in graph.needed]
            forget_constants(given, own)
            forget_constants(graph, own)
    values = {**graph.values, **writer.values}
    return Program(replace(graph, values=values), tuple(calls), writer.kernels)


class _Writer:
    """Makes calls of steps; those that compute the same share a kernel.

    Attributes:
        values: those between calls of one step.
    """

    def __init__(self, graph: Graph, target: Target, schedules: Chooser) -> None:
        self._graph, self._target, self._schedules = graph, target, schedules
        self.kernels: dict[str, Any] = {}
        self._made: dict[str, Value] = {}
        self._layers: dict[Workload, tuple[str, Choice, Kernel]] = {}
        self._products = Products(graph, target, schedules, self._add)

    @property
    def values(self) -> dict[str, Value]:
        return self._made | self._products.values

    def calls(self, step: Step) -> list[Call]:
        if isinstance(step, ModelLayer):
            is_product = step.operator.kind is Kind.MATMUL
            made = self._products.calls(step) if is_product else [self._layer(step)]
        else:
            made = self._island(step) if step.kind is Kind.FLOAT else [self._operator(step)]
        return [replace(call, arguments=tuple(map(self._argument, call.arguments))) for call in made]

    def _argument(self, argument: str | Array) -> str | Array:
        """An argument of a call, with the values of a constant in place of its name."""
        value = self._graph.values.get(argument) if isinstance(argument, str) else None
        return argument if value is None or value.constant is None else np.asarray(value.constant, order="C")

    def _layer(self, layer: ModelLayer) -> Call:
        workload = layer.workload
        if workload not in self._layers:
            choice = self._schedules.choose(workload)
            kernel = choice.template.apply(workload, self._target, choice.config)
            self._layers[workload] = self._add(workload.op, kernel.function), choice, kernel
        name, choice, kernel = self._layers[workload]
        arguments = layer_arguments(self._graph, layer, kernel)
        return Call(layer.names, workload.key, schedule_of(choice), name, arguments, _outputs(layer))

    def _operator(self, operator: Operator) -> Call:
        name, arguments = "", tuple[str | Array, ...](operator.inputs[:1])
        if operator.kind is not Kind.RESHAPE:
            write = KERNELS.get(operator.kind) or WIDE_KERNELS[operator.kind]
            kernel = write(self._graph, operator, self._target)
            name = self._add(str(operator.kind), kernel.function)
            arguments = (*kernel.inputs, *kernel.constants)
        computes = operator.operator or str(operator.kind)
        return Call(operator.layers, computes, {}, name, arguments, operator.outputs)

    def _island(self, operator: Operator) -> list[Call]:
        made, names = [], operator.layers
        if len(names) > MOST_NAMES:  # which of a large island a kernel computes is not known
            names = (*names[:MOST_NAMES], f"{len(names) - MOST_NAMES:,} more")
        for call in float_calls(self._graph, operator, self._target):
            self._made.update((value.name, value) for value in call.outputs)
            name = "" if call.function is None else self._add("float", call.function)
            outputs = tuple(value.name for value in call.outputs)
            made.append(Call(names, operator.operator, {}, name, call.arguments, outputs, is_float=True))
        return made

    def _add(self, kind: str, function: Any) -> str:
        """The name of a kernel, which says what it is made of: equal ones have the same."""
        name = f"{kind}_{function_digest(function)}"
        if name not in self.kernels:
            self.kernels[name] = function.with_attr(SYMBOL, name)
        return name


def _outputs(step: Step) -> tuple[str, ...]:
    operator = step if isinstance(step, Operator) else step.addition or step.operator
    return operator.outputs
