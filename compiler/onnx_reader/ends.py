"""Where an ONNX model is ended before its outputs, as at what a detector's post-processing reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from int8tune.compiler.naming import similar
from int8tune.compiler.onnx_reader.nodes import model_fault, quoted


def end_at(model: Any, ends: Sequence[str], name: str) -> None:
    """Make values the outputs of a model, in place of its own, and leave out what they don't need.

    Raises:
        ModelError: a value is named twice, or no node makes it.
    """
    graph = model.graph
    makers = {label: at for at, node in enumerate(graph.node) for label in node.output if label}
    for place, label in enumerate(ends):
        if label not in makers:
            raise model_fault(name, f"no node makes a value {quoted(label)}{similar(label, makers)}")
        if label in ends[:place]:
            raise model_fault(name, f"it can't end at {quoted(label)} twice")
    needed, read = _needed(graph, ends, makers)
    known = {info.name: info for info in (*graph.output, *graph.value_info)}
    keep(graph.node, [node for at, node in enumerate(graph.node) if at in needed])
    keep(graph.input, [info for info in graph.input if info.name in read])
    keep(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in read])
    keep(graph.output, [known.get(label) or _unknown_form(label) for label in ends])


def ends_before(graph: Any, known: Collection[str], constants: Collection[str]) -> tuple[str, ...]:
    """Values at which a model may end, so that what remains has known shapes: all that the rest of it reads.

    Args:
        known: values whose shapes are known.
        constants: those of them that don't depend on inputs.
    """
    reads = [tuple(_read(node)) for node in graph.node]
    readers: dict[str, list[int]] = {}
    for at, read in enumerate(reads):
        for label in read:
            readers.setdefault(label, []).append(at)
    waiting = [at for at, node in enumerate(graph.node) if any(each and each not in known for each in node.output)]
    unknown: set[int] = set()
    while waiting:
        if (at := waiting.pop()) not in unknown:
            unknown.add(at)
            waiting += [reader for label in graph.node[at].output for reader in readers.get(label, ())]
    made = {label for at, node in enumerate(graph.node) if at not in unknown for label in node.output}
    read_later = [label for at in sorted(unknown) for label in reads[at]]
    wanted = dict.fromkeys([*read_later, *(info.name for info in graph.output)])
    return tuple(label for label in wanted if label in made and label not in constants)


def _needed(graph: Any, ends: Sequence[str], makers: dict[str, int]) -> tuple[set[int], set[str]]:
    """Places of the nodes that make values and what these read, and the names of all that is read."""
    needed: set[int] = set()
    read: set[str] = set()
    waiting = list(ends)
    while waiting:
        at = makers.get(waiting.pop())
        if at is not None and at not in needed:
            needed.add(at)
            found = set(_read(graph.node[at]))
            waiting += found
            read |= found
    return needed, read


def _read(node: Any) -> Iterator[str]:
    """What a node reads, also within its graphs, of whose own values some may have the same names."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
            for inner in graph.node:
                yield from _read(inner)
            yield from (info.name for info in graph.output)


def keep(entries: Any, kept: Sequence[Any]) -> None:
    """Leave only some entries of a repeated field of a file."""
    del entries[:]
    entries.extend(kept)


def _unknown_form(label: str) -> Any:
    import onnx

    return onnx.ValueInfoProto(name=label)
