"""LSTM, GRU and RNN as the products and functions of each of their steps.

What a sequence is multiplied by is one product of all steps; in each step the state before is multiplied, and gates are
computed. Letters are those of ONNX's definitions; gates are in its order: i, o, f, c; z, r, h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
MOST_STEPS = 512
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@dataclass(frozen=True, slots=True)
class Form:
    """Sizes of a node, and what its attributes say.

    Attributes:
        functions: of each direction.
        reverse: whether each direction goes from the last step to the first.
    """

    steps: int
    batch: int
    hidden: int
    gates: int
    is_batch_first: bool
    functions: tuple[tuple[str, ...], ...]
    reverse: tuple[bool, ...]


def write_recurrent(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    write_directions(writer, file, node, Direction)


def write_directions(writer: FloatWriter, file: OnnxFile, node: Node, kind: type[Direction]) -> None:
    """Write each direction as a kind of them does, and what both make together."""
    form = _form(file, node, kind)
    data = node.input(0)
    if form.is_batch_first:
        data = writer.apply("Transpose", data, perm=[1, 0, 2])
    found = [kind(writer, node, form, index, file.opset).run(data) for index in range(len(form.reverse))]
    every, hidden, cells = zip(*found, strict=True)
    # [direction, batch, hidden] of each step, and of the last one.
    order = [2, 0, 1, 3] if form.is_batch_first else [0, 1, 2, 3]
    whole = every[0] if len(every) == 1 else writer.apply("Concat", *every, axis=1)
    writer.apply("Transpose", whole, output=node.outputs[0], perm=order)
    for index, ends in ((1, hidden), (2, cells)):
        if index < len(node.outputs) and node.outputs[index]:
            joined = writer.apply("Concat", *ends, axis=0)
            order = [1, 0, 2] if form.is_batch_first else [0, 1, 2]
            writer.apply("Transpose", joined, output=node.outputs[index], perm=order)


def _form(file: OnnxFile, node: Node, kind: type[Direction]) -> Form:
    at, (type_, data) = node.attributes, file.forms[node.input(0)]
    direction, layout = at.get("direction", "forward"), at.get("layout", 0)
    if type_ != "f32" or len(data) != 3 or direction not in _DIRECTIONS or layout not in (0, 1):
        raise UnsupportedNodeError(f"its data must be f32 of three axes: {type_} {list(data)}, {direction}")
    batch, steps = (data[0], data[1]) if layout else (data[1], data[0])
    count, gates, hidden = _DIRECTIONS[str(direction)], GATES[node.proto.op_type], at.get("hidden_size")
    shapes = [file.forms[node.input(index)][1] for index in (1, 2)]
    if not isinstance(hidden, int) or tuple(shapes) != kind.weight_shapes(count, gates * hidden, hidden, data[2]):
        raise UnsupportedNodeError(f"its weights don't fit data {list(data)} and hidden_size {hidden}: {shapes}")
    if steps * count > MOST_STEPS:
        raise UnsupportedNodeError(f"it must have at most {MOST_STEPS} steps, of both directions together: {steps}")
    if {"activation_alpha", "activation_beta"} & {attribute.name for attribute in node.proto.attribute}:
        raise UnsupportedNodeError("its activations must be without parameters")
    functions = _functions(node, count)
    reverse = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[str(direction)]
    form = Form(steps, batch, hidden, gates, bool(layout), functions, reverse)
    _require_others(file, node, form)
    return form


def _functions(node: Node, count: int) -> tuple[tuple[str, ...], ...]:
    import onnx

    default = _DEFAULTS[node.proto.op_type]
    named = [
        [each.decode("utf-8", "replace").lower() for each in onnx.helper.get_attribute_value(attribute)]
        for attribute in node.proto.attribute
        if attribute.name == "activations" and attribute.strings
    ]
    if not named:
        return (default,) * count
    (names,) = named
    if len(names) != len(default) * count or not set(names) <= set(_ACTIVATIONS):
        known = ", ".join(_ACTIVATIONS.values())
        raise UnsupportedNodeError(f"its activations must be {len(default)} of {known} for each direction: {names[:8]}")
    found = [_ACTIVATIONS[name] for name in names]
    return tuple(tuple(found[at : at + len(default)]) for at in range(0, len(found), len(default)))


def _require_others(file: OnnxFile, node: Node, form: Form) -> None:
    """Raise where inputs behind the weights have other shapes than they should."""
    count, hidden = len(form.reverse), form.hidden
    state = (form.batch, count, hidden) if form.is_batch_first else (count, form.batch, hidden)
    expected = {3: (count, 2 * form.gates * hidden), 4: (form.batch,), 5: state, 6: state, 7: (count, 3 * hidden)}
    for index, shape in expected.items():
        name = node.input(index)
        if name and file.forms[name][1] != shape:
            raise UnsupportedNodeError(f"its input {index + 1} must have the shape {shape}: {file.forms[name][1]}")
    if node.input(4) and any(form.reverse):
        raise UnsupportedNodeError("lengths of sequences can't be given where they are read from the end")


class Direction:
    """Writes the steps of one direction."""

    def __init__(self, writer: FloatWriter, node: Node, form: Form, index: int, opset: int) -> None:
        self._opset = opset
        self._writer, self._node, self._form, self._index = writer, node, form, index
        self._functions = form.functions[index]
        self._recurrence = self._weight_of_state()
        self._biases = self._own(3)
        peepholes = self._own(7)
        self._peepholes = self._parts(peepholes, [form.hidden] * 3, 0) if peepholes else ()
        self._cell = ""
        if node.computes == "GRU":
            sizes = [2 * form.hidden, form.hidden]
            self._gates_of_state, self._new_of_state = self._parts(self._recurrence, sizes, 1)

    @staticmethod
    def weight_shapes(count: int, rows: int, hidden: int, wide: int) -> tuple[tuple[int, ...], ...]:
        """What the second and the third input must be, of `count` directions and `wide` data."""
        return (count, rows, wide), (count, rows, hidden)

    def run(self, data: str) -> tuple[str, str, str]:
        """What it makes: of every step, [steps, 1, batch, hidden]; of the last one its state and cell, [1, ...]."""
        apply, form = self._writer.apply, self._form
        inputs = self._of_data(data)
        if bias := self._bias():
            inputs = apply("Add", inputs, bias)
        state, self._cell = self._state(5), self._state(6) if self._node.proto.op_type == "LSTM" else ""
        steps, made = range(form.steps), dict[int, str]()
        lengths = self._node.input(4)
        for step in reversed(steps) if form.reverse[self._index] else steps:
            cell = self._cell
            new = self._step(self._slice(inputs, step, 0), state)
            made[step] = new
            if lengths:
                is_inside = apply("Reshape", apply("Less", np.array(step, np.int32), lengths), np.array([-1, 1]))
                made[step] = apply("Where", is_inside, new, 0.0)
                new = apply("Where", is_inside, new, state)
                self._cell = apply("Where", is_inside, self._cell, cell) if self._cell else ""
            state = new
        whole = apply("Concat", *(made[step] for step in steps), axis=0)
        shape = np.array([form.steps, 1, form.batch, form.hidden])
        return apply("Reshape", whole, shape), state, self._cell

    def _of_data(self, data: str) -> str:
        """What a sequence is multiplied by, of all steps."""
        return self._writer.apply("MatMul", data, self._transposed(1))

    def _weight_of_state(self) -> str:
        return self._transposed(2)

    def _of_state(self, state: str) -> str:
        return self._writer.apply("MatMul", state, self._recurrence)

    def _step(self, inputs: str, state: str) -> str:
        if self._node.computes == "GRU":
            return self._gru(inputs, state)
        apply = self._writer.apply
        total = apply("Add", inputs, self._of_state(state))
        if self._node.computes == "RNN":
            return apply(self._functions[0], self._clipped(total))
        return self._lstm(total)

    def _lstm(self, total: str) -> str:
        apply, (f, g, h) = self._writer.apply, self._functions
        i, o, forget, c = self._parts(total, [self._form.hidden] * 4, 2)
        i = apply(f, self._clipped(self._peeped(i, 0, self._cell)))
        if self._node.attributes.get("input_forget", 0):
            forget = apply("Sub", 1.0, i)
        else:
            forget = apply(f, self._clipped(self._peeped(forget, 2, self._cell)))
        c = apply("Mul", i, apply(g, self._clipped(c)))
        self._cell = apply("Add", apply("Mul", forget, self._cell), c)
        o = apply(f, self._clipped(self._peeped(o, 1, self._cell)))
        return apply("Mul", o, apply(h, self._cell))

    def _gru(self, inputs: str, state: str) -> str:
        apply, (f, g), hidden = self._writer.apply, self._functions, self._form.hidden
        of_gates, of_new = self._parts(inputs, [2 * hidden, hidden], 2)
        gates = apply("Add", of_gates, apply("MatMul", state, self._gates_of_state))
        z, r = self._parts(apply(f, self._clipped(gates)), [hidden, hidden], 2)
        if self._node.attributes.get("linear_before_reset", 0):
            own = apply("MatMul", state, self._new_of_state)
            if self._biases:
                own = apply("Add", own, self._parts(self._biases, [5 * hidden, hidden], 0)[1])
            new = apply("Mul", r, own)
        else:
            new = apply("MatMul", apply("Mul", r, state), self._new_of_state)
        new = apply(g, self._clipped(apply("Add", of_new, new)))
        return apply("Add", apply("Mul", apply("Sub", 1.0, z), new), apply("Mul", z, state))

    def _bias(self) -> str:
        """Both biases of each gate; of a GRU's new state, only the first one where the other is multiplied."""
        if not self._biases:
            return ""
        size = self._form.gates * self._form.hidden
        first, second = self._parts(self._biases, [size, size], 0)
        if self._node.computes == "GRU" and self._node.attributes.get("linear_before_reset", 0):
            zeros = np.ones(size, np.float32)
            zeros[-self._form.hidden :] = 0
            second = self._writer.apply("Mul", second, zeros)
        return self._writer.apply("Add", first, second)

    def _peeped(self, gate: str, index: int, cell: str) -> str:
        if not self._peepholes:
            return gate
        return self._writer.apply("Add", gate, self._writer.apply("Mul", self._peepholes[index], cell))

    def _clipped(self, value: str) -> str:
        clip = self._node.attributes.get("clip")
        if not isinstance(clip, float):
            return value
        return self._writer.clipped(value, -clip, clip, self._opset)

    def _own(self, index: int) -> str:
        """An input's part of this direction; nothing where it is left out."""
        name = self._node.input(index)
        return self._writer.apply("Gather", name, np.array(self._index), axis=0) if name else ""

    def _transposed(self, index: int) -> str:
        return self._writer.apply("Transpose", self._own(index), perm=[1, 0])

    def _state(self, index: int) -> str:
        """What the first step begins with, [1, batch, hidden]."""
        name = self._node.input(index)
        if not name:
            return self._writer.constant(np.zeros((1, self._form.batch, self._form.hidden)))
        if not self._form.is_batch_first:
            return self._slice(name, self._index, 0)
        return self._writer.apply("Transpose", self._slice(name, self._index, 1), perm=[1, 0, 2])

    def _slice(self, name: str, index: int, axis: int) -> str:
        return self._writer.apply("Slice", name, *(np.array([each]) for each in (index, index + 1, axis)))

    def _parts(self, name: str, sizes: Sequence[int], axis: int) -> tuple[str, ...]:
        found, begin = [], 0
        for size in sizes:
            places = (np.array([each]) for each in (begin, begin + size, axis))
            found.append(self._writer.apply("Slice", name, *places))
            begin += size
        return tuple(found)
