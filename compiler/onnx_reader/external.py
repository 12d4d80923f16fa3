"""Tensors that a model keeps in files beside it (external data), put into the model.

Source: ONNX, docs/ExternalData.md. Files are named relative to the model's folder; none outside of it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from int8tune.compiler.onnx_reader.file import decoded, refuse_unprintable
from int8tune.compiler.onnx_reader.nodes import model_fault, quoted
from int8tune.results.text import clipped, printable

IN_ANOTHER_FILE = 1
MOST_DIGITS = 18


def embedded(data: bytes, folder: Path, name: str, most_bytes: int) -> bytes:
    """A model's file with all of its tensors in it; the same bytes where none is in another file.

    Args:
        folder: that of the model's file.
        most_bytes: of the model with its tensors.

    Raises:
        ModelError: a tensor names no file within the folder, or a part that the file lacks, or there is too much.
    """
    if b"location" not in data:
        return data
    model, total = decoded(data, name), len(data)
    refuse_unprintable(model, name)
    tensors = [tensor for tensor in _tensors(model.graph) if tensor.data_location == IN_ANOTHER_FILE]
    for tensor in tensors:
        path, begin, length = _place(tensor, folder, name)
        total += length
        if total > most_bytes:
            raise model_fault(name, f"with its data in other files it has over {most_bytes} bytes")
        try:
            with path.open("rb") as file:
                file.seek(begin)
                tensor.raw_data = file.read(length)
        except OSError as error:
            raise model_fault(
                name, f"{quoted(tensor.name)} can't be read: {printable(f'{path.name}: {error.strerror}')}"
            ) from None
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    whole: bytes = model.SerializeToString() if tensors else data
    return whole


def _place(tensor: Any, folder: Path, name: str) -> tuple[Path, int, int]:
    """The file of a tensor, and which part of it."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    what = f"{quoted(tensor.name)} is in another file (external data)"
    if any(not isinstance(each, str) or not each.isprintable() for each in fields.values()):
        raise model_fault(name, f"{what}, and what is said of that can't be printed")
    location = fields.get("location", "")
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder.resolve()):
        raise model_fault(name, f"{what}, which must be in the model's folder: {quoted(location)}")
    if not path.is_file():
        raise model_fault(name, f"{what}, which is not there: {quoted(location)}")
    size = path.stat().st_size
    begin = _number(fields.get("offset", "0"))
    length = _number(fields.get("length", str(size - (begin or 0))))
    if begin is None or length is None or begin + length > size:
        said = [clipped(printable(fields.get(key, other))) for key, other in (("length", "more"), ("offset", "0"))]
        part = f"{said[0]} bytes from {said[1]} on"
        raise model_fault(name, f"{what}, {quoted(location)} of {size} bytes, which does not have {part}")
    return path, begin, length


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def _tensors(graph: Any) -> Iterator[Any]:
    """The constants of a graph, and of graphs within its nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _tensors(inner)
