"""Functions in the place of the nodes that call them: those of a model, and ONNX's own bodies of some operators.

The bodies are those by which ONNX defines its newer operators, such as Attention; some depend on the types of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from int8tune.compiler.onnx_reader.nodes import model_fault, quoted
from int8tune.compiler.reasons import reason_of
from int8tune.results.text import clipped

# Operators that are what ONNX says that they are made of.
WRITTEN_BY_ONNX = ("Attention", "CausalConvWithState", "CenterCropPad", "SwiGLU")
_STANDARD_DOMAINS = ("", "ai.onnx")
# A small file could have functions that call each other twice, and so on.
MOST_NODES, MOST_DEPTH = 100_000, 64
_MOST_WRITTEN = 1000
# Longer constants are inputs for onnx, which copies what it is given.
_MOST_BYTES = 1 << 12

Function = tuple[str, str]


def with_functions_inlined(model: Any, opset: int, name: str) -> None:
    """Replace the nodes of a model that call functions.

    Raises:
        ModelError: its functions call themselves, or make too many nodes.
    """
    if model.functions:
        _refuse_endless(model, {(each.domain, each.name): each for each in model.functions}, name)
        _inline_own(model, name)
    found = [node for node in model.graph.node if _is_written(node)]
    if 0 < len(found) <= _MOST_WRITTEN:
        types = _types(model)
        nodes = [
            made for at, node in enumerate(model.graph.node) for made in _written(node, types, opset, at) or [node]
        ]
        copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(copies)


def _refuse_endless(model: Any, functions: Mapping[Function, Any], name: str) -> None:
    """Raise where functions make too many nodes, or call each other for ever."""
    sizes: dict[Function, int] = {}

    def size(nodes: Iterable[Any], depth: int) -> int:
        if depth > MOST_DEPTH:
            raise model_fault(name, f"its functions call each other more than {MOST_DEPTH} deep")
        total = 0
        for node in nodes:
            key = node.domain, node.op_type
            if key in functions and key not in sizes:
                sizes[key] = size(functions[key].node, depth + 1)
            total += sizes.get(key, 1)
            if total > MOST_NODES:
                raise model_fault(name, f"its functions make more than {MOST_NODES:,} nodes")
        return total

    size(model.graph.node, 0)


def _inline_own(model: Any, name: str) -> None:
    from onnx import inliner

    functions = [(each.domain, each.name) for each in model.functions]
    try:
        made = inliner.inline_local_functions(_without_weights(model))
    except Exception as error:  # of C++, which has several kinds of it
        what = f"{quoted(functions[0][1])} and its other functions can't be inlined: {clipped(reason_of(error))}"
        raise model_fault(name, what) from None
    del model.graph.node[:], model.functions[:]
    model.graph.node.extend(made.graph.node)


def _is_written(node: Any) -> bool:
    """Whether a node is one that stands for others: of LayerNormalization, which has kernels, one that says more."""
    if node.domain not in _STANDARD_DOMAINS:
        return False
    return node.op_type in WRITTEN_BY_ONNX or (node.op_type == "LayerNormalization" and len(node.output) > 1)


def _types(model: Any) -> dict[str, Any]:
    """The types of values, as far as onnx infers them."""
    import onnx

    thin = _without_weights(model)
    try:
        thin = onnx.shape_inference.infer_shapes(thin, data_prop=True)
    except Exception:  # of what is wrong with the model it is told where it is read
        return {}
    infos = (*thin.graph.input, *thin.graph.value_info, *thin.graph.output)
    found = {info.name: info.type for info in infos}
    for tensor in thin.graph.initializer:
        found[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return found


def _written(node: Any, types: Mapping[str, Any], opset: int, place: int) -> list[Any]:
    """What ONNX says that a node is made of; nothing if it says nothing, or has graphs within."""
    import onnx

    if not _is_written(node):
        return []
    taken = [types.get(name) if name else onnx.TypeProto() for name in node.input]
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
        body = _body(schema, node, taken, opset)
    except Exception:  # of C++, which has several kinds of it
        return []
    if body is None or any(each.HasField("g") or each.graphs for part in body.node for each in part.attribute):
        return []
    given = {each.name: each for each in node.attribute}
    given |= {
        key: at.default_value for key, at in schema.attributes.items() if key not in given and at.default_value.name
    }
    names = dict.fromkeys(body.input, "") | dict(zip(body.input, node.input, strict=False))
    names |= {inner: outer for inner, outer in zip(body.output, node.output, strict=False) if outer}
    prefix = f"{node.output[0]}/{node.op_type} {place}"
    return [_renamed(part, names, given, prefix) for part in body.node]


def _body(schema: Any, node: Any, taken: Sequence[Any], opset: int) -> Any:
    """The FunctionProto of an operator, of the newest version that the model may have."""
    import onnx

    versions = [each for each in schema.context_dependent_function_opset_versions if each <= opset]
    if versions and None not in taken:
        types = [each.SerializeToString() for each in taken]
        data = schema.get_context_dependent_function_with_opset_version(max(versions), node.SerializeToString(), types)
        return onnx.FunctionProto.FromString(data)
    versions = [each for each in schema.function_opset_versions if each <= opset]
    data = schema.get_function_with_opset_version(max(versions)) if versions else b""
    return onnx.FunctionProto.FromString(data) if data else None


def _renamed(part: Any, names: dict[str, str], given: Mapping[str, Any], prefix: str) -> Any:
    """A node of a body, with the names that its values have in the model, and the attributes of the node itself."""
    import onnx

    made = onnx.NodeProto(op_type=part.op_type, domain=part.domain)
    made.input.extend(names.get(name, name) for name in part.input)
    for name in part.output:
        if name and name not in names:
            names[name] = f"{prefix}/{name}"
        made.output.append(names[name] if name else "")
    for attribute in part.attribute:
        if not attribute.ref_attr_name:
            made.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            made.attribute.append(given[attribute.ref_attr_name])
            made.attribute[-1].name = attribute.name
    return made


def _without_weights(model: Any) -> Any:
    """A model in which long constants are inputs of their type and shape."""
    import onnx

    made = onnx.ModelProto(ir_version=model.ir_version)
    made.opset_import.extend(model.opset_import)
    made.functions.extend(model.functions)
    source, graph = model.graph, made.graph
    graph.name = source.name
    for field in ("node", "input", "output", "value_info"):
        getattr(graph, field).extend(getattr(source, field))
    inputs = {info.name for info in source.input}
    for tensor in source.initializer:
        if tensor.ByteSize() <= _MOST_BYTES:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return made
