"""Float ONNX models that somebody else wrote: read and checked, before anything runs them."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.quantize.errors import FloatModelError, NoOnnxError
from int8tune.results.text import printable

MOST_BYTES = 2 << 30
LONGEST_MESSAGE = 300

_QUANTIZED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"})
# Of ONNX Runtime's own domain: QLinearAdd, QGemm, QAttention.
_QUANTIZED_STARTS = ("QLinear", "QGemm", "QAttention", "DynamicQuantize")
_EXTERNAL = 1
ONE_FILE = "python -c 'import onnx, sys; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])' MODEL.onnx ONE.onnx"

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


@dataclass(frozen=True, slots=True)
class FloatInput:
    """An input of a model.

    Attributes:
        shape: its extents, None where the file leaves one open; the first counts samples.
        scale, zero_point: of a quantized model's input that stores numbers in 8 bits; no scale elsewhere.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    scale: float | None = None
    zero_point: int = 0

    @property
    def batch(self) -> int | None:
        """How many samples a run takes; None for any number."""
        return self.shape[0]

    def __str__(self) -> str:
        extents = ", ".join("?" if extent is None else str(extent) for extent in self.shape)
        return f"`{printable(self.name)}` {self.dtype} [{extents}]"


@dataclass(frozen=True, slots=True)
class FloatModel:
    """A model whose file was checked.

    Attributes:
        proto: an `onnx.ModelProto`, which nobody changes.
        sha256: of the file.
    """

    path: Path
    proto: Any
    sha256: str
    inputs: tuple[FloatInput, ...]


def read_float_model(path: Path) -> FloatModel:
    """Read a float ONNX model.

    Raises:
        NoOnnxError: onnx or onnxruntime is not installed.
        FloatModelError: it can't be read, is quantized already, keeps weights in other files, or has no input.
    """
    require_onnx()
    return checked_model(path, file_content(path))


def checked_model(path: Path, content: bytes, sha256: str | None = None) -> FloatModel:
    """A float ONNX model of its bytes.

    Args:
        path: where it comes from.
        sha256: of the file that it was made of; that of the bytes if None.

    Raises:
        FloatModelError: they are none, it is quantized already, keeps weights in other files, or has no input.
    """
    import onnx

    try:
        proto = onnx.load_model_from_string(content)
    except Exception as error:  # the parser's own classes differ from version to version
        raise FloatModelError(f"{shown(path)}: no ONNX file: {one_line(error)}") from None
    if not proto.graph.node:
        raise FloatModelError(f"{shown(path)}: no ONNX file, or one without operators")
    _refuse_bytes(path, proto)
    _refuse_random(path, proto)
    _refuse_quantized(path, proto)
    _refuse_external(path, proto)
    return FloatModel(path, proto, sha256 or hashlib.sha256(content).hexdigest(), _inputs(path, proto))


def require_onnx() -> Any:
    """The package `onnx`.

    Raises:
        NoOnnxError: it or onnxruntime is not installed.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise NoOnnxError(f"not installed: {error.name}") from None
    return onnx


def one_line(error: object) -> str:
    """What an error of somebody else's says, in one line of bounded length."""
    text = printable(" ".join(str(error).split()))
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."


def shown(path: Path | str) -> str:
    """A path or a name as a message may have it."""
    return printable(str(path))


@contextmanager
def quiet() -> Iterator[None]:
    """Without the advice that other packages log and warn of."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def is_quantized_node(node: Any) -> bool:
    """Whether an operator reads or makes quantized values."""
    return node.op_type in _QUANTIZED or node.op_type.startswith(_QUANTIZED_STARTS)


def file_content(path: Path) -> bytes:
    """The bytes of a model's file.

    Raises:
        FloatModelError: there is none, it is too large, or it can't be read.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file" if path.exists() else "no such file"
        raise FloatModelError(f"a model must be a file, this is {what}: {shown(path)}")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise FloatModelError(f"a model has at most {MOST_BYTES} bytes, {shown(path)} has {path.stat().st_size}")
        return path.read_bytes()
    except OSError as error:
        raise FloatModelError(f"{shown(path)}: {error.strerror}") from None


def _refuse_bytes(path: Path, proto: Any) -> None:
    """Raise where a name is no text: protobuf gives what is not UTF-8 as bytes."""
    graph = proto.graph
    named = (*graph.node, *graph.initializer, *graph.input, *graph.output)
    names = [entry.name for entry in named]
    names += [name for node in graph.node for name in (node.op_type, node.domain, *node.input, *node.output)]
    for name in names:
        if not isinstance(name, str):
            raise FloatModelError(f"{shown(path)}: a name is no text: {printable(repr(name))}")


def _refuse_random(path: Path, proto: Any) -> None:
    for node in proto.graph.node:
        if node.op_type in RANDOM:
            place = printable(node.name or node.output[0])
            raise FloatModelError(f"{shown(path)} draws numbers, no two runs are alike: {node.op_type} `{place}`")


def _refuse_quantized(path: Path, proto: Any) -> None:
    for node in proto.graph.node:
        if is_quantized_node(node):
            place = printable(node.name or next(iter(node.output), ""))
            raise FloatModelError(f"{shown(path)} is quantized already: {printable(node.op_type)} `{place}`")


def _refuse_external(path: Path, proto: Any) -> None:
    for tensor in proto.graph.initializer:
        if tensor.data_location == _EXTERNAL:
            where = next((entry.value for entry in tensor.external_data if entry.key == "location"), "another file")
            what = f"keeps `{printable(tensor.name)}` in `{printable(where)}`; make one file of both"
            raise FloatModelError(f"{shown(path)} {what}: {ONE_FILE}")


def _inputs(path: Path, proto: Any) -> tuple[FloatInput, ...]:
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = tuple(_input(path, value) for value in proto.graph.input if value.name not in constants)
    if not inputs:
        raise FloatModelError(f"{shown(path)}: a model needs an input")
    return inputs


def _input(path: Path, value: Any) -> FloatInput:
    from onnx import helper

    kind = value.type.tensor_type
    extents = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
    if not kind.elem_type or not extents or any(extent is not None and extent < 1 for extent in extents):
        what = f"input `{printable(value.name)}` must be a tensor whose first axis counts samples"
        raise FloatModelError(f"{shown(path)}: {what}: {extents}")
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except KeyError:
        what = f"input `{printable(value.name)}` must be of a type that ONNX has"
        raise FloatModelError(f"{shown(path)}: {what}: {kind.elem_type}") from None
    return FloatInput(value.name, dtype, tuple(extents))
