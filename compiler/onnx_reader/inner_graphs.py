"""Nodes with graphs within, as the nodes of these: If, and Loop and Scan of a number of turns that is known.

An If whose condition is computed is both of its branches, and a Where for each output: nodes have no effect but what
they make. What can't be written so stays, and is refused where it is read.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.compiler.graph import ElementType
from int8tune.compiler.onnx_reader.nodes import model_fault, quoted
from int8tune.compiler.onnx_reader.tensors import Array

# A small file could hold many graphs in each other, or loops that turn for ever.
MOST_NODES, MOST_GRAPHS, MOST_TURNS = 20_000, 1000, 512
# Whose makers are looked at, all up to the inputs of the model.
MOST_VALUES = 64
WORDS = ("If", "Loop", "Scan")
# The version from which on an Unsqueeze takes its axes as an input.
OPSET_OF_AXES = 13

Form = tuple[ElementType, tuple[int, ...]]
# What is known of values, by the nodes that make them: their forms, and the constants among them.
Known = Callable[[Sequence[Any], str], tuple[Form | None, Array | None]]


@dataclass(frozen=True, slots=True)
class Choice:
    """An output of an If whose condition is computed, and the names of what both branches make."""

    output: str
    condition: str
    one: str
    other: str


class InnerGraphs:
    """Writes the nodes of a graph without graphs within.

    Attributes:
        choices: whose two values must have one form.
    """

    def __init__(self, graph: Any, opset: int, known: Known) -> None:
        self._graph, self._opset, self._known = graph, opset, known
        self._made: list[Any] = []
        self._graphs = self._count = 0
        self._added: set[str] = set()
        self._asked: dict[str, tuple[Form | None, Array | None]] = {}
        self.choices: list[Choice] = []

    def write(self) -> None:
        if not any(node.op_type in WORDS for node in self._graph.node):
            return
        self._names = sorted(_names(self._graph))
        pending = deque(self._graph.node)
        while pending:
            node = pending.popleft()
            inner = self._inner(node) if node.op_type in WORDS and self._graphs < MOST_GRAPHS else None
            if inner is None:
                self._made.append(node)
            else:
                self._graphs += 1
                pending.extendleft(reversed(inner))
        made = [type(node).FromString(node.SerializeToString()) for node in self._made]
        del self._graph.node[:]
        self._graph.node.extend(made)

    def require_one_form(self, forms: Mapping[str, Form], model: str) -> None:
        """Raise ModelError where a Where would choose otherwise: values of two forms, or by more than one bool."""
        for choice in self.choices:
            element, shape = forms.get(choice.condition, ("f32", ()))
            if element != "bool" or math.prod(shape) != 1:
                what = f"the condition of an If must be one truth value: {element} {list(shape)}"
                raise model_fault(model, f"{quoted(choice.output)}: {what}")
            one, other = (forms.get(name) for name in (choice.one, choice.other))
            if one != other and choice.output in forms:
                what = f"the branches of an If must make values of one form: {one}, {other}"
                raise model_fault(model, f"{quoted(choice.output)}: {what}")

    def _inner(self, node: Any) -> list[Any] | None:
        """The nodes in the place of one; None where they are not known, or too many."""
        before = self._count
        write = {"If": self._branches, "Loop": self._loop, "Scan": self._scan}[node.op_type]
        inner = write(node) if node.output and node.output[0] else None
        if inner is None:
            self._count = before
        return inner

    def _branches(self, node: Any) -> list[Any] | None:
        branches = [_attribute(node, name) for name in ("then_branch", "else_branch")]
        if len(node.input) != 1 or not all(_is_plain(each, 0, len(node.output)) for each in branches):
            return None
        _, condition = self._value(node.input[0])
        prefix = self._prefix(node, "branch")
        if condition is not None and condition.size == 1:
            taken = self._inlined(branches[0 if condition.reshape(-1)[0] else 1], [], prefix)
            if taken is None:
                return None
            nodes, ends = taken
            return nodes + [_node("Identity", [end], [out]) for end, out in zip(ends, node.output, strict=True) if out]
        one, other = (self._inlined(each, [], f"{prefix} {at}") for at, each in enumerate(branches))
        if one is None or other is None:
            return None
        flag = self._constant(f"{prefix}/shape", np.zeros(0, np.int64))
        chosen = [_node("Reshape", [node.input[0], flag], [f"{prefix}/condition"])]
        for at, output in enumerate(node.output):
            if output:
                pair = one[1][at], other[1][at]
                self.choices.append(Choice(output, node.input[0], *pair))
                chosen.append(_node("Where", [f"{prefix}/condition", *pair], [output]))
        return one[0] + other[0] + chosen

    def _loop(self, node: Any) -> list[Any] | None:
        body, carried = _attribute(node, "body"), list(node.input[2:])
        if len(node.input) < 2 or not node.input[0] or not all(carried):
            return None
        _, turns = self._value(node.input[0])
        _, goes = self._value(node.input[1]) if node.input[1] else (None, np.ones(1))
        if turns is None or turns.size != 1 or goes is None or goes.size != 1 or not goes.reshape(-1)[0]:
            return None
        count = int(turns.reshape(-1)[0])
        if not _is_plain(body, 2 + len(carried), 1 + len(node.output)) or not _goes_on(body):
            return None
        rows: list[list[str]] = [[] for _ in node.output[len(carried) :]]
        prefix = self._prefix(node, "loop")
        condition = node.input[1] or self._constant(f"{prefix}/condition", np.array(True))

        def given(turn: int, values: list[str]) -> list[str]:
            return [self._constant(f"{prefix}/turn {turn}", np.array(turn, np.int64)), condition, *values]

        nodes = self._turns(body, count, carried, given, rows, prefix, 1)
        return None if nodes is None else [*nodes, *self._ends(node, carried, rows, prefix, [0] * len(rows), [])]

    def _scan(self, node: Any) -> list[Any] | None:
        body, scanned = _attribute(node, "body"), _attribute(node, "num_scan_inputs")
        if not isinstance(scanned, int) or not 0 < scanned <= len(node.input) or not all(node.input):
            return None
        states = len(node.input) - scanned
        outputs = len(node.output) - states
        axes = list(_attribute(node, "scan_input_axes") or [0] * scanned)
        turned = list(_attribute(node, "scan_input_directions") or [0] * scanned)
        made_axes = list(_attribute(node, "scan_output_axes") or [0] * outputs)
        backwards = list(_attribute(node, "scan_output_directions") or [0] * outputs)
        forms = [self._value(name)[0] for name in node.input[states:]]
        fits = len(axes) == len(turned) == scanned and len(made_axes) == len(backwards) == outputs >= 0
        if not fits or not _is_plain(body, len(node.input), len(node.output)) or min(made_axes, default=0) < 0:
            return None
        counts = {
            form[1][axis] if form is not None and -len(form[1]) <= axis < len(form[1]) else 0
            for form, axis in zip(forms, axes, strict=True)
        }
        if len(counts) != 1:
            return None
        (count,), prefix, slices = counts, self._prefix(node, "scan"), list[Any]()

        def given(turn: int, values: list[str]) -> list[str]:
            rows = []
            for at, name in enumerate(node.input[states:]):
                place = count - 1 - turn if turned[at] else turn
                index = self._constant(f"{prefix}/place {place}", np.array(place, np.int64))
                rows.append(f"{prefix}/row {at} {turn}")
                slices.append(_node("Gather", [name, index], rows[-1:], axis=axes[at]))
            return [*values, *rows]

        carried, rows = list(node.input[:states]), list[list[str]]([] for _ in range(outputs))
        nodes = self._turns(body, count, carried, given, rows, prefix, 0)
        if nodes is None:
            return None
        return [*slices, *nodes, *self._ends(node, carried, rows, prefix, made_axes, backwards)]

    def _turns(
        self,
        body: Any,
        count: int,
        carried: list[str],
        given: Callable[[int, list[str]], list[str]],
        rows: list[list[str]],
        prefix: str,
        skipped: int,
    ) -> list[Any] | None:
        """The nodes of every turn; `carried` become what the last one makes, `rows` what each one does.

        Args:
            skipped: outputs of the body in front of those that are carried.
        """
        nodes = list[Any]()
        for turn in range(count) if 0 < count <= MOST_TURNS else ():
            inlined = self._inlined(body, given(turn, carried), f"{prefix} {turn}", f"{prefix} body")
            if inlined is None:
                return None
            nodes += inlined[0]
            ends = inlined[1][skipped:]
            carried[:] = ends[: len(carried)]
            for row, end in zip(rows, ends[len(carried) :], strict=True):
                row.append(end)
        return nodes or None

    def _ends(
        self, node: Any, carried: list[str], rows: list[list[str]], prefix: str, axes: list[int], backwards: list[int]
    ) -> list[Any]:
        """What makes a loop's outputs of those of its turns."""
        made = [
            _node("Identity", [name], [output]) for name, output in zip(carried, node.output, strict=False) if output
        ]
        for at, (row, output) in enumerate(zip(rows, node.output[len(carried) :], strict=True)):
            parts = [f"{prefix}/part {at} {turn}" for turn in range(len(row))]
            made += [self._row(name, part, axes[at], prefix) for name, part in zip(row, parts, strict=True)]
            ordered = parts[::-1] if backwards and backwards[at] else parts
            made += [_node("Concat", ordered, [output], axis=axes[at])] if output else []
        return made

    def _row(self, name: str, part: str, axis: int, prefix: str) -> Any:
        """What a turn makes with an axis for the turns, which is an attribute in files of older versions."""
        if self._opset < OPSET_OF_AXES:
            return _node("Unsqueeze", [name], [part], axes=[axis])
        return _node("Unsqueeze", [name, self._constant(f"{prefix}/axis {axis}", np.array([axis], np.int64))], [part])

    def _inlined(
        self, body: Any, given: Sequence[str], prefix: str, shared: str = ""
    ) -> tuple[list[Any], list[str]] | None:
        """The nodes of a graph within, whose own names no other has, and what they make; None where they are too many.

        Args:
            given: names of what the graph takes.
            shared: before the names of its constants, of which all turns have one.
        """
        self._count += len(body.node)
        if self._count > MOST_NODES:
            return None
        names = {info.name: name for info, name in zip(body.input, given, strict=True)}
        for tensor in body.initializer:
            names[tensor.name] = f"{shared or prefix}/{tensor.name}"
            self._initializer(tensor, names[tensor.name])
        names |= {name: f"{prefix}/{name}" for each in body.node for name in each.output if name}
        return [_renamed(each, names, prefix) for each in body.node], [
            names.get(info.name, info.name) for info in body.output
        ]

    def _value(self, name: str) -> tuple[Form | None, Array | None]:
        """The form of a value, and what it is where it is known."""
        if name not in self._asked and len(self._asked) < MOST_VALUES:
            self._asked[name] = self._known(self._made, name)
        return self._asked.get(name, (None, None))

    def _prefix(self, node: Any, what: str) -> str:
        """What no name of the file begins with."""
        prefix = f"{node.output[0]}/{what}"
        while (at := bisect_left(self._names, prefix)) < len(self._names) and self._names[at].startswith(prefix):
            prefix += "'"
        return prefix

    def _constant(self, name: str, array: Array) -> str:
        import onnx

        self._initializer(onnx.numpy_helper.from_array(array, name), name)
        return name

    def _initializer(self, tensor: Any, name: str) -> None:
        if name not in self._added:
            self._added.add(name)
            self._graph.initializer.add().CopyFrom(tensor)
            self._graph.initializer[-1].name = name


