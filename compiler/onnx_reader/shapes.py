"""Types and shapes of an ONNX model's values, as onnx infers them."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from int8tune.compiler.errors import ModelError, OpenEndError, OpenShapeError
from int8tune.compiler.graph import ElementType
from int8tune.compiler.onnx_reader.ends import ends_before
from int8tune.compiler.onnx_reader.folding import folded
from int8tune.compiler.onnx_reader.group_query_sizes import (
    forms_of_attention,
    is_group_query,
    rooms_of,
    stand_ins,
)
from int8tune.compiler.onnx_reader.nodes import (
    MICROSOFT,
    Node,
    UnsupportedNodeError,
    is_of_microsoft,
    model_fault,
    node_fault,
    quoted,
)
from int8tune.compiler.onnx_reader.tensors import ELEMENTS, TYPES, Array, unsupported_type
from int8tune.results.text import clipped, printable

MAX_VALUES, MAX_AXES = 1 << 31, 8
# Inference reads no longer constant, such as the new shape of a Reshape.
MAX_READ = 1024
# Of values at which a model may be ended, where its end has no known shapes.
MAX_ENDS = 16
# Kinds of operators of other domains that a message names.
MAX_STRANGERS = 8

_FILE_VERSION = 10
_SHAPE_KEEPING = {
    **dict.fromkeys(("", "ai.onnx"), ("GroupNormalization", "MeanVarianceNormalization")),
    MICROSOFT: ("Gelu", "FastGelu", "BiasGelu", "RotaryEmbedding"),
}

# Of ONNX Runtime's, integers of 16 bits in the place of MatMulInteger's of 8.
WORD_PRODUCT = "MatMulInteger16"
_INT32 = 6

# Whose operators are known by name, or are what a model's own functions were before they were put in their place.
_DOMAINS = ("", "ai.onnx", MICROSOFT)

Form = tuple[ElementType, tuple[int, ...]]


def forms_of(
    model: Any, nodes: Sequence[Node], constants: Mapping[str, Array], opset: int, name: str
) -> tuple[dict[str, Form], dict[str, Array]]:
    """Type and shape of every value that is read, and of each node's first output; and constants with what follows.

    `model` is the file's; `nodes` are in order. A batch without a size is one of 1.

    Raises:
        ModelError: a form can't be inferred, has another unknown extent, or is not supported.
    """
    inputs = {info.name: _input_form(info, name) for info in model.graph.input if info.name not in constants}
    _require_bounded(inputs, name)
    outputs = [info.name for info in model.graph.output]
    known, attention = dict(constants), [node for node in nodes if is_group_query(node)]
    own, rooms = dict[str, Form](), rooms_of(model.graph)
    while True:
        forms = {label: (TYPES[array.dtype], array.shape) for label, array in known.items()} | own | inputs
        inferred = _infer(model, nodes, known, forms, opset, name)
        found = {label: form for label, type_ in inferred.items() if (form := _form(type_)) is not None}
        before, known = known, folded(nodes, known, found | forms, outputs, opset)
        # Onnx infers no more where all is known, and does not compute all shapes that it could.
        if not attention and all(node.outputs[0] in found | forms for node in nodes):
            break
        is_settled, further = len(known) == len(before), len(own)
        for node in attention:
            try:
                own |= forms_of_attention(node, found | forms, known, rooms, is_settled)
            except UnsupportedNodeError as fault:
                raise node_fault(name, node, str(fault)) from None
        if is_settled and len(own) == further:
            break
    read = {label for node in nodes for label in node.inputs} | set(outputs)
    for node in nodes:
        for index, label in enumerate(node.outputs):
            if label and (index == 0 or label in read) and label not in forms:
                form = _checked(inferred.get(label), node, label, name)
                if form is None:
                    known_forms = found.keys() | forms.keys()
                    ends = ends_before(model.graph, known_forms, known)
                    is_strange = _strangers(each for each in nodes if each.outputs[0] not in known_forms)
                    raise _open_end(name, node, label, ends, is_strange and _strangers(nodes))
                forms[label] = form
    _require_bounded(forms, name)
    return forms, known


def _require_bounded(forms: Mapping[str, Form], model: str) -> None:
    for label, (_, shape) in forms.items():
        if len(shape) > MAX_AXES:
            raise model_fault(model, f"{quoted(label)} must have at most {MAX_AXES} axes: {len(shape)}")
        if math.prod(shape) > MAX_VALUES:
            raise model_fault(model, f"{quoted(label)} of shape {list(shape)} has over {MAX_VALUES} values")


def _input_form(info: Any, model: str) -> Form:
    what = f"the model's input {quoted(info.name)}"
    if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
        raise model_fault(model, f"{what} has no shape")
    tensor = info.type.tensor_type
    if tensor.elem_type not in ELEMENTS:
        raise unsupported_type(model, what, tensor.elem_type)
    shape = []
    for axis, extent in enumerate(tensor.shape.dim):
        known = extent.HasField("dim_value")
        if not known and axis > 0:
            form = "x".join(str(each.dim_value) if each.HasField("dim_value") else "N" for each in tensor.shape.dim)
            how = f"give its shape, --shape {info.name}={form} with numbers for N"
            open_extent = f"{extent.dim_param or '?'} of axis {axis}"
            raise OpenShapeError(printable(f"{model}: {what} has an unknown extent, {open_extent}: {how}"))
        if known and extent.dim_value < 1:
            raise model_fault(model, f"{what} has an extent that is not positive: {extent.dim_value}")
        shape.append(extent.dim_value if known else 1)
    return ELEMENTS[tensor.elem_type], tuple(shape)


def _infer(
    model: Any, nodes: Sequence[Node], constants: Mapping[str, Array], forms: Mapping[str, Form], opset: int, name: str
) -> dict[str, Any]:
    """What onnx says of each value: on a model without long constants, and without what the file says itself.

    Only of operators that onnx does not know, the file's word is taken.
    """
    import onnx

    graph = onnx.GraphProto(name="g")
    for node in nodes:
        if node.outputs[0] not in forms:
            graph.node.extend(_stand_ins(node))
    numbers = {type_: number for number, type_ in ELEMENTS.items()}
    for label, (type_, shape) in forms.items():
        if label in constants and constants[label].size <= MAX_READ:
            graph.initializer.append(onnx.numpy_helper.from_array(constants[label], label))
        else:
            graph.input.append(onnx.helper.make_tensor_value_info(label, numbers[type_], shape))
    foreign = {label for node in nodes if node.proto.domain and not is_group_query(node) for label in node.outputs}
    graph.value_info.extend(info for info in model.graph.value_info if info.name in foreign)
    graph.output.extend(
        info if info.name in foreign else onnx.ValueInfoProto(name=info.name) for info in model.graph.output
    )
    imports = [entry for entry in model.opset_import if entry.domain not in ("", "ai.onnx")]
    imports.append(onnx.helper.make_opsetid("", opset))
    stripped = onnx.helper.make_model(graph, ir_version=_FILE_VERSION, opset_imports=imports)
    try:
        inferred = onnx.shape_inference.infer_shapes(stripped, data_prop=True).graph
    except Exception as error:  # of C++, which has several kinds of it
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise model_fault(name, _strangers(nodes) or f"onnx can't infer shapes: {first_line[:200]}") from None
    return {info.name: info.type for info in (*inferred.value_info, *inferred.output)}


def _stand_ins(node: Node) -> list[Any]:
    """What inference sees of a node: of one that keeps its input's shape, and that it knows none of, an Identity."""
    import onnx

    if is_group_query(node):
        return stand_ins(node)
    if is_of_microsoft(node, (WORD_PRODUCT,)):
        casts = [
            onnx.helper.make_node("Cast", [name], [f"{node.outputs[0]}/wide {at}"], to=_INT32)
            for at, name in enumerate(node.inputs)
        ]
        wide = [each.output[0] for each in casts]
        return [*casts, onnx.helper.make_node("MatMul", wide, node.outputs[:1])]
    if node.computes in _SHAPE_KEEPING.get(node.proto.domain, ()):
        return [onnx.helper.make_node("Identity", node.inputs[:1], node.outputs[:1])]
    if node.computes == "STFT" and "onesided" not in node.attributes:  # whose default onnx's inference has wrong
        proto = onnx.NodeProto.FromString(node.proto.SerializeToString())
        proto.attribute.append(onnx.helper.make_attribute("onesided", 1))
        return [proto]
    return [node.proto]


