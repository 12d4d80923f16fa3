"""If nodes whose condition is known: the nodes of the branch that is taken, in the place of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A branch has no branches of its own where it is taken; a small file could hold many in each other.
MOST_BRANCHES = 1000


def with_branches_taken(model: Any) -> None:
    """Replace If nodes on constants by what they stand for; others stay, and are refused where they are read."""
    graph = model.graph
    if not any(node.op_type == "If" for node in graph.node):
        return
    known, nodes = _conditions(graph), list[Any]()
    for index, node in enumerate(graph.node):
        branch = _taken(node, known) if node.op_type == "If" and index < MOST_BRANCHES else None
        nodes += [node] if branch is None else _inlined(graph, node, branch, f"{node.output[0]}/branch")
    made = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(made)


def _conditions(graph: Any) -> dict[str, bool]:
    """Constants of one truth value."""
    import onnx

    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            tensors.update((node.output[0], each.t) for each in node.attribute if each.name == "value")
    found = {}
    for name, tensor in tensors.items():
        if tensor.data_type == onnx.TensorProto.BOOL and not tensor.data_location:
            try:
                array = onnx.numpy_helper.to_array(tensor)
            except Exception:  # of a damaged tensor, which is told of where it is read
                continue
            if array.size == 1:
                found[name] = bool(array.reshape(-1)[0])
    return found


def _taken(node: Any, known: Mapping[str, bool]) -> Any:
    """The branch that a node takes; None where that is not known, or where it is no list of plain nodes."""
    if len(node.input) != 1 or node.input[0] not in known or not node.output:
        return None
    name = "then_branch" if known[node.input[0]] else "else_branch"
    branch = next((each.g for each in node.attribute if each.name == name), None)
    if branch is None or branch.input or branch.sparse_initializer or len(branch.output) != len(node.output):
        return None
    is_plain = not any(each.HasField("g") or each.graphs for part in branch.node for each in part.attribute)
    return branch if is_plain else None


def _inlined(graph: Any, node: Any, branch: Any, prefix: str) -> list[Any]:
    """The nodes of a branch, whose own names no other has; its constants are added to the graph."""
    import onnx

    own = [tensor.name for tensor in branch.initializer] + [name for each in branch.node for name in each.output]
    names = {name: f"{prefix}/{name}" for name in own if name}
    for tensor in branch.initializer:
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = names[tensor.name]
    made = []
    for each in branch.node:
        copy = onnx.NodeProto.FromString(each.SerializeToString())
        copy.name = f"{prefix}/{each.name}" if each.name else ""
        for ends, taken in ((copy.input, each.input), (copy.output, each.output)):
            del ends[:]
            ends.extend(names.get(name, name) for name in taken)
        made.append(copy)
    for inner, outer in zip(branch.output, node.output, strict=True):
        if outer:
            made.append(onnx.helper.make_node("Identity", [names.get(inner.name, inner.name)], [outer]))
    return made
