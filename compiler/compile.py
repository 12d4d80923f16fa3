"""From a graph to a compiled model: a shared library that needs TVM's runtime and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.about import about_text
from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.graph import Graph, Kind, Operator
from int8tune.compiler.layer_call import layer_arguments, schedule_of
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.operator_kernels.registry import KERNELS
from int8tune.compiler.program import Array, Call, Program, Step, steps_of
from int8tune.compiler.quantized_layers import ModelLayer
from int8tune.compiler.relax_module import build_executable, export
from int8tune.compiler.report import Report, ignore
from int8tune.compiler.schedule_choice import Choice, Chooser
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import Workload


def compile_model(graph: Graph, target: Target, schedules: Chooser, library: Path, report: Report = ignore) -> str:
    """Write the compiled model of a graph; what it says of itself (`compiler.about`).

    Raises:
        ModelError: operators that nothing computes; the message names all.
        NoLinkerError: nothing is there to link with.
        ExportError: the file can't be written.
    """
    program = program_of(graph, target, schedules, report)
    about = about_text(program, target)
    executable = build_executable(program, target, about, lambda done, total: report("building kernels", done, total))
    report("linking", 0, 1)
    export(executable, library)
    return about


def all_values(graph: Graph) -> Graph:
    """The graph with every value that a step makes as an output: what a comparison layer by layer needs."""
    made = [_output(step) for step in steps_of(graph)]
    return replace(graph, outputs=tuple(dict.fromkeys(made)))


@np.errstate(all="ignore")  # scales of a file may be anything
def program_of(graph: Graph, target: Target, schedules: Chooser, report: Report = ignore) -> Program:
    """The calls and kernels of a graph.

    Raises:
        ModelError: operators that nothing computes; the message names all.
    """
    refuse_obstacles(graph)
    graph = with_file_layouts(graph)
    writer = _Writer(graph, target, schedules)
    steps = steps_of(graph)
    calls: list[Call] = []
    for step in steps:
        report("choosing schedules", len(calls), len(steps))
        calls.append(writer.call(step))
    return Program(graph, tuple(calls), writer.kernels)


class _Writer:
    """Makes calls of steps; layers with the same workload and schedule share a kernel."""

    def __init__(self, graph: Graph, target: Target, schedules: Chooser) -> None:
        self._graph, self._target, self._schedules = graph, target, schedules
        self.kernels: dict[str, Any] = {}
        self._names: Counter[str] = Counter()
        self._layers: dict[Workload, tuple[str, Choice, Kernel]] = {}

    def call(self, step: Step) -> Call:
        call = self._layer(step) if isinstance(step, ModelLayer) else self._operator(step)
        return replace(call, arguments=tuple(map(self._argument, call.arguments)))

    def _argument(self, argument: str | Array) -> str | Array:
        """An argument of a call, with the values of a constant in place of its name."""
        constant = self._graph.values[argument].constant if isinstance(argument, str) else None
        return argument if constant is None else np.asarray(constant, order="C")

    def _layer(self, layer: ModelLayer) -> Call:
        workload = layer.workload
        if workload not in self._layers:
            choice = self._schedules.choose(workload)
            kernel = choice.template.apply(workload, self._target, choice.config)
            self._layers[workload] = self._add(workload.op, kernel.function), choice, kernel
        name, choice, kernel = self._layers[workload]
        arguments = layer_arguments(self._graph, layer, kernel)
        return Call(layer.names, workload.key, schedule_of(choice), name, arguments, _output(layer))

    def _operator(self, operator: Operator) -> Call:
        name, arguments = "", tuple[str | Array, ...](operator.inputs[:1])
        if operator.kind is not Kind.RESHAPE:
            kernel = KERNELS[operator.kind](self._graph, operator, self._target)
            name = self._add(str(operator.kind), kernel.function)
            arguments = (*kernel.inputs, *kernel.constants)
        computes = operator.operator or str(operator.kind)
        return Call(operator.layers, computes, {}, name, arguments, operator.outputs[0])

    def _add(self, kind: str, function: Any) -> str:
        """A name for a kernel that no other has."""
        self._names[kind] += 1
        name = f"{kind}_{self._names[kind]}"
        self.kernels[name] = function.with_attr("global_symbol", name)
        return name


def _output(step: Step) -> str:
    operator = step if isinstance(step, Operator) else step.addition or step.operator
    return operator.outputs[0]
