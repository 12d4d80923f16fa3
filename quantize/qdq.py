"""Quantized models as QuantizeLinear and DequantizeLinear around float operators.

ONNX Runtime's QDQQuantizer rewrites the graph; ranges of data and scales of weights are this package's.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.activated_layers import activated_layers
from int8tune.quantize.errors import QuantizeError, QuantizeSpecError
from int8tune.quantize.float_model import one_line, quiet
from int8tune.quantize.forms import Form
from int8tune.quantize.kept_in_float import keep_in_float
from int8tune.quantize.left_in_float import left_in_float
from int8tune.quantize.options import Method, Options
from int8tune.quantize.order import sort_nodes
from int8tune.quantize.tensors import initializer_arrays
from int8tune.quantize.thresholds import Threshold
from int8tune.quantize.weights import LAYER_OPERATORS, channel_scales, layers_of, scale_and_zero_point
from int8tune.quantize.words import WordReaders, read_words, without_activations, word_readers
from int8tune.results.text import printable

Array = npt.NDArray[Any]

# The first in which QuantizeLinear has types of 16 bits.
WORDS_OPSET = 21

# Of ONNX Runtime's quantizer.
_NO_OUTPUTS = "OpTypesToExcludeOutputQuantization"
# Ends of ranges are computed from histograms.
_NEARLY = 1e-6

WeightScales = Mapping[str, list[dict[str, Any]]]
"""Scales and zero points by the names of weights, as ONNX Runtime's quantizer takes them."""


def quantized(
    proto: Any,
    thresholds: Mapping[str, Threshold],
    options: Options,
    scales: WeightScales | None = None,
    extremes: Mapping[str, Threshold] | None = None,
    with_outputs: bool = True,
) -> Any:
    """A model in the form QDQ.

    Args:
        proto: a prepared float model.
        thresholds: of its float tensors.
        scales: what `weight_scales` gives, where that is known already.
        extremes: the whole range of each tensor, which those of 16 bits have; `thresholds` if None.
        with_outputs: what layers make is quantized, too, and not only what others read of it.

    Raises:
        QuantizeSpecError: an operator that is to be skipped is not there.
        QuantizeError: the model can't be rewritten.
    """
    import onnx

    in_float = skipped_nodes(proto, left_in_float(proto, options))
    words = _word_readers(proto, options, in_float)
    copied = onnx.ModelProto()
    copied.CopyFrom(proto)
    if words:
        copied = _for_words(copied, words, in_float, thresholds, options)
    overrides = {
        **(weight_scales(proto, options) if scales is None else scales),
        **_word_overrides(copied.graph, words, extremes or thresholds, options, in_float),
    }
    made = _written(copied, thresholds, options, in_float, overrides, with_outputs)
    read_words(made.graph, words, in_float)
    keep_in_float(made.graph)
    sort_nodes(made.graph)
    return made


def _written(
    copied: Any,
    thresholds: Mapping[str, Threshold],
    options: Options,
    in_float: list[str],
    overrides: WeightScales,
    with_outputs: bool,
) -> Any:
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.quant_utils import QuantType

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
                in_float,
                _operators(),
                _extra(copied, thresholds, options, overrides)
                | ({} if with_outputs else {_NO_OUTPUTS: LAYER_OPERATORS}),
            )
            writer.quantize_model()
        except QuantizeError:
            raise
        except Exception as error:  # whatever a graph that it does not know leads to
            raise QuantizeError(f"ONNX Runtime can't rewrite the model: {one_line(error)}") from None
    return writer.model.model


def _word_readers(proto: Any, options: Options, in_float: Sequence[str]) -> WordReaders:
    if Form.WORDS not in options.forms.values():
        return {}
    wanted = [layer for layer in activated_layers(proto) if options.forms.get(layer.name) is Form.WORDS]
    return word_readers(proto.graph, [layer for layer in wanted if layer.name not in in_float], in_float)


def _for_words(
    copied: Any, words: WordReaders, in_float: Sequence[str], thresholds: Mapping[str, Threshold], options: Options
) -> Any:
    """A model whose standard operators may store 16 bits, if its version can be raised so far.

    Otherwise its operators that do so are ONNX Runtime's own (com.microsoft).
    """
    from onnx import version_converter

    if not options.symmetric and not _needs_clips(copied, thresholds):
        without_activations(copied, words, in_float)
    if _opset(copied) >= WORDS_OPSET:
        return copied
    try:
        return version_converter.convert_version(copied, WORDS_OPSET)
    except Exception:  # the converter's own classes
        return copied


def _opset(proto: Any) -> int:
    return int(next(each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")))


def _word_overrides(
    graph: Any,
    words: WordReaders,
    extremes: Mapping[str, Threshold],
    options: Options,
    in_float: Sequence[str],
) -> dict[str, list[dict[str, Any]]]:
    """Types and ranges of tensors of 16 bits, as ONNX Runtime's quantizer takes them."""
    from onnxruntime.quantization.quant_utils import QuantType

    word, byte = (QuantType.QInt16, QuantType.QInt8) if options.is_signed else (QuantType.QUInt16, QuantType.QUInt8)
    found = {}
    for name, readers in words.items():
        if name not in extremes:
            continue
        low, high = (np.array(value, np.float32) for value in extremes[name])
        override = {"quant_type": word, "rmin": low, "rmax": high}
        if others := {node.name for node in graph.node if name in node.input} - readers - set(in_float):
            override["convert"] = {"quant_type": byte, "recv_nodes": others}
        found[name] = [override]
    return found


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


def _extra(
    proto: Any, thresholds: Mapping[str, Threshold], options: Options, overrides: WeightScales
) -> dict[str, Any]:
    return {
        "ActivationSymmetric": options.symmetric,
        "WeightSymmetric": not options.weight_zero_points,
        "QDQKeepRemovableActivations": _needs_clips(proto, thresholds),
        "TensorQuantOverrides": dict(overrides),
        # Standard operators of older versions store no 16 bits.
        "UseQDQContribOps": Form.WORDS in options.forms.values() and _opset(proto) < WORDS_OPSET,
    }


def weight_scales(proto: Any, options: Options) -> WeightScales:
    """The scales of the weights of convolutions and dense layers; the writer's own for other operators."""
    arrays = initializer_arrays(proto.graph)
    searched = options.calibration.method in (Method.MSE, Method.GLOBAL)
    return {
        layer.weight: _scales(arrays[layer.weight], layer.axis, options.weight_form(layer.node.name), searched)
        for layer in layers_of(proto.graph)
    }


def _scales(weight: Array, axis: int, form: Form, searched: bool) -> list[dict[str, Any]]:
    if form is Form.ZERO_POINTS:
        scale, zero_point = scale_and_zero_point(weight)
        return [{"scale": scale, "zero_point": zero_point}]
    if form is Form.PER_TENSOR:
        (scale,) = channel_scales(weight.reshape(1, -1), 0, searched)
        return [{"scale": scale, "zero_point": np.int8(0)}]
    scales = channel_scales(weight, axis, searched)
    return [{"axis": axis, "scale": each, "zero_point": np.int8(0)} for each in scales]


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
