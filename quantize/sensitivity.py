"""Which layers cost a quantized model its accuracy: each one quantized alone, and everything but it.

Damages don't add up: errors of two layers may cancel. What is left in float by this list is to be tried as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from int8tune.quantize.activated_layers import required_layers
from int8tune.quantize.calibrated import calibrated
from int8tune.quantize.comparison import Distance
from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.options import Options
from int8tune.quantize.profiler import Report
from int8tune.quantize.samples.base import Samples
from int8tune.quantize.trial import Trial


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


def sensitivity(
    model: FloatModel,
    samples: Samples,
    options: Options,
    tests: Samples | None = None,
    labels: npt.NDArray[Any] | None = None,
    report: Report = lambda *_: None,
) -> Sensitivity:
    """Quantize each layer alone, and all but it, and run what comes of it beside the float model.

    Weights are rounded to the nearest and biases stay what they are, so that a layer's damage is its own.

    Args:
        samples: by which ranges are chosen.
        tests: on which models are compared; `samples` if None.
        labels: their classes [samples]; None: nobody knows.

    Raises:
        FloatModelError: the model can't be run, or a tensor that is to be quantized has NaN or infinity.
        CalibrationError: samples can't be read, or don't fit the model.
        QuantizeSpecError: the model has no layer with constant weights.
        QuantizeError: the model can't be rewritten.
    """
    ready = calibrated(model, samples, options, None, report)
    layers = required_layers(ready.model)
    trial = Trial(ready, tests or samples, options, labels)
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