def _names(graph: Any) -> set[str]:
    """Every name of a value, of graphs within, too."""
    found = {info.name for info in (*graph.input, *graph.initializer)}
    for node in graph.node:
        found.update(node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= _names(attribute.g)
    return found


def _renamed(node: Any, names: Mapping[str, str], prefix: str) -> Any:
    """A copy of a node with other names of values, also where graphs within it read them."""
    import onnx

    copy = onnx.NodeProto.FromString(node.SerializeToString())
    copy.name = f"{prefix}/{node.name}" if node.name else ""
    for ends, taken in ((copy.input, node.input), (copy.output, node.output)):
        del ends[:]
        ends.extend(names.get(name, name) for name in taken)
    for attribute in copy.attribute:
        if attribute.HasField("g"):
            _rename_read(attribute.g, names)
    return copy


def _rename_read(graph: Any, names: Mapping[str, str]) -> None:
    """Give what a graph within reads from outside its new names."""
    own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    outside = {name: new for name, new in names.items() if name not in own}
    for node in graph.node:
        taken = [outside.get(name, name) for name in node.input]
        del node.input[:]
        node.input.extend(taken)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_read(attribute.g, outside)
    for info in graph.output:
        info.name = outside.get(info.name, info.name)


def _node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    import onnx

    return onnx.helper.make_node(operator, list(inputs), list(outputs), **attributes)


def _attribute(node: Any, name: str) -> Any:
    """A graph, a number or a list of integers; None where the node has none of that name."""
    for each in node.attribute:
        if each.name == name:
            return each.g if each.HasField("g") else tuple(each.ints) or int(each.i)
    return None


def _is_plain(body: Any, inputs: int, outputs: int) -> bool:
    """Whether a graph within has so many inputs and outputs, all with names, and no lists of graphs."""
    if not hasattr(body, "node") or len(body.input) != inputs or len(body.output) != outputs:
        return False
    names = [name for node in body.node for name in node.output if name]
    has_lists = any(each.graphs for node in body.node for each in node.attribute)
    is_sound = len(set(names)) == len(names) and all(info.name for info in (*body.input, *body.output))
    return is_sound and not has_lists and not body.sparse_initializer


def _goes_on(body: Any) -> bool:
    """Whether a loop's condition stays true: it is the one that was given, or a constant."""
    import onnx

    name = body.output[0].name
    for _ in range(len(body.node) + 1):
        if name == body.input[1].name:
            return True
        tensor = next((each for each in body.initializer if each.name == name), None)
        maker = next((node for node in body.node if name in node.output), None)
        if maker is not None and maker.op_type == "Constant":
            tensor = next((each.t for each in maker.attribute if each.name == "value"), None)
        elif maker is not None and maker.op_type == "Identity" and maker.input:
            name = maker.input[0]
            continue
        try:
            return tensor is not None and bool(onnx.numpy_helper.to_array(tensor).all())
        except Exception:  # of a damaged tensor
            return False
    return False
