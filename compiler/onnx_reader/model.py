"""Quantized ONNX models as graphs: the form that ONNX Runtime's `quantize_static` writes, QDQ or QOperator.

A node between DequantizeLinear and QuantizeLinear is one operator on stored values, as ONNX Runtime computes it on
CPUs. Sources: the operators of ONNX, and ONNX Runtime's own (docs/ContribOperators.md: QGemm, QLinearAdd and others).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from int8tune.compiler.free_memory import give_back
from int8tune.compiler.graph import Graph, Kind, Operator, Quantization, Value
from int8tune.compiler.islands.merging import with_islands
from int8tune.compiler.onnx_reader.broadcasts import is_first_spread
from int8tune.compiler.onnx_reader.expression_operators import expression_operator
from int8tune.compiler.onnx_reader.expressions import Expression, Expressions
from int8tune.compiler.onnx_reader.file import OnnxFile, load
from int8tune.compiler.onnx_reader.float_sums import FloatSums
from int8tune.compiler.onnx_reader.floats import FloatNodes, refuse_unquantized
from int8tune.compiler.onnx_reader.fused import Ending, Fusion
from int8tune.compiler.onnx_reader.integer_products import PRODUCTS, IntegerProducts
from int8tune.compiler.onnx_reader.layer_chains import emit_links, layer_links
from int8tune.compiler.onnx_reader.layers import KERNELS, KernelForm, kernel_form, kernel_reason
from int8tune.compiler.onnx_reader.layout import with_images_moved
from int8tune.compiler.onnx_reader.matrix_products import matrices_of
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError, model_fault, quoted
from int8tune.compiler.onnx_reader.others import PLACES, READ, kind_of
from int8tune.compiler.onnx_reader.passing import MOVES_NUMBERS, MOVING, PASSING, PASSING_STORED, have_one_scale
from int8tune.compiler.onnx_reader.quantization import DEQUANTIZE, QUANTIZE, Constant, quantizations_of, same, sum_bias
from int8tune.compiler.onnx_reader.refused import refusal
from int8tune.compiler.onnx_reader.steps import Found, Step
from int8tune.compiler.onnx_reader.tensors import TYPES
from int8tune.compiler.onnx_reader.values import GraphValues
from int8tune.compiler.onnx_reader.word_layers import WordLayers
from int8tune.compiler.operators import checked
from int8tune.compiler.operators.base import BYTES, WORDS, byte_fault, is_same_quantization, stored_fault
from int8tune.compiler.operators.float_tables import requantized
from int8tune.compiler.unused import without_unused
from int8tune.compiler.word_layers import with_byte_layers

SUMS = {"Add": Kind.ADD, "Mul": Kind.MULTIPLY}

# The second one reads in float what the first one found no kernel for; with such neighbours others may have none, too.
MOST_PASSES = 4


def read_onnx(data: bytes, name: str) -> Graph:
    """The graph of a quantized model. A batch without a fixed size is one of 1.

    Values of four axes are images, [N, H, W, C] in the graph, but for those of matrix products. Constants are moved
    where a convolution or product reads them, and else are as in the file. A bias that is not quantized is rounded to
    the scale of the sums. What no integer kernel computes is an island in float, if one may have it.

    Raises:
        ModelError: the file is damaged, or has something that is not supported; one line, which names the place.
    """
    file, size_bytes = load(data, name), len(data)
    del data
    give_back(size_bytes)
    in_float: dict[Node, str] = {}
    for _ in range(MOST_PASSES):
        reader = _Reader(file, in_float)
        graph = reader.read()
        found = reader.refused(graph)
        if not found.keys() - in_float:
            break
        in_float |= found
    return with_islands(graph)


class _Reader:
    """Makes operators of a file's nodes, one after the other."""

    def __init__(self, file: OnnxFile, in_float: Mapping[Node, str]) -> None:
        self._file = file
        self._in_float = in_float
        self._nodes_by_layers: dict[tuple[str, ...], Node] = {}
        self._quantizations = quantizations_of(file)
        self._fusion = Fusion(file, self._quantizations)
        self._values = GraphValues(file, self._quantizations)
        self._expressions = Expressions(file, self._quantizations, self._fusion)
        self._operators: list[Operator] = []
        self._computed: set[Node] = set()
        self._layer_names: set[str] = set()
        self._floats = FloatNodes(file, self._quantizations, self._values, self._emit)
        self._sums = FloatSums(file, self._quantizations, self._values, self._emit)
        self._products = IntegerProducts(file, self._quantizations, self._values, self._emit)
        self._words = WordLayers(file, self._quantizations, self._values, self._fusion, self._emit, self._end)

    @np.errstate(all="ignore")  # scales of a file may be anything
    def read(self) -> Graph:
        for name in self._file.inputs:
            self._values.by_name[name] = self._values.plain(name)
        for node in self._file.nodes:
            if node not in self._computed and node.outputs[0] not in self._quantizations.constants:
                self._read(node)
        for name in self._file.outputs:
            if name in self._quantizations.constants:
                raise model_fault(self._file.name, f"the model's output {quoted(name)} is a constant")
        refuse_unquantized(self._file, self._values.by_name.values())
        values, operators, moved = with_images_moved(self._values.by_name, self._operators)
        ends = frozenset((*self._file.inputs, *self._file.outputs))
        operators = tuple(
            each if each.kind in (Kind.FLOAT, Kind.OTHER) else checked(each, values) for each in operators
        )
        file = self._file
        graph = Graph(file.name, values, operators, file.inputs, file.outputs, moved & ends)
        return without_unused(with_byte_layers(graph))

    def refused(self, graph: Graph) -> dict[Node, str]:
        """The nodes of which operators were made that nothing computes, and why."""
        found = {each.layers: str(each.attributes["reason"]) for each in graph.operators if each.kind is Kind.OTHER}
        nodes = self._nodes_by_layers
        return {nodes[layers]: reason for layers, reason in found.items() if layers in nodes}

    def _read(self, node: Node) -> None:
        if node in self._expressions.inner:
            return
        if node in self._expressions.stored:
            self._read_expression(node, self._expressions.stored[node])
        elif node in self._quantizations.computed:
            self._read_float(node, "its scales are computed, or belong to channels or blocks")
        elif node.computes == DEQUANTIZE:
            self._dequantize(node)
        elif node.computes == QUANTIZE:
            self._quantize(node)
        else:
            try:
                self._read_operator(node)
            except UnsupportedNodeError as fault:
                self._read_float(node, str(fault))

    def _read_operator(self, node: Node) -> None:
        if node in self._in_float:
            raise UnsupportedNodeError(self._in_float[node])
        if node.computes in PRODUCTS:
            self._products.read(node)
            return
        if self._words.read(node):
            return
        ending = self._fusion.layer_ending(node.outputs[0]) if node.computes in (*KERNELS, *SUMS) else None
        if ending is None or self._file.forms[ending.name][0] in WORDS:
            first = self._fusion.ending(node.outputs[0])
            is_read = (first is None or self._file.forms[first.name][0] in WORDS) and self._sums.read(node)
        else:
            is_read = any(read(node, ending) for read in (self._read_kernel, self._read_product, self._read_sum))
        if not is_read:
            self._read_other(node)

    # Quantization.

    def _dequantize(self, node: Node) -> None:
        name = self._values.carried(node.input(0))
        made = node.outputs[0]
        self._values.carrier[made] = name
        if made in self._file.outputs:
            self._values.by_name[made] = self._values.plain(made)
            self._emit(Kind.DEQUANTIZE, node, (), (name,), (made,))

    def _quantize(self, node: Node) -> None:
        source, made = self._values.by_name[self._values.carried(node.input(0))], node.outputs[0]
        quantization = self._quantizations.stored[made]
        element = self._file.forms[made][0]
        is_same = source.quantization is not None and source.type == element and same(source.quantization, quantization)
        if is_same and made not in self._file.outputs:
            self._values.carrier[made] = source.name
            return
        self._values.by_name[made] = output = self._values.plain(made)
        if source.type == "f32":
            self._emit(Kind.QUANTIZE, node, (), (source.name,), (made,))
        elif is_same:
            self._emit(Kind.RESHAPE, node, (), (source.name,), (made,))
        elif byte_fault(source, output) is None:
            self._emit(Kind.LOOKUP, node, (), (source.name,), (made,), {"table": requantized(source, output)})
        elif stored_fault(source) is None and stored_fault(output) is None:
            self._emit(Kind.QUANTIZE, node, (), (self._floats.number(node.input(0)),), (made,))
        else:
            self._other(node, (source.name,), (made,), "it must be between values of 8 or 16 bits with one scale each")

    def _read_expression(self, node: Node, expression: Expression) -> None:
        made = node.outputs[0]
        self._values.by_name[made] = self._values.plain(made)
        kind, attributes, inputs = expression_operator(expression.tree, self._values, made)
        first, *rest = expression.nodes
        self._emit(kind, first, rest, inputs, (made,), attributes)

    # Operators.

    def _read_kernel(self, node: Node, ending: Ending) -> bool:
        """Read a convolution or product of quantized data and weights; False if it is none."""
        weight = self._quantizations.constants.get(node.input(1))
        data = self._values.activation(node.input(0))
        if node.computes not in KERNELS or data is None or weight is None or weight.quantization is None:
            return False
        if node.computes == "MatMul" and (weight.array.ndim != 2 or len(data.shape) < 2):
            return False
        assert data.quantization is not None
        output = self._quantizations.stored[ending.name]
        elements = {"data": data.type, "weights": TYPES[weight.array.dtype], "output": self._file.forms[ending.name][0]}
        for role, element in elements.items():
            if element not in BYTES:
                raise UnsupportedNodeError(f"its {role} must be 8-bit integers: {element}")
        if data.quantization.per_channel or output.per_channel:
            raise UnsupportedNodeError("its data and output must have one scale each")
        form = kernel_form(self._file, node, data.shape, weight, has_frames=True)
        bias = self._bias(node, form, data.quantization) if node.input(2) else None
        clamp = self._fusion.clamp(ending)
        self._end(ending)
        links = layer_links(form, data, bias, ending.name, self._values)
        emit_links(links, node, ending, clamp, self._emit)
        return True

    def _bias(self, node: Node, form: KernelForm, data: Quantization) -> Constant:
        bias = self._quantizations.constants.get(node.input(2))
        assert form.weight.quantization is not None
        if bias is None:
            raise UnsupportedNodeError(f"its bias must be constant: {quoted(node.input(2))}")
        channels = form.weight.array.shape[0]
        return sum_bias(self._file, node, bias, data, form.weight.quantization, channels)

    def _read_product(self, node: Node, ending: Ending) -> bool:
        """Read a product of two quantized matrices; False if it is none."""
        matrices = matrices_of(node, self._values, self._values.plain(ending.name))
        if matrices is None:
            return False
        clamp = self._fusion.clamp(ending)
        self._end(ending)
        names = [value.name for value in matrices.inputs]
        made = ending.name
        self._emit(Kind.MATMUL, node, ending.activations, names, (made,), matrices.attributes, clamp=clamp)
        return True

    def _read_sum(self, node: Node, ending: Ending) -> bool:
        """Read an addition or product of two quantized values with the activations behind it; False if it is none."""
        if node.computes not in SUMS or len(node.inputs) != 2:
            return False
        values = [self._values.operand(name) for name in node.inputs]
        taken = [value for value in values if value is not None]
        if len(taken) != 2 or byte_fault(*taken, self._values.plain(ending.name)) is not None:
            return False
        names = [value.name for value in taken]
        if is_first_spread(taken[0].shape, taken[1].shape):
            names.reverse()  # as ONNX Runtime does
        clamp = self._fusion.clamp(ending)
        self._end(ending)
        self._emit(SUMS[node.computes], node, ending.activations, names, (ending.name,), clamp=clamp)
        return True

    def _read_other(self, node: Node) -> None:
        first = self._values.activation(node.input(0))
        outputs = {
            index: self._output(node, name, first)
            for index, name in enumerate(node.outputs)
            if name in self._file.forms  # otherwise nothing reads it
        }
        found = {index: self._found(node, index, name) for index, name in outputs.items()}
        reasons = [each for each in found.values() if isinstance(each, str)]
        if len(outputs) > 1 and node.computes != "Split":
            reasons.append("it makes several values")
        if reasons:
            self._forget(node)
            raise UnsupportedNodeError(reasons[0])
        for index, each in found.items():
            if isinstance(each, Found):
                self._read_found(node, each, outputs[index])
        for index, name in outputs.items():
            made = node.outputs[index]
            if self._values.by_name[name].type in BYTES and made in self._file.outputs and made != name:
                self._emit(Kind.DEQUANTIZE, node, (), (name,), (made,), layers=(made,))

    def _read_float(self, node: Node, reason: str) -> None:
        """Read a node that no integer kernel computes, for the reason."""
        try:
            self._floats.read(node, reason)
        except UnsupportedNodeError as fault:
            self._leave_out(node, str(fault))

    def _forget(self, node: Node) -> None:
        """Undo what `_output` made of a node's outputs."""
        for name in node.outputs:
            ending = self._fusion.ending(name)
            for each in (name, *((ending.name, *ending.copies) if ending else ())):
                self._values.by_name.pop(self._values.carrier.pop(each, each), None)
                self._values.by_name.pop(each, None)
            self._computed.difference_update(ending.nodes if ending else ())

    def _output(self, node: Node, name: str, source: Value | None) -> str:
        """The value that a node's output is."""
        ending = self._fusion.ending(name)
        if ending is not None and self._moved_numbers(node) is None:
            self._end(ending)
            return ending.name
        passed = self._passed(node, name, source)
        self._values.by_name[name] = self._values.plain(name)
        if passed is None:
            return name
        if name in self._file.outputs and self._values.by_name[name].type == "f32":
            # The model gives numbers: they are computed as stored values first.
            self._values.carrier[name] = self._values.unused(f"{name}/stored")
            name = self._values.carrier[name]
        self._values.by_name[name] = replace(passed, name=name)
        return name

    def _found(self, node: Node, index: int, name: str) -> Found | str:
        """What kind of operator makes an output, or why none does."""
        inputs, output = tuple(self._values.operand(each) for each in node.inputs), self._values.by_name[name]
        constants = self._quantizations.constants
        if node.computes == "Add":
            return "its summands must be quantized"
        if node.computes in KERNELS:
            return kernel_reason(node, self._values.activation(node.input(0)), constants.get(node.input(1)))
        if node.computes not in READ:
            return refusal(node, "no kernel computes it")
        numbers = self._moved_numbers(node)
        if numbers is not None:
            return kind_of(Step(self._file, node, (numbers,), output, index, constants))
        if not inputs or inputs[0] is None:
            return "its input is not quantized"
        is_raw = self._is_raw(node, node.outputs[index])
        step = Step(self._file, node, inputs, output, index, constants, is_raw)
        stored = (inputs[0],) if node.computes in PLACES else (inputs[0], output)
        return byte_fault(*stored) or kind_of(step)

    def _moved_numbers(self, node: Node) -> Value | None:
        """The numbers that a node moves, before they are quantized; None where it does something else."""
        value = self._values.by_name.get(self._values.carried(node.input(0)))
        if node.computes not in MOVES_NUMBERS or value is None or value.constant is not None:
            return None
        return value if value.type == "f32" and value.quantization is None else None

    def _read_found(self, node: Node, found: Found, made: str) -> None:
        """Emit an operator; where a node that only moves values has another scale behind it, they get that first."""
        inputs = [self._values.operand(name) for name in node.inputs[: found.inputs]]
        taken, output = [value for value in inputs if value is not None], self._values.by_name[made]
        numbers = self._moved_numbers(node)
        if numbers is not None:
            self._emit_found(found, node, [numbers], made)
            return
        only_moves = found.kind in MOVING or found.attributes.get("method") == "nearest"
        if only_moves and not (self._is_raw(node, node.outputs[0]) or is_same_quantization(taken[0], output)):
            name = self._values.unused(f"{made}/requantized")
            self._values.by_name[name] = replace(output, name=name, shape=taken[0].shape)
            table = {"table": requantized(taken[0], output)}
            self._emit(Kind.LOOKUP, node, (), (taken[0].name,), (name,), table, (name,))
            taken[0] = self._values.by_name[name]
        self._emit_found(found, node, taken, made)

    def _emit_found(self, found: Found, node: Node, taken: list[Value], made: str) -> None:
        """Emit an operator between reshapes, where its data or output has another shape for it."""
        layers = (made,) if node.computes == "Split" else None
        names, output = [value.name for value in taken], self._values.by_name[made]
        if found.taken not in (None, taken[0].shape):
            names[0] = self._values.like(taken[0], f"{made}/taken", found.taken or ())
            self._emit(Kind.RESHAPE, node, (), (taken[0].name,), (names[0],), layers=(names[0],))
        if found.made in (None, output.shape):
            self._emit(found.kind, node, (), names, (made,), found.attributes, layers)
            return
        middle = self._values.like(output, f"{made}/made", found.made or ())
        self._emit(found.kind, node, (), names, (middle,), found.attributes, layers)
        self._emit(Kind.RESHAPE, node, (), (middle,), (made,), layers=(made,))

    def _passed(self, node: Node, name: str, source: Value | None) -> Value | None:
        """The quantized value that an output is, if it is made of quantized ones as they are.

        It is a float in the file, or has stored values but no scale there.
        """
        if source is None or source.quantization is None or source.quantization.per_channel:
            return None
        if node.computes == "Concat" and not have_one_scale(map(self._values.operand, node.inputs)):
            return None
        element, shape = self._file.forms[name]
        if self._is_raw(node, name):
            is_same = node.computes in PASSING_STORED and name not in self._quantizations.stored
        else:
            is_same = node.computes in PASSING and element == "f32"
        return replace(source, name=name, shape=shape) if is_same else None

    def _is_raw(self, node: Node, name: str) -> bool:
        """Whether a node takes stored values and makes them, without scales in between."""
        elements = self._file.forms[node.input(0)][0] if node.input(0) else "", self._file.forms[name][0]
        return elements[0] == elements[1] and elements[0] in BYTES

    def _end(self, ending: Ending) -> None:
        self._computed.update(ending.nodes)
        self._values.by_name[ending.name] = self._values.plain(ending.name)
        self._values.carrier.update(dict.fromkeys(ending.copies, ending.name))

    def _emit(
        self,
        kind: Kind,
        node: Node,
        activations: Iterable[Node],
        inputs: Iterable[str],
        outputs: Iterable[str],
        attributes: Mapping[str, Any] | None = None,
        layers: tuple[str, ...] | None = None,
        clamp: tuple[int, int] | None = None,
    ) -> Operator:
        """Add an operator, called like its nodes if `layers` does not say otherwise."""
        # Names of nodes need not be distinct; those of values are.
        called = layers or tuple(
            name
            for each in (node, *activations)
            for name in (
                each.name if each.name not in self._layer_names else each.outputs[0],
                *(part for part in self._file.folded.get(each.name, ()) if part not in self._layer_names),
            )
        )
        self._layer_names.update(called)
        made = Operator(kind, called, node.operator, tuple(inputs), tuple(outputs), "float", clamp, attributes or {})
        self._operators.append(made)
        self._nodes_by_layers[called] = node
        return made

    def _leave_out(self, node: Node, reason: str) -> None:
        made = [name for name in node.outputs if name in self._file.forms]
        self._values.by_name.update((name, self._values.plain(name)) for name in made)
        self._other(node, [self._values.taken(name) for name in node.inputs if name], made, reason)

    def _other(self, node: Node, inputs: Iterable[str], outputs: Iterable[str], reason: str) -> None:
        self._emit(Kind.OTHER, node, (), inputs, outputs, {"reason": reason})
