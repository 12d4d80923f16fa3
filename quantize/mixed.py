"""Networks of one float model whose layers have several forms, and what each form of a layer alone costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from int8tune.quantize.activated_layers import ActivatedLayer, required_layers
from int8tune.quantize.calibrated import CHOSEN_WITH, calibrated
from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.forms import Form
from int8tune.quantize.options import Options
from int8tune.quantize.profiler import Report
from int8tune.quantize.qdq import quantized
from int8tune.quantize.quantizer import with_chosen_weights, written
from int8tune.quantize.samples.base import FirstSamples, Samples
from int8tune.quantize.tensors import initializer_arrays
from int8tune.quantize.trial import Trial


@dataclass(frozen=True, slots=True)
class MixedLayer:
    """A layer whose form may be chosen.

    Attributes:
        name: of its operator.
        operator: ONNX's name for what it computes.
        likeness: the same text for layers that compute the same of the same shapes.
    """

    name: str
    operator: str
    likeness: str


class MixedModel:
    """A float model whose tensors' ranges are known, from which quantized networks are written.

    Attributes:
        layers: those that are not skipped, in the order of the graph.
        usual_form: that of layers of which nothing else is said.
        quantized_forms: those which a layer may have, beside float.
    """

    def __init__(self, model: FloatModel, samples: Samples, options: Options, report: Report = lambda *_: None) -> None:
        """Calibrate the model.

        Raises:
            FloatModelError, CalibrationError, QuantizeSpecError, QuantizeError: as `quantize`; or no layer is there
                whose form could be chosen.
        """
        self._ready = calibrated(model, samples, options, None, report)
        self._samples, self._options, self._report = samples, options, report
        skipped = {node.name for node in self._proto.graph.node if {node.name, *node.output} & set(options.skip)}
        layers = [layer for layer in required_layers(self._ready.model) if layer.name not in skipped]
        if not layers:
            raise QuantizeSpecError(f"{shown(model.path)}: no layer is left to choose a form of: all are skipped")
        self._layers = {layer.name: layer for layer in layers}
        self._returned = {value.name for value in self._proto.graph.output}
        self._noise: dict[tuple[str, Form], float] = {}
        self.layers = [MixedLayer(layer.name, layer.operator, self._likeness(layer)) for layer in layers]
        self.usual_form = options.usual_form
        self.quantized_forms = _quantized_forms(options)
        self._first = FirstSamples(samples, CHOSEN_WITH)
        self._trial = Trial(self._ready, self._first, options)

    @property
    def _proto(self) -> Any:
        return self._ready.model.proto

    def noise(self, layer: str, form: Form) -> float:
        """The noise over the signal of the model's first output that a layer alone makes in a form.

        It is that of what the layer reads, as it is stored for it, and of its weights; of what it makes only where the
        model returns that, as elsewhere who reads it decides. A layer in float still reads 8 bits: what 16 bits save.
        It is of the first calibration samples; weights and biases are chosen as the options say.
        """
        if (layer, form) not in self._noise:
            is_returned = self._layers[layer].tensor in self._returned
            if form is Form.FLOAT:
                less = self.noise(layer, Form.WORDS)
                usual = self._noise_alone(layer, self.usual_form, False) if is_returned else None
                found = max(0.0, (self.noise(layer, self.usual_form) if usual is None else usual) - less)
            else:
                found = self._noise_alone(layer, form, is_returned)
            self._noise[layer, form] = found
        return self._noise[layer, form]

    def _noise_alone(self, name: str, form: Form, with_outputs: bool) -> float:
        layer, ready = self._layers[name], self._ready
        others = [node.name for node in self._proto.graph.node if node.name not in layer.nodes]
        alone = replace(self._options, skip=(*self._options.skip, *others), forms={name: form})
        made = quantized(self._proto, ready.thresholds, alone, None, ready.extremes, with_outputs)
        for node in made.graph.node:
            if node.name in others and (at := _place(node.input, f"{layer.data}_DequantizeLinear_Output")) is not None:
                node.input[at] = layer.data
        made = with_chosen_weights(ready, made, self._first, alone, lambda *_: None)
        apart = self._trial.distance(made)
        return 0.0 if apart.sqnr_db is None else float(10 ** (-apart.sqnr_db / 10))

    def network(self, forms: Mapping[str, Form], is_refined: bool = True) -> Any:
        """A network in the form QDQ, an `onnx.ModelProto`.

        Args:
            forms: of layers that are not computed as usual, by their names.
            is_refined: round weights and correct biases as the options say; what is only timed needs neither.

        Raises:
            QuantizeError: it can't be written.
        """
        options = replace(self._options, forms=dict(forms))
        if not is_refined:
            options = replace(options, round_weights=False, bias_correction=False)
        return written(self._ready, self._samples, options, self._report)

    def _likeness(self, layer: ActivatedLayer) -> str:
        graph = self._proto.graph
        node = next(node for node in graph.node if node.name == layer.name)
        values = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
        attributes = sorted(str(attribute).replace("\n", " ") for attribute in node.attribute)
        weight = initializer_arrays(graph)[layer.weight]
        shapes = [str(values[name].type.tensor_type.shape) for name in (layer.data, layer.tensor) if name in values]
        activation = len(layer.nodes)
        return f"{node.op_type} {weight.shape} {attributes} {shapes} {activation}"


def _quantized_forms(options: Options) -> list[Form]:
    """Forms beside float; none with a scale for each channel where the user wants one for all weights."""
    refused = {Form.FLOAT} | ({Form.PER_CHANNEL} if options.per_tensor else set())
    return [form for form in Form if form not in refused]


def _place(names: Sequence[str], name: str) -> int | None:
    return list(names).index(name) if name in names else None
