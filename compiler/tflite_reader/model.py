"""TFLite models as graphs.

Sources: schema.fbs of TensorFlow Lite, and its quantization specification. A model's operators have no names; the
tensor that an operator makes has, of all the layers that the converter made one operator of, with semicolons between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Graph, Kind, Operator, State
from int8tune.compiler.islands.merging import with_islands
from int8tune.compiler.operators import checked, other
from int8tune.compiler.operators.base import BYTES
from int8tune.compiler.tflite_reader.detection import DETECTION, detection_operators
from int8tune.compiler.tflite_reader.dilated import dilations_of
from int8tune.compiler.tflite_reader.file import CUSTOM, INSTALL, Subgraph, TfliteFile, damage_told, schema_of
from int8tune.compiler.tflite_reader.floats.operators import FloatOperators
from int8tune.compiler.tflite_reader.flow import CALLERS, COPY, Flow, flow_of
from int8tune.compiler.tflite_reader.known import known_array
from int8tune.compiler.tflite_reader.layers import Layers
from int8tune.compiler.tflite_reader.operators import NO_KERNEL, VALID, is_only_integers, typed_operators
from int8tune.compiler.tflite_reader.products import product_operators
from int8tune.compiler.tflite_reader.recurrent import VARIABLES, Recurrent
from int8tune.compiler.tflite_reader.states import WORDS, States
from int8tune.compiler.tflite_reader.steps import Reason, Step
from int8tune.compiler.tflite_reader.transposed import transposed_operators
from int8tune.compiler.tflite_reader.wide import is_wide
from int8tune.compiler.unused import without_unused
from int8tune.compiler.word_layers import with_byte_layers
from int8tune.results.text import clipped


def read_tflite(data: bytes, name: str) -> Graph:
    """The graph of a model. What no integer kernel computes is an island in float, if one may have it.

    Raises:
        ModelError: the file is damaged, or has something that is not supported; one line, which names the place.
    """
    try:
        with damage_told(name):
            return with_islands(_Reader(TfliteFile(schema_of(data, name), data, name)).read())
    except ImportError as error:
        raise ModelError(f"{name}: models with operators in float need the package {error.name}: {INSTALL}") from None


class _Reader:
    """Makes operators of a file's, one after the other."""

    def __init__(self, file: TfliteFile) -> None:
        self._file = file

    @np.errstate(all="ignore")  # scales of a file may be anything
    def read(self) -> Graph:
        if not self._file.model.SubgraphsLength():
            raise self._file.error("a model must have a subgraph, not none")
        graph = self._graph = flow_of(self._file, Subgraph(self._file, 0))
        self._values, self._outputs = graph.values, frozenset(graph.outputs)
        self._known = set(graph.known) if isinstance(graph, Flow) else set[str]()
        self._states = States(self._file, graph)
        self._layers = Layers(self._values)
        self._floats = FloatOperators(self._values, self._layers)
        self._recurrent = Recurrent(self._file, graph, self._floats, self._states.keep)
        self._dilations = dilations_of(graph.plains, self._values, graph.outputs, self._is_simple)
        idle = {index for dilation in self._dilations.values() for index in dilation.idle}
        made = tuple(
            each
            for index, plain in enumerate(graph.plains)
            if index not in idle
            for each in self._operators_of(index, plain)
        )
        states = self._states.states()
        self._check_order(made, (*graph.inputs, *(state.read for state in states)), graph.outputs)
        self._check_states(states, made)
        self._refuse_unquantized(made)
        read = {name for operator in made for name in operator.inputs}
        read.update(state.made for state in states)
        values = {name: value for name, value in self._values.items() if name in read or name not in self._known}
        whole = Graph(self._file.name, values, made, graph.inputs, graph.outputs, states=states)
        return without_unused(with_byte_layers(whole))

    def _check_order(self, operators: Iterable[Operator], inputs: Iterable[str], outputs: Iterable[str]) -> None:
        """Raise where something is read before it is made, or never made, or made twice."""
        known = {name for name, value in self._values.items() if value.constant is not None}
        known.update(inputs)
        for operator in operators:
            for name in operator.inputs:
                if name not in known and not self._may_lack(operator, name):
                    raise self._file.place(operator, f"it reads `{clipped(name)}`, which nothing makes before")
            for name in operator.outputs:
                if name in known:
                    raise self._file.place(operator, f"it makes `{clipped(name)}`, which something else makes, too")
                known.add(name)
        for name in outputs:
            if name not in known:
                raise self._file.error(f"its output `{clipped(name)}` is made by no operator")
            if self._values[name].constant is not None:
                raise self._file.error(f"its output `{clipped(name)}` is a constant")

    def _may_lack(self, operator: Operator, name: str) -> bool:
        """Whether nothing need make what a refused operator reads: a variable, or memory of an operator of its own."""
        is_own = operator.operator.startswith(CUSTOM)
        return operator.kind is Kind.OTHER and (is_own or self._graph.is_state(name))

    def _check_states(self, states: Iterable[State], operators: Iterable[Operator]) -> None:
        """Raise where what is kept is made by nothing."""
        made = {*self._graph.inputs, *(name for operator in operators for name in operator.outputs)}
        made.update(name for name, value in self._values.items() if value.constant is not None)
        made.update(state.read for state in states)
        for state in states:
            if state.made not in made:
                raise self._file.error(f"nothing makes `{clipped(state.made)}`, which a variable becomes")

    def _refuse_unquantized(self, operators: Iterable[Operator]) -> None:
        """Raise where a model is all float."""
        if any(value.quantization is not None for value in self._values.values()):
            return
        for operator in operators:
            if self._layers.reads(operator.operator) and operator.operator != "ADD":
                where = f", the first that should is `{clipped(operator.outputs[0])}` ({operator.operator})"
                raise self._file.error(f"no operator computes on quantized values{where}: quantize the model first")

    # Operators.

    def _operators_of(self, index: int, plain: Operator) -> tuple[Operator, ...]:
        """What computes an operator: integer kernels, or else nodes in float; nothing where it is known before."""
        if plain.operator in WORDS:
            return self._states.read(plain, self._graph.operator(index))
        if plain.operator in VARIABLES:
            return self._recurrent.read(index, plain)
        if plain.operator in CALLERS:
            reasons = self._graph.reasons if isinstance(self._graph, Flow) else {}
            return (other(plain, reasons.get(index, "it runs another subgraph")),)
        if plain.operator == COPY:
            return (checked(replace(plain, kind=Kind.RESHAPE), self._values),)
        step = self._step(index, plain)
        if plain.operator == DETECTION:
            return detection_operators(step, self._graph.operator(index), self._values)
        known = None if self._outputs.intersection(plain.outputs) else known_array(step)
        if known is not None:
            name = plain.outputs[0]
            self._values[name] = replace(self._values[name], constant=known)
            self._known.add(name)
            return ()
        made = self._integers(index, step)
        reason = made if isinstance(made, str) else _reason_of(made)
        if reason is None:
            assert not isinstance(made, str)
            return made
        found = reason if is_wide(step) or is_only_integers(step) else self._floats.read(step, reason)
        if not isinstance(found, str):
            return found
        is_stored = step.output.type in BYTES
        if is_stored and isinstance(made, str):
            raise self._file.place(plain, reason)
        return (other(plain, reason if is_stored and reason != NO_KERNEL else found),)

    def _step(self, index: int, plain: Operator) -> Step:
        taken, output = tuple(self._values[name] for name in plain.inputs), self._values[plain.outputs[0]]
        return Step(plain, taken, output, partial(self._file.options, self._graph.operator(index)))

    def _integers(self, index: int, step: Step) -> tuple[Operator, ...] | Reason:
        """The operators by which integer kernels compute one of the file; of kind OTHER, or a reason, for none."""
        if step.plain.operator == "BATCH_MATMUL":
            return product_operators(step, self._layers.read, self._values)
        if self._layers.reads(step.plain.operator):
            made, dilation = self._layers.read(step), self._dilations.get(index)
            if isinstance(made, str):
                return made
            return (made if dilation is None else dilation.applied(made),)
        make = transposed_operators if step.plain.operator == "TRANSPOSE_CONV" else typed_operators
        return make(step, self._values)

    def _is_simple(self, index: int) -> bool:
        """Whether a convolution has no border, stride and dilation."""
        operator = self._graph.operator(index)
        is_depthwise = self._file.word(operator) == "DEPTHWISE_CONV_2D"
        options = self._file.options(operator, "DepthwiseConv2DOptions" if is_depthwise else "Conv2DOptions")
        steps = options.StrideH(), options.StrideW(), options.DilationHFactor(), options.DilationWFactor()
        return options.Padding() == VALID and steps == (1, 1, 1, 1)


def _reason_of(operators: Iterable[Operator]) -> Reason | None:
    """Why one of some operators is none that an integer kernel computes."""
    for operator in operators:
        if operator.kind is Kind.OTHER:
            return str(operator.attributes["reason"])
    return None
