"""Float models made into quantized ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from int8tune.compiler.report import Report, ignore
from int8tune.quantize.comparison import Distance
from int8tune.quantize.options import Calibration, Options, calibration_named, is_signed
from int8tune.quantize.quantizer import quantize as quantized
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.ranges_file import read_ranges
from int8tune.quantize.samples.base import Normalization
from int8tune.quantize.samples.given import DataLike, samples_of
from int8tune.quantize.tflite_models import read_float_tflite
from int8tune.quantize.tflite_writer import quantize_tflite
from int8tune.quantize.thresholds import Threshold
from int8tune.results.atomic import require_folder, write_bytes_atomic
from int8tune.tuner.api.float_models import float_model_of, is_tflite
from int8tune.tuner.api.frames import frame_of, listed

if TYPE_CHECKING:
    import pandas

DEFAULT_CALIBRATION = str(Calibration())


@dataclass(frozen=True, slots=True, repr=False)
class QuantizedModel:
    """A quantized model, ONNX in the form QDQ, or TFLite.

    Attributes:
        proto: an `onnx.ModelProto`; of a TFLite model, its bytes.
        file: where it was written; None if nowhere.
        ranges: of the float model's tensors.
        thresholds: which part of its range each of them has.
        rule: by which these were chosen; with `global`, the one that was found best.
        gone: the tensor that has taken the place of each one that no longer exists, by the names of the float model.
        folded: the operator that each one has become a part of, by the names of the float model.
        distance: from the float model, over the calibration samples; None where only ranges were given.
    """

    proto: Any
    file: Path | None
    ranges: Ranges
    thresholds: Mapping[str, Threshold]
    rule: str
    gone: Mapping[str, str]
    folded: Mapping[str, str]
    distance: Distance | None

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each float tensor, in the order of the graph."""
        rows = [
            {
                "name": each.name,
                "producer": each.producer,
                "minimum": each.minimum,
                "maximum": each.maximum,
                "low": self.thresholds[each.name].low,
                "high": self.thresholds[each.name].high,
                "folded_into": self.gone.get(each.name),
            }
            for each in self.ranges.tensors.values()
        ]
        return frame_of(rows)

    def __repr__(self) -> str:
        where = f", {self.file}" if self.file else ""
        return f"<Quantized {self.ranges.model}: {listed(len(self.thresholds), 'tensor')}{where}>"


def quantize(
    model: str | Path | Any,
    data: DataLike | None = None,
    output: str | Path | None = None,
    *,
    calibration: str = DEFAULT_CALIBRATION,
    per_tensor: bool = False,
    activations: str = "u8",
    symmetric: bool = False,
    weight_zero_points: bool = False,
    skip: Sequence[str] = (),
    equalize: bool = True,
    round_weights: bool = True,
    bias_correction: bool = True,
    smooth: float | None = None,
    share_scales: bool = False,
    ranges: str | Path | None = None,
    count: int | None = None,
    divide: float = 1.0,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    trust: bool = False,
    report: Report = ignore,
) -> QuantizedModel:
    """Quantize a float model to 8 bits by what its tensors are on samples.

    Args:
        model: a float model: a file (.onnx, .tflite), a program of torch.export (.pt2, or as it is), or a
            module of PyTorch's. A TFLite model becomes one of s8 data and weights, by ranges alone.
        data: samples, as `profile` takes them; may be left out where `ranges` are given.
        output: a file for the model; none if None.
        calibration: how the ranges of quantized values are chosen: `max`, `percentile[:p]`, `mse`, `kl` or `global`.
        per_tensor: one scale for all weights of an operator, not one for each output channel.
        activations: the type of data, `u8` or `s8`.
        symmetric: the zero point of data is the middle of its type.
        weight_zero_points: weights have zero points, too; with `per_tensor` alone.
        skip: operators that stay in float, by their names or those of the tensors that they make.
        equalize: make channels of data alike before (cross-layer equalization); needs samples.
        round_weights: round weights so that each layer's outputs stay where they were (GPTQ); needs samples.
        bias_correction: let biases take up the mean errors of outputs; needs samples.
        smooth: make channels of what dense layers read alike before (SmoothQuant), 0 to 1; not at all if None.
        share_scales: one scale for the operands and the result of each Add and Concat.
        ranges: a file that `profile` wrote for this model.
        count: how many samples are used, the first ones; all if None.
        divide: values of samples are divided by it.
        mean: what is then taken from each channel; one number is for all.
        std: what each channel is then divided by.
        trust: load a .pt2 file, which may run code that is in it.
        report: is told how far it is.

    Raises:
        NoOnnxError: onnx or onnxruntime is not installed.
        NoTfliteError: LiteRT or ai-edge-quantizer is not installed, and needed.
        NoTorchError: torch or onnxscript is not installed, and needed.
        UntrustedProgramError: a .pt2 file is not trusted.
        FloatModelError: the model can't be read or run, is quantized already, or a tensor has NaN.
        CalibrationError: the samples can't be read, or don't fit the model.
        RangesError: the ranges can't be read, or are of another model.
        QuantizeSpecError: what is chosen can't be used, or contradicts itself.
        QuantizeError: ONNX Runtime can't rewrite the model.
        ExportError: the file can't be written.
    """
    has_sign = is_signed(activations)
    if output is not None:
        require_folder(Path(output))
    options = Options(
        calibration_named(calibration),
        per_tensor,
        has_sign,
        symmetric,
        weight_zero_points,
        tuple(skip),
        equalize,
        round_weights,
        bias_correction,
        smooth,
        share_scales,
    )
    normalization = Normalization(divide, tuple(mean), tuple(std))
    given = None if ranges is None else read_ranges(Path(ranges))
    file = None if output is None else Path(output)
    if is_tflite(model):
        samples = None if data is None else samples_of(data, count, normalization)
        tflite = quantize_tflite(read_float_tflite(Path(model)), samples, options, given, report)
        _write(file, tflite.content)
        rule = str(options.calibration)
        return QuantizedModel(tflite.content, file, tflite.ranges, tflite.thresholds, rule, {}, {}, tflite.distance)
    read, data = float_model_of(model, data, trust)
    samples = None if data is None else samples_of(data, count, normalization)
    made = quantized(read, samples, options, given, report)
    _write(file, made.proto.SerializeToString(deterministic=True))
    return QuantizedModel(
        made.proto, file, made.ranges, made.thresholds, str(made.rule), made.gone, made.folded, made.distance
    )


def _write(file: Path | None, content: bytes) -> None:
    if file is not None:
        write_bytes_atomic(file, content)
