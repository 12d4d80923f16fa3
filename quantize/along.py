"""What is left of the signal of a model's tensors along the graph, where it is quantized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from int8tune.quantize.comparison import Apart
from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.samples.base import Batch
from int8tune.quantize.session import run_session, start_session


def along(
    model: FloatModel, quantized: Any, tensors: Sequence[str], batches: Iterable[Batch]
) -> Mapping[str, float | None]:
    """The signal to quantization noise of tensors, in decibels; those that are no more in the form have None.

    Args:
        quantized: the model in the form QDQ.

    Raises:
        FloatModelError: ONNX Runtime can't run one of them.
    """
    read = _as_read(quantized)
    there = [name for name in dict.fromkeys(tensors) if name in read]
    sides = ((model.proto, there), (quantized, [read[name] for name in there]))
    sessions = [(start_session(model.path, each, names), names) for each, names in sides]
    apart = {name: Apart() for name in there}
    for batch in batches:
        rights, seens = (run_session(model.path, session, names, batch) for session, names in sessions)
        for each, right, seen in zip(apart.values(), rights, seens, strict=True):
            each.add(right, seen)
    return {name: apart[name].distance.sqnr_db if name in apart else None for name in tensors}


def _as_read(proto: Any) -> dict[str, str]:
    """What the readers of each tensor of a quantized form read: the numbers of its 8 bits, where it was quantized.

    A Relu is a part of these: it is no operator any more, and the tensor in front of them has numbers below zero.
    """
    stored = {node.input[0]: node.output[0] for node in proto.graph.node if node.op_type == "QuantizeLinear"}
    numbers = {node.input[0]: node.output[0] for node in proto.graph.node if node.op_type == "DequantizeLinear"}
    made = {name for node in proto.graph.node for name in node.output}
    return {name: numbers.get(stored.get(name, ""), name) for name in made}
