"""ONNX files that somebody else wrote: their nodes in an order that can run, constants, types and shapes.

Nothing of a file is trusted: what `load` returns has been checked, so that other modules need not.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import ElementType
from int8tune.compiler.onnx_reader.blocked import GATHER, PRODUCTS, gather_nodes, product_nodes
from int8tune.compiler.onnx_reader.channel_scales import with_scales_moved
from int8tune.compiler.onnx_reader.detached import without_large
from int8tune.compiler.onnx_reader.dynamic import FUSED, LSTM, unfused, unfused_lstm
from int8tune.compiler.onnx_reader.early_steps import with_early_steps
from int8tune.compiler.onnx_reader.functions import with_functions_inlined
from int8tune.compiler.onnx_reader.half_scales import HalfScales
from int8tune.compiler.onnx_reader.halves import with_floats
from int8tune.compiler.onnx_reader.idle import without_idle
from int8tune.compiler.onnx_reader.inner_graphs import InnerGraphs
from int8tune.compiler.onnx_reader.integer_numbers import with_sums_as_numbers
from int8tune.compiler.onnx_reader.narrow import narrow_names, with_clips
from int8tune.compiler.onnx_reader.nodes import (
    MICROSOFT,
    RECURRENT,
    Node,
    in_order,
    is_of_microsoft,
    model_fault,
    node_fault,
    quoted,
)
from int8tune.compiler.onnx_reader.qlinear import float_nodes
from int8tune.compiler.onnx_reader.shapes import Form, forms_of
from int8tune.compiler.onnx_reader.stored_tables import with_stored_tables
from int8tune.compiler.onnx_reader.tensors import TYPES, Array, array_of, array_of_bytes, constant_of
from int8tune.compiler.onnx_reader.transformers import is_fused, unfused_transformer
from int8tune.compiler.onnx_reader.transposed_pads import with_pads
from int8tune.results.folded_names import FOLDED_KEY, folded_of

# QuantizeLinear is as old as 10; 28 is the newest that onnx 1.23 knows.
OLDEST_OPSET, NEWEST_OPSET = 10, 28
# 1 is that of the first files, which had no versions of operators yet.
OLDEST_FILE_VERSION = 3
# At the top of a damaged file, where its damage is looked for.
MAX_FIELDS = 1000

_STANDARD_DOMAINS = ("", "ai.onnx")
# ONNX Runtime's own operators, whose shapes onnx can't infer.
# Types of attributes.
_FLOAT, _INT, _STRING, _GRAPH, _INTS, _GRAPHS = 1, 2, 3, 5, 7, 10
# Tags of the fields that a ModelProto has at its top.
_TAGS = (0x08, 0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72, 0xA2, 0xCA)


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """What a file says.

    Attributes:
        opset: the version of ONNX's operators.
        nodes: in an order in which they can run. QLinear nodes are float ones between DequantizeLinear and
            QuantizeLinear.
        constants: initializers, and what nodes make of these alone.
        forms: type and shape of each value that a node reads, and of each node's first output.
        bounds: of the stored values that a QuantizeLinear makes, where they are narrower than those of the type.
        folded: operators of the float model that a node computes, too, by its name.
    """

    name: str
    opset: int
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    forms: Mapping[str, tuple[ElementType, tuple[int, ...]]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    folded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def load(data: bytes, name: str) -> OnnxFile:
    """The contents of an ONNX file; `name` is the file's in messages.

    Raises:
        ModelError: the file is damaged, or has something that is not supported.
    """
    model, large = _decoded_without_large(data, name)
    refuse_unprintable(model, name)
    opset = _opset(model, name)
    with_functions_inlined(model, opset, name)
    graphs = InnerGraphs(model.graph, opset, partial(_known_of, model, opset, name))
    graphs.write()
    refuse_unprintable(model, name)
    constants: dict[str, Array] = {}
    for index, tensor in enumerate(model.graph.initializer):
        if tensor.name in constants:
            raise model_fault(name, f"two initializers have one name: {quoted(tensor.name)}")
        found = array_of_bytes(tensor, large[index]) if index in large else None
        if found is None:
            found = array_of(_whole(tensor, large.get(index)), tensor.name, name)
        constants[tensor.name] = found
    narrow = narrow_names(model)
    folded = folded_of(next((entry.value for entry in model.metadata_props if entry.key == FOLDED_KEY), ""))
    model = _without_initializers(model)
    inputs = tuple(info.name for info in model.graph.input if info.name not in constants)
    if len(set(inputs)) < len(inputs):
        raise model_fault(name, "two inputs of the model have one name")
    nodes: list[Node] = []
    ranks = {info.name: len(info.type.tensor_type.shape.dim) for info in (*model.graph.input, *model.graph.value_info)}
    for proto in model.graph.node:
        node = _node(proto, name)
        if is_of_microsoft(node, PRODUCTS):
            nodes.extend(product_nodes(node, constants, name))
        elif is_of_microsoft(node, (GATHER,)):
            nodes.extend(gather_nodes(node, constants, node.input(0) not in narrow, name))
        elif is_of_microsoft(node, FUSED):
            nodes.extend(unfused(node))
        elif is_of_microsoft(node, (LSTM,)):
            nodes.extend(unfused_lstm(node, constants, name))
        elif is_fused(node, opset):
            nodes.extend(unfused_transformer(node, constants, ranks, opset))
        elif node.operator != "Constant":
            nodes.extend(float_nodes(node, constants, opset, name))
        elif node.outputs[0] in constants:
            raise node_fault(name, node, f"it makes {quoted(node.outputs[0])}, which something else makes, too")
        else:
            constants[node.outputs[0]] = constant_of(proto, node, name)
    outputs = tuple(info.name for info in model.graph.output)
    ordered = in_order(nodes, (*inputs, *constants), outputs, name)
    ordered = with_floats(ordered, constants, model.graph)
    halves = HalfScales(constants, opset)
    ordered = with_scales_moved(halves.replaced(ordered), constants)
    ordered = with_stored_tables(ordered, constants, narrow)
    ordered = with_early_steps(ordered, constants, outputs)
    ordered, bounds = with_clips(ordered, constants, narrow, outputs, name)
    forms, known = forms_of(model, ordered, constants, opset, name)
    halves.require_halves(forms, name)
    graphs.require_one_form(forms, name)
    ordered, forms = with_sums_as_numbers(with_pads(without_idle(ordered, forms, outputs), forms), forms, known)
    return OnnxFile(name, opset, ordered, known, forms, inputs, outputs, bounds, folded)


def _known_of(model: Any, opset: int, name: str, protos: Sequence[Any], label: str) -> tuple[Form | None, Array | None]:
    """The form of a value that some nodes make, and what it is where it is known; None of what is not."""
    makers = {made: proto for proto in protos for made in proto.output}
    needed, open_ = dict[int, Any](), [label]
    while open_:
        proto = makers.get(open_.pop())
        if proto is not None and id(proto) not in needed:
            needed[id(proto)] = proto
            open_ += proto.input
    read = {each for proto in needed.values() for each in proto.input} | {label}
    thin = type(model)()
    thin.opset_import.extend(model.opset_import)
    thin.graph.input.extend(model.graph.input)
    thin.graph.value_info.extend(model.graph.value_info)
    try:
        constants = {
            each.name: array_of(each, each.name, name) for each in model.graph.initializer if each.name in read
        }
        nodes = []
        for proto in (each for each in protos if id(each) in needed):
            node = _node(type(proto).FromString(proto.SerializeToString()), name)
            if node.operator == "Constant":
                constants[node.outputs[0]] = constant_of(proto, node, name)
            else:
                nodes += float_nodes(node, constants, opset, name)
        forms, known = forms_of(thin, tuple(nodes), constants, opset, name)
    except ModelError:
        return None, None
    array = known.get(label)
    form = forms.get(label)
    if array is not None:
        form = TYPES[array.dtype], array.shape
    return form, array


def decoded(data: bytes, name: str) -> Any:
    try:
        import onnx
    except ImportError:
        raise model_fault(name, "ONNX models are read with onnx: pip install 'int8tune[models]'") from None
    if not data:
        raise model_fault(name, "the file is empty (0 bytes)")
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception:  # of protobuf, which has several kinds of it
        raise model_fault(name, _damage(data)) from None
    if not model.HasField("graph") or not model.graph.node:
        raise model_fault(name, "no ONNX file, or a truncated one: it has no graph with nodes")
    _leave_open(model.graph)
    return model


def _decoded_without_large(data: bytes, name: str) -> tuple[Any, Mapping[int, memoryview]]:
    """A model without the values of large initializers, and these; all of one that has graphs within its nodes."""
    short, large = without_large(data)
    if large:
        model = decoded(short, name)
        if not any(attribute.type in (_GRAPH, _GRAPHS) for node in model.graph.node for attribute in node.attribute):
            return model, large
    return decoded(data, name), {}


def _whole(tensor: Any, values: memoryview | None) -> Any:
    """An initializer with its values."""
    if values is None:
        return tensor
    whole = type(tensor)()
    whole.CopyFrom(tensor)
    whole.raw_data = bytes(values)
    return whole


def _leave_open(graph: Any) -> None:
    """Some writers have -1 for an extent that is not known."""
    for extent in extents_of(graph):
        if extent.HasField("dim_value") and extent.dim_value == -1:
            extent.Clear()


def extents_of(graph: Any) -> Iterator[Any]:
    """Every extent of a tensor that a graph says the shape of."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield from info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ()


