"""Quantized models as QuantizeLinear and DequantizeLinear around float operators.

ONNX Runtime's QDQQuantizer rewrites the graph; ranges of data and scales of weights are this package's.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.errors import QuantizeError, QuantizeSpecError
from int8tune.quantize.float_model import one_line, quiet
from int8tune.quantize.options import Method, Options
from int8tune.quantize.tensors import initializer_arrays
from int8tune.quantize.thresholds import Threshold
from int8tune.quantize.weights import channel_scales, layers_of
from int8tune.results.text import printable

Array = npt.NDArray[Any]
# Ends of ranges are computed from histograms.
_NEARLY = 1e-6
WeightScales = Mapping[str, list[dict[str, Any]]]
"""Scales and zero points by the names of weights, as ONNX Runtime's quantizer takes them."""


def quantized(
    proto: Any, thresholds: Mapping[str, Threshold], options: Options, scales: WeightScales | None = None
) -> Any:
    """A model in the form QDQ.

    Args:
        proto: a prepared float model.
        thresholds: of its float tensors.
        scales: what `weight_scales` gives, where that is known already.

    Raises:
        QuantizeSpecError: an operator that is to be skipped is not there.
        QuantizeError: the model can't be rewritten.
    """
    import onnx
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.quant_utils import QuantType

    copied = onnx.ModelProto()
    copied.CopyFrom(proto)
    ranges = {name: (np.float32(each.low), np.float32(each.high)) for name, each in thresholds.items()}
    with quiet():
        try:
            writer = QDQQuantizer(
                copied,
                not options.per_tensor,
                False,
                QuantType.QInt8,
                QuantType.QInt8 if options.is_signed else QuantType.QUInt8,
                TensorsData(CalibrationMethod.MinMax, ranges),
                [],
                skipped_nodes(proto, options.skip),
                _operators(),
                _extra(proto, thresholds, options, weight_scales(proto, options) if scales is None else scales),
            )
            writer.quantize_model()
        except QuantizeError:
            raise
        except Exception as error:  # whatever a graph that it does not know leads to
            raise QuantizeError(f"ONNX Runtime can't rewrite the model: {one_line(error)}") from None
    return writer.model.model


def skipped_nodes(proto: Any, names: Sequence[str]) -> list[str]:
    """The operators of these names, or which make tensors of these names.

    Raises:
        QuantizeSpecError: there is none.
    """
    known = {node.name: node.name for node in proto.graph.node}
    known |= {output: node.name for node in proto.graph.node for output in node.output}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f", did you mean `{printable(near[0])}`?" if near else ""
            raise QuantizeSpecError(f"no operator or tensor `{printable(name)}`{meant}")
    return [known[name] for name in names]


def _extra(proto: Any, thresholds: Mapping[str, Threshold], options: Options, scales: WeightScales) -> dict[str, Any]:
    return {
        "ActivationSymmetric": options.symmetric,
        "WeightSymmetric": not options.weight_zero_points,
        "QDQKeepRemovableActivations": _needs_clips(proto, thresholds),
        "TensorQuantOverrides": {} if options.weight_zero_points else dict(scales),
    }


def weight_scales(proto: Any, options: Options) -> WeightScales:
    """Of convolutions and dense layers; the writer's own for other operators."""
    arrays = initializer_arrays(proto.graph)
    searched = options.calibration.method in (Method.MSE, Method.GLOBAL)
    found: dict[str, list[dict[str, Any]]] = {}
    for layer in layers_of(proto.graph):
        weight = arrays[layer.weight]
        if options.per_tensor:
            (scale,) = channel_scales(weight.reshape(1, -1), 0, searched)
            found[layer.weight] = [{"scale": scale, "zero_point": np.int8(0)}]
        else:
            scales = channel_scales(weight, layer.axis, searched)
            found[layer.weight] = [{"axis": layer.axis, "scale": each, "zero_point": np.int8(0)} for each in scales]
    return found


def _operators() -> list[str]:
    """All that ONNX Runtime quantizes, as its `quantize_static` takes them."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return sorted({*QDQRegistry, *QLinearOpsRegistry})


def _needs_clips(proto: Any, thresholds: Mapping[str, Threshold]) -> bool:
    """Whether quantized values reach beyond what a Clip lets through, so that it must stay.

    Its range may lack zero, which that of quantized values has; or these have the scale of others.
    """
    arrays = initializer_arrays(proto.graph)
    for node in proto.graph.node:
        if node.op_type != "Clip":
            continue
        low, high = (arrays.get(name) for name in (*node.input[1:3], "", "")[:2])
        kept = thresholds.get(node.output[0], Threshold(0.0, 0.0))
        if low is not None and (min(0.0, kept.low) < low - _NEARLY * np.abs(low)).any():
            return True
        if high is not None and (max(0.0, kept.high) > high + _NEARLY * np.abs(high)).any():
            return True
    return False
