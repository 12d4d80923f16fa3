"""Which layers cost a quantized model its accuracy: each one quantized alone, and everything but it.

Damages don't add up: errors of two layers may cancel. What is left in float by this list is to be tried as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from int8tune.quantize.along import along
from int8tune.quantize.calibrated import Calibrated, calibrated
from int8tune.quantize.comparison import Apart, Distance
from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.options import Options
from int8tune.quantize.profiler import Report
from int8tune.quantize.qdq import quantized, weight_scales
from int8tune.quantize.samples.base import Batch, Samples
from int8tune.quantize.session import run_session, start_session
from int8tune.quantize.weights import layers_of

Array = npt.NDArray[Any]

# What the float model makes of the samples is kept where it is small, and computed again for each layer elsewhere.
MOST_KEPT_BYTES = 64 << 20
_PART_OF_A_LAYER = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class LayerSensitivity:
    """What quantizing a layer costs.

    Attributes:
        name: of the operator, as it may be left in float.
        operator: ONNX's name for what it computes.
        tensor: what the layer makes, behind its Relu or Clip.
        alone: the model's outputs where it alone is quantized.
        all_but_it: where everything else is.
        along_db: signal to quantization noise of its tensor, as others read it, where everything is quantized, in
            decibels; None where nothing differs.
    """

    name: str
    operator: str
    tensor: str
    alone: Distance
    all_but_it: Distance
    along_db: float | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What quantizing each layer costs, in the order of the graph; `whole` is the model with all of them quantized."""

    layers: tuple[LayerSensitivity, ...]
    whole: Distance


@dataclass(frozen=True, slots=True)
class _Layer:
    """A convolution or dense layer, with a Relu or Clip that nothing else reads past."""

    name: str
    operator: str
    nodes: tuple[str, ...]
    tensor: str


def sensitivity(
    model: FloatModel,
    samples: Samples,
    options: Options,
    tests: Samples | None = None,
    report: Report = lambda *_: None,
) -> Sensitivity:
    """Quantize each layer alone, and all but it, and run what comes of it beside the float model.

    Weights are rounded to the nearest and biases stay what they are, so that a layer's damage is its own.

    Args:
        samples: by which ranges are chosen.
        tests: on which models are compared; `samples` if None.

    Raises:
        FloatModelError: the model can't be run, or a tensor that is to be quantized has NaN or infinity.
        CalibrationError: samples can't be read, or don't fit the model.
        QuantizeSpecError: the model has no layer with constant weights.
        QuantizeError: the model can't be rewritten.
    """
    ready = calibrated(model, samples, options, None, report)
    layers = _layers(ready.model.proto)
    if not layers:
        raise QuantizeSpecError(f"{shown(model.path)}: no convolution or dense layer with constant weights is in it")
    trial = _Trial(ready, tests or samples, options)
    whole = trial.quantized(())
    names = [node.name for node in ready.model.proto.graph.node]
    kept_db = trial.along(whole, [layer.tensor for layer in layers])
    found = []
    for done, layer in enumerate(layers):
        report("layers", done, len(layers))
        others = [name for name in names if name not in layer.nodes]
        alone, all_but_it = (trial.distance(trial.quantized(skip)) for skip in (others, layer.nodes))
        found.append(
            LayerSensitivity(layer.name, layer.operator, layer.tensor, alone, all_but_it, kept_db[layer.tensor])
        )
    report("layers", len(layers), len(layers))
    return Sensitivity(tuple(found), trial.distance(whole))


def layer_tensors(proto: Any) -> list[str]:
    """What each convolution and dense layer of a prepared float model makes, behind its Relu or Clip."""
    return [layer.tensor for layer in _layers(proto)]


def _layers(proto: Any) -> list[_Layer]:
    graph = proto.graph
    readers = Counter(name for node in graph.node for name in node.input)
    readers.update(value.name for value in graph.output)
    by_input = {name: node for node in graph.node for name in node.input}
    found = []
    for layer in layers_of(graph):
        nodes, tensor = [layer.node.name], layer.node.output[0]
        follower = by_input.get(tensor)
        if readers[tensor] == 1 and follower is not None and follower.op_type in _PART_OF_A_LAYER:
            nodes, tensor = [*nodes, follower.name], follower.output[0]
        found.append(_Layer(layer.node.name, layer.node.op_type, tuple(nodes), tensor))
    return found


class _Trial:
    """Quantized forms of one model beside it, on the same samples."""

    def __init__(self, ready: Calibrated, samples: Samples, options: Options) -> None:
        self._ready, self._samples, self._options = ready, samples, options
        self._model = ready.model
        self._scales = weight_scales(self._model.proto, options)
        self._session = start_session(self._model.path, self._model.proto)
        self._output = self._session.get_outputs()[0].name
        self._kept: list[Array] | None = None

    def quantized(self, skip: Sequence[str]) -> Any:
        """The model with all operators quantized but those of these names."""
        left = (*self._options.skip, *skip)
        return quantized(self._model.proto, self._ready.thresholds, replace(self._options, skip=left), self._scales)

    def distance(self, proto: Any) -> Distance:
        """How far a quantized form is from the float model."""
        apart = Apart()
        session = start_session(self._model.path, proto)
        name = session.get_outputs()[0].name
        for batch, right in zip(self._batches(), self._right(), strict=True):
            apart.add(right, run_session(self._model.path, session, [name], batch)[0])
        return apart.distance

    def along(self, proto: Any, tensors: Sequence[str]) -> Mapping[str, float | None]:
        """The signal to quantization noise of tensors, in decibels; those that are no more in the form have None."""
        return along(self._model, proto, tensors, self._batches())

    def _batches(self) -> Iterator[Batch]:
        return self._samples.batches(self._model.inputs)

    def _right(self) -> Iterator[Array]:
        """The float model's outputs, batch by batch."""
        if self._kept is not None:
            yield from self._kept
            return
        kept, size = list[Array](), 0
        for batch in self._batches():
            right = run_session(self._model.path, self._session, [self._output], batch)[0]
            size += right.nbytes
            if size <= MOST_KEPT_BYTES:
                kept.append(right)
            yield right
        self._kept = kept if size <= MOST_KEPT_BYTES else None