def _damage(data: bytes) -> str:
    """Why bytes are no ONNX file: they begin with something else, or end within one of its fields."""
    position = 0
    for _ in range(MAX_FIELDS):
        if position >= len(data):
            break
        tag, start = _varint(data, position)
        if tag not in _TAGS:
            return "damaged" if position else f"not an ONNX file, it begins with {data[:4].hex(' ')}"
        length, position = _varint(data, start)
        position += length if tag & 7 == 2 else 0
    if position > len(data):
        return f"truncated, it must have at least {position} bytes: {len(data)}"
    return "damaged, its graph can't be read"


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number of protobuf and the position behind it; beyond the data are zeros."""
    value = shift = 0
    while True:
        byte = data[position] if position < len(data) else 0
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80 or shift > 63:
            return value, position


def _opset(model: Any, name: str) -> int:
    """The version of ONNX's operators in a model whose parts are all supported."""
    import onnx

    newest = onnx.IR_VERSION
    if not OLDEST_FILE_VERSION <= model.ir_version <= newest:
        allowed = f"{OLDEST_FILE_VERSION} to {newest}"
        raise model_fault(name, f"the file's IR version must be {allowed}: {model.ir_version}")
    # A file may name the domain by both of its names.
    versions = sorted({entry.version for entry in model.opset_import if entry.domain in _STANDARD_DOMAINS})
    if len(versions) != 1:
        raise model_fault(name, f"a model must name one version of ONNX's operators: {versions[:5]}")
    if not OLDEST_OPSET <= versions[0] <= NEWEST_OPSET:
        raise model_fault(name, f"the operator set must be {OLDEST_OPSET} to {NEWEST_OPSET}: {versions[0]}")
    if model.graph.sparse_initializer:
        raise model_fault(name, "sparse initializers are not supported")
    version: int = versions[0]
    return version


