"""Float operators that read each other as one island, so that values between them stay in float.

An island may not need what an operator outside makes of its own values. So operators have levels: one more than that of
what they read where one of both is float and the other is not. Those of one level never need each other's values by
way of another kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from int8tune.compiler.graph import Graph, Kind, Operator
from int8tune.compiler.islands.island import ISLAND, Array, Island, island_of


def with_islands(graph: Graph) -> Graph:
    """The graph with each group of float operators that read each other as one operator."""
    groups = _groups(graph.operators)
    merged = [members[0] if len(members) == 1 else _merged(graph, members) for members in groups]
    return replace(graph, operators=_in_order(merged))


def _groups(operators: Sequence[Operator]) -> list[list[Operator]]:
    """Operators that are one island, or one alone, in the order of their first ones."""
    maker = {name: index for index, operator in enumerate(operators) for name in operator.outputs}
    levels: list[int] = []
    parents = list(range(len(operators)))
    for index, operator in enumerate(operators):
        read = {maker[name] for name in operator.inputs if name in maker}
        is_float = operator.kind is Kind.FLOAT
        levels.append(max((levels[at] + (is_float != (operators[at].kind is Kind.FLOAT)) for at in read), default=0))
        for at in read:
            if levels[at] == levels[index] and _joins(operator) and _joins(operators[at]):
                parents[_root(parents, at)] = _root(parents, index)
    groups: dict[int, list[Operator]] = {}
    for index, operator in enumerate(operators):
        groups.setdefault(_root(parents, index), []).append(operator)
    return list(groups.values())


def _joins(operator: Operator) -> bool:
    return operator.kind is Kind.FLOAT and not island_of(operator).is_alone


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        # Paths are halved on the way, so that long chains stay short.
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index


def _merged(graph: Graph, members: Sequence[Operator]) -> Operator:
    made = {name for member in members for name in member.outputs}
    inside = {id(member) for member in members}
    read_outside = {name for each in graph.operators if id(each) not in inside for name in each.inputs}
    read_outside.update(graph.needed)
    inputs = tuple(dict.fromkeys(name for member in members for name in member.inputs if name not in made))
    outputs = tuple(name for member in members for name in member.outputs if name in read_outside)
    constants: dict[str, Array] = {}
    nodes: list[bytes] = []
    for member in members:
        nodes += _renamed(member, constants)
    islands = [island_of(member) for member in members]
    island = Island(
        nodes=tuple(nodes),
        inputs=inputs,
        outputs=outputs,
        constants=constants,
        opset=islands[0].opset,
        parts=tuple(part for each in islands for part in each.parts),
        macs=sum(each.macs for each in islands),
    )
    layers = tuple(dict.fromkeys(layer for member in members for layer in member.layers))
    names = "+".join(dict.fromkeys(part.operator for part in island.parts))
    return replace(
        members[0], layers=layers, operator=names, inputs=inputs, outputs=outputs, attributes={ISLAND: island}
    )


def _renamed(member: Operator, constants: dict[str, Array]) -> list[bytes]:
    """The nodes of an island with the graph's names of its values; its constants are added under names of their own."""
    import onnx

    island = island_of(member)
    names = dict(zip((*island.inputs, *island.outputs), (*member.inputs, *member.outputs), strict=True))
    for name, array in island.constants.items():
        names[name] = f"constant {len(constants)}"
        constants[names[name]] = array
    nodes = []
    for data in island.nodes:
        node = onnx.NodeProto.FromString(data)
        for ends in (node.input, node.output):
            renamed = [_new_name(name, names, member) for name in ends]
            del ends[:]
            ends.extend(renamed)
        nodes.append(node.SerializeToString())
    return nodes


def _new_name(name: str, names: Mapping[str, str], member: Operator) -> str:
    """The graph's name; of what only the island itself reads, one that no value of the graph has."""
    return names.get(name, f"{member.outputs[0]}/inside/{name}" if name else "")


def _in_order(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """The operators, each behind those that make what it reads; as they are where that is so already."""
    maker = {name: index for index, operator in enumerate(operators) for name in operator.outputs}
    order: list[Operator] = []
    finished = set[int]()
    for start in range(len(operators)):
        path = [start]
        while path:
            index = path[-1]
            waiting = [
                maker[name]
                for name in operators[index].inputs
                if name in maker and maker[name] not in finished and maker[name] != index
            ]
            if waiting and index not in finished:
                path.append(waiting[0])
                continue
            path.pop()
            if index not in finished:
                finished.add(index)
                order.append(operators[index])
    return tuple(order)
