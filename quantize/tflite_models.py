"""Float TFLite models: read, checked, and run by LiteRT with all their tensors kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.quantize.errors import FloatModelError, NoTfliteError
from int8tune.quantize.float_model import FloatInput, FloatModel, file_content, one_line, quiet, shown
from int8tune.quantize.samples.base import Array
from int8tune.quantize.tensors import INPUT, Producer
from int8tune.results.text import printable

SUFFIX = ".tflite"
_IDENTIFIER = b"TFL3"
_OF_BYTES = ("QUANTIZE", "DEQUANTIZE")


@dataclass(frozen=True, slots=True)
class FloatTflite:
    """A model whose file was checked.

    Attributes:
        content: its bytes.
        model: its path, digest and inputs; without a `proto`.
        producers: what makes each float tensor that depends on the inputs, in the order of the graph.
        output: the first output.
    """

    content: bytes
    model: FloatModel
    producers: Mapping[str, Producer]
    output: str


class LiteRtSession:
    """LiteRT on a model of one subgraph; runs like a session of ONNX Runtime's.

    Inputs and outputs are numbers: where a model has 8-bit ones, they are quantized and dequantized.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        # It warns of tensors that are kept.
        with quiet():
            self._interpreter = _litert().Interpreter(
                model_content=content,
                experimental_op_resolver_type=_litert().OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
                experimental_preserve_all_tensors=True,
                num_threads=1,
            )
            self._interpreter.allocate_tensors()
        self.inputs = {str(each["name"]): each for each in self._interpreter.get_input_details()}
        self.outputs = {str(each["name"]): each for each in self._interpreter.get_output_details()}
        self.tensors = {int(each["index"]): each for each in self._interpreter.get_tensor_details()}
        self._by_name = {str(each["name"]): each for each in self.tensors.values()} | self.inputs | self.outputs

    @property
    def operators(self) -> Sequence[Mapping[str, Any]]:
        """Type, inputs and outputs of each operator; tensors by their numbers."""
        return self._interpreter._get_ops_details()  # type: ignore[no-any-return]

    def run(self, names: Sequence[str], values: Mapping[str, Array]) -> list[Array]:
        """The tensors of these names, for values of all inputs.

        Raises:
            FloatModelError: the run fails.
        """
        try:
            for name, each in self.inputs.items():
                self._interpreter.set_tensor(each["index"], _stored(values[name], each))
            self._interpreter.invoke()
            details = [self._by_name[name] for name in names]
            return [_numbers(self._interpreter.get_tensor(each["index"]), each) for each in details]
        except Exception as error:  # its classes are not public
            raise FloatModelError(f"{shown(self._path)}: LiteRT can't run it: {one_line(error)}") from None


def read_float_tflite(path: Path) -> FloatTflite:
    """Read a float TFLite model.

    Raises:
        NoTfliteError: LiteRT is not installed.
        FloatModelError: it can't be read or run, is quantized already, or its tensors have no names of their own.
    """
    content = file_content(path)
    _litert()
    if content[4:8] != _IDENTIFIER:
        raise FloatModelError(f"{shown(path)}: no TFLite file")
    try:
        session = LiteRtSession(path, content)
        producers = _producers(path, session)
    except FloatModelError:
        raise
    except Exception as error:  # its classes are not public
        raise FloatModelError(f"{shown(path)}: LiteRT can't read it: {one_line(error)}") from None
    inputs = tuple(
        FloatInput(name, np.dtype(each["dtype"]), tuple(int(extent) for extent in each["shape"]))
        for name, each in session.inputs.items()
    )
    if not inputs or any(not each.shape for each in inputs):
        raise FloatModelError(f"{shown(path)}: a model needs an input whose first axis counts samples")
    if not session.outputs:
        raise FloatModelError(f"{shown(path)}: a model needs an output")
    model = FloatModel(path, None, hashlib.sha256(content).hexdigest(), inputs)
    return FloatTflite(content, model, producers, next(iter(session.outputs)))


def _producers(path: Path, session: LiteRtSession) -> dict[str, Producer]:
    found: dict[str, Producer] = {}
    indexes = {int(each["index"]): Producer(INPUT, "") for each in session.inputs.values()}
    for operator in session.operators:
        if operator["op_name"] in _OF_BYTES:
            raise FloatModelError(f"{shown(path)} is quantized already: {operator['op_name']}")
        indexes.update((int(index), Producer(str(operator["op_name"]), "")) for index in operator["outputs"])
    for index, producer in indexes.items():
        each = session.tensors.get(index)
        if each is None or each["dtype"] is not np.float32 or 0 in each["shape"]:
            continue
        name = str(each["name"])
        if not name or name in found:
            raise FloatModelError(f"{shown(path)}: two tensors have one name, or none: `{printable(name)}`")
        found[name] = producer
    if not found:
        raise FloatModelError(f"{shown(path)} has no float tensor")
    return found


def _litert() -> Any:
    try:
        from ai_edge_litert import interpreter
    except ImportError as error:
        raise NoTfliteError(f"not installed: {error.name}") from None
    return interpreter


def _stored(values: Array, detail: Mapping[str, Any]) -> Array:
    scale, zero_point = detail["quantization"]
    if not scale:
        return values
    limits = np.iinfo(detail["dtype"])
    stored = np.clip(np.rint(values / scale) + zero_point, limits.min, limits.max)
    return np.asarray(stored, detail["dtype"])


def _numbers(values: Array, detail: Mapping[str, Any]) -> Array:
    scale, zero_point = detail["quantization"]
    numbers = (values.astype(np.float32) - zero_point) * np.float32(scale)
    return np.asarray(numbers) if scale else values