def _without_initializers(model: Any) -> Any:
    """A copy of a model that has been read but for its nodes, which keep alive all of the model that they are from."""
    del model.graph.initializer[:]
    return type(model).FromString(model.SerializeToString())


def _node(proto: Any, model: str) -> Node:
    operator = proto.op_type
    if operator in RECURRENT and proto.output and not proto.output[0]:
        proto.output[0] = f"{next(filter(None, proto.output), '')}/every step"
    outputs = tuple(proto.output)
    # What another domain calls `Relu` may be anything.
    computes = operator if proto.domain in (*_STANDARD_DOMAINS, MICROSOFT) else f"{proto.domain}.{operator}"
    node = Node(proto.name or next(filter(None, outputs), ""), operator, computes, tuple(proto.input), outputs)
    if not outputs or not outputs[0]:
        raise node_fault(model, node, "it must make a value")
    if any(attribute.type in (_GRAPH, _GRAPHS) for attribute in proto.attribute):
        raise node_fault(model, node, "graphs within a node are not supported")
    if proto.domain in _STANDARD_DOMAINS and (fault := _type_fault(proto)):
        raise node_fault(model, node, fault)
    if operator in ("QuantizeLinear", "DequantizeLinear") and proto.domain == MICROSOFT:
        proto.domain = ""  # the same, and onnx infers its shape
    return replace(node, attributes=dict(_attributes(proto)), proto=proto)


def _type_fault(proto: Any) -> str:
    """What is wrong with the type of a node's attribute, as ONNX's operators have it in any version; empty of none."""
    for attribute in proto.attribute:
        known = _attribute_types().get((proto.op_type, attribute.name), frozenset())
        if known and attribute.type not in known:
            return f"its attribute {quoted(attribute.name)} has another type than ONNX says"
    return ""


@functools.cache
def _attribute_types() -> dict[tuple[str, str], frozenset[int]]:
    """The types of the attributes of ONNX's operators, by their names, of all versions."""
    import onnx

    found: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        for name, attribute in schema.attributes.items() if not schema.domain else ():
            found.setdefault((schema.name, name), set()).add(attribute.type.value)  # type: ignore[attr-defined]
    return {key: frozenset(types) for key, types in found.items()}


def _texts(model: Any) -> Iterator[object]:
    """Every name that is read; those that are not UTF-8 are bytes."""
    yield from _texts_of_graph(model.graph)
    yield from (entry.name for entry in model.functions)
    yield from (entry.domain for entry in model.opset_import)


def _texts_of_graph(graph: Any) -> Iterator[object]:
    """Those of a graph, and of graphs within its nodes."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("g"):
                yield from _texts_of_graph(attribute.g)
    named = (graph.initializer, graph.input, graph.output, graph.value_info)
    yield from (entry.name for entries in named for entry in entries)


def refuse_unprintable(model: Any, name: str) -> None:
    """Names end up in messages and tables."""
    for text in _texts(model):
        if not isinstance(text, str) or not text.isprintable():
            shown = text if isinstance(text, str) else repr(text)
            raise model_fault(name, f"a name has characters that can't be printed: {quoted(shown)}")


def _attributes(proto: Any) -> Iterator[tuple[str, Any]]:
    """Numbers, lists of integers and texts: what of attributes is read."""
    for attribute in proto.attribute:
        if attribute.type == _INT:
            yield attribute.name, attribute.i
        elif attribute.type == _INTS:
            yield attribute.name, tuple(attribute.ints)
        elif attribute.type == _FLOAT:
            yield attribute.name, attribute.f
        elif attribute.type == _STRING:
            yield attribute.name, attribute.s.decode("utf-8", "replace")
