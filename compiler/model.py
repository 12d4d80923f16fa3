"""Quantized models from files, by what their names end in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from int8tune.compiler.errors import ModelError
from int8tune.compiler.files import read_file
from int8tune.compiler.free_memory import constant_bytes, give_back
from int8tune.compiler.fused_graph import with_fused_rules
from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.graph import Graph
from int8tune.compiler.movements_merged import with_movements_merged
from int8tune.compiler.onnx_reader.external import embedded
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.onnx_reader.specialized import specialized
from int8tune.compiler.table_graph import with_tables
from int8tune.compiler.tflite_reader.ends import ended
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.results.text import printable

READERS: dict[str, Callable[[bytes, str], Graph]] = {".onnx": read_onnx, ".tflite": read_tflite}
MOST_BYTES = 1 << 31
# Models are called like campaigns may be.
MOST_LETTERS = 64


def read_model(path: Path, given: Given = NOTHING_GIVEN) -> Graph:
    """The graph of a model, called like its file without the ending; letters that no name has become `_`.

    Where the rule `fused` gives the outputs of the rule `fixed`, layers have that; what several operators make of one
    8-bit value, element by element, is one table.

    Args:
        given: what the user says of it.

    Raises:
        ModelError: the file can't be read, is damaged, or has something that is not supported.
    """
    name = _name_of(path)
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise ModelError(printable(f"a model's name must end with {' or '.join(READERS)}: {path}"))
    graph = read(model_bytes(path, given), name)
    if not graph.outputs:
        raise ModelError(f"{graph.name}: the model has no outputs")
    give_back(constant_bytes(graph.values))
    return with_fused_rules(with_tables(with_movements_merged(graph)))


def model_bytes(path: Path, given: Given = NOTHING_GIVEN) -> bytes:
    """A model's file, with what it has in files beside it, and with what the user says of it.

    Raises:
        ModelError: the file can't be read, has no such inputs or values, or is no ONNX file, which alone may be given
            values and shapes.
    """
    data = read_file(path, "a model", MOST_BYTES, ModelError)
    if path.suffix.lower() == ".onnx":
        data = embedded(data, path.parent, _name_of(path), MOST_BYTES)
    if not given:
        return data
    if path.suffix.lower() == ".tflite" and not (given.bind or given.shapes):
        return ended(data, given.until, _name_of(path))
    if path.suffix.lower() != ".onnx":
        raise ModelError(printable(f"only ONNX models are given values and shapes of inputs: {path}"))
    return specialized(data, _name_of(path), given)


def _name_of(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", path.stem)[:MOST_LETTERS]
