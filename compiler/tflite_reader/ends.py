"""Where a TFLite model is ended before its outputs, as at what a detector's post-processing reads.

A file is changed in place, as far as FlatBuffers let it: a vector may get fewer elements, and one behind all others may
take the place of another. All else stays. Source: the binary format of FlatBuffers ("Internals").
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from int8tune.compiler.naming import similar
from int8tune.compiler.tflite_reader.file import Subgraph, TfliteFile, damage_told, schema_of
from int8tune.results.text import clipped, printable

# Of the schema's tables: the places of their fields in a table's vtable, in bytes.
_INPUTS, _OUTPUTS, _OPERATORS, _SIGNATURES = 6, 8, 10, 18
# Of an offset, of a vector's length, and of a tensor's index.
_WORD = struct.Struct("<I")


def ended(data: bytes, ends: Sequence[str], name: str) -> bytes:
    """A file whose values `ends` are its outputs, without the operators and inputs that they don't need.

    Operators that make nothing, such as ASSIGN_VARIABLE, stay: they keep what the next call needs.

    Raises:
        ModelError: the file is no TFLite model or damaged, a value is named twice, or no operator makes it.
    """
    with damage_told(name):
        file = TfliteFile(schema_of(data, name), data, name)
        if not file.model.SubgraphsLength() or not file.model.Subgraphs(0).OutputsLength():
            raise file.error("a model must have a subgraph with outputs")
        return _ended(file, Subgraph(file, 0), data, ends)


def _ended(file: TfliteFile, graph: Subgraph, data: bytes, ends: Sequence[str]) -> bytes:
    made = {label for plain in graph.plains for label in plain.outputs if label in graph.values}
    for place, label in enumerate(ends):
        if label not in made:
            raise file.error(printable(f"no operator makes a value `{clipped(label)}`{similar(label, made)}"))
        if label in ends[:place]:
            raise file.error(printable(f"it can't end at `{clipped(label)}` twice"))
    needed = _needed(graph, ends)
    read = {label for at in needed for label in graph.plains[at].inputs}
    table, changed = file.model.Subgraphs(0)._tab, bytearray(data)
    _keep(changed, table, _OPERATORS, sorted(needed))
    _keep(changed, table, _INPUTS, [at for at, label in enumerate(graph.inputs) if label in read])
    # A signature names the outputs that were.
    _keep(changed, file.model._tab, _SIGNATURES, [])
    _append(changed, table, _OUTPUTS, [graph.names.index(label) for label in ends])
    return bytes(changed)


def _needed(graph: Subgraph, ends: Sequence[str]) -> set[int]:
    """Places of the operators that make values and what these read, and of those that make nothing."""
    makers = {label: at for at, plain in enumerate(graph.plains) for label in plain.outputs}
    idle = [at for at, plain in enumerate(graph.plains) if not plain.outputs]
    waiting, needed = [*idle, *(makers[label] for label in ends)], set[int]()
    while waiting:
        if (at := waiting.pop()) not in needed:
            needed.add(at)
            waiting += [makers[label] for label in graph.plains[at].inputs if label in makers]
    return needed


def _keep(data: bytearray, table: Any, field: int, kept: Sequence[int]) -> None:
    """Leave only some elements of a vector of words; offsets are counted from where they are."""
    place = table.Offset(field)
    if not place:
        return
    first = table.Vector(place)
    is_offset = field in (_OPERATORS, _SIGNATURES)
    for new, old in enumerate(kept):
        (word,) = _WORD.unpack_from(data, first + 4 * old)
        _WORD.pack_into(data, first + 4 * new, word + 4 * (old - new) * is_offset)
    _WORD.pack_into(data, first - 4, len(kept))


def _append(data: bytearray, table: Any, field: int, values: Sequence[int]) -> None:
    """Have a field refer to a new vector of words, behind all that is there."""
    place = table.Pos + table.Offset(field)
    data.extend(bytes(-len(data) % 4))
    _WORD.pack_into(data, place, len(data) - place)
    data.extend(struct.pack(f"<{1 + len(values)}I", len(values), *values))
