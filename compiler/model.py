"""Quantized models from files, by what their names end in."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from compiler.errors import ModelError
from compiler.graph import Graph
from compiler.onnx_reader.model import read_onnx
from compiler.strict_json import printable
from compiler.tflite_model import read_tflite

READERS: dict[str, Callable[[bytes, str], Graph]] = {".onnx": read_onnx, ".tflite": read_tflite}
MOST_BYTES = 1 << 31
# Models are called like campaigns may be.
MOST_LETTERS = 64


def read_model(path: Path) -> Graph:
    """The graph of a model, called like its file without the ending; letters that no name has become `_`.

    Raises:
        ModelError: the file can't be read, is damaged, or has something that is not supported.
    """
    return READERS[path.suffix.lower()](_read(path), re.sub(r"[^A-Za-z0-9._-]", "_", path.stem)[:MOST_LETTERS])


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no regular file" if path.exists() else "no such file"
            raise ModelError(printable(f"a model must be a file, this is {what}: {path}"))
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise ModelError(printable(f"{path}: a model has at most {MOST_BYTES} bytes: {size}"))
        return path.read_bytes()
    except OSError as error:
        raise ModelError(printable(f"{path}: {error.strerror}")) from None