def _form(type_: Any) -> Form | None:
    """A form that is known whole; None for others."""
    if not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
        return None
    extents = type_.tensor_type.shape.dim
    if type_.tensor_type.elem_type not in ELEMENTS or not all(extent.HasField("dim_value") for extent in extents):
        return None
    shape = tuple(extent.dim_value for extent in extents)
    return (ELEMENTS[type_.tensor_type.elem_type], shape) if min(shape, default=0) >= 0 else None


def _checked(type_: Any, node: Node, label: str, model: str) -> Form | None:
    """The form of what a node makes, None where it can't be inferred; of an unsupported type, an error."""
    if type_ is None:
        return None
    tensor = type_.tensor_type if type_.HasField("tensor_type") else None
    if tensor is not None and tensor.HasField("shape") and tensor.elem_type not in ELEMENTS:
        raise unsupported_type(model, f"the output {quoted(label)} of node {quoted(node.name)}", tensor.elem_type)
    return _form(type_)


def _strangers(nodes: Iterable[Node]) -> str:
    """What a model has of operators that neither ONNX nor ONNX Runtime defines; empty if it has none."""
    counts = Counter((node.operator, node.proto.domain) for node in nodes if node.proto.domain not in _DOMAINS)
    listed = [f"{count} {clipped(operator)} of {quoted(domain)}" for (operator, domain), count in counts.most_common()]
    more = [f"{len(listed) - MAX_STRANGERS} kinds more"] if len(listed) > MAX_STRANGERS else []
    what = "it has operators that neither ONNX nor ONNX Runtime defines"
    return f"{what}: {', '.join([*listed[:MAX_STRANGERS], *more])}" if listed else ""


def _open_end(model: str, node: Node, label: str, ends: Sequence[str], strangers: str) -> ModelError:
    what = f"the shape of its output {quoted(label)} can't be inferred"
    fault = model_fault(model, strangers) if strangers else node_fault(model, node, what)
    if not 0 < len(ends) <= MAX_ENDS:
        return fault
    how = " ".join(f"--until {shlex.quote(end)}" for end in ends)
    return OpenEndError(printable(f"{fault}; what comes before it may be taken alone: {how}"))
