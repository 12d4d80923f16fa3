"""Which layers of a float model are hurt by 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from int8tune.compiler.report import Report, ignore
from int8tune.quantize.comparison import Distance
from int8tune.quantize.options import Options, calibration_named, is_signed
from int8tune.quantize.samples.base import Normalization
from int8tune.quantize.samples.given import DataLike, samples_of
from int8tune.quantize.sensitivity import LayerSensitivity
from int8tune.quantize.sensitivity import sensitivity as found_by
from int8tune.results.shares import Share
from int8tune.tuner.api.float_models import float_model_of
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.api.quantizing import DEFAULT_CALIBRATION
from int8tune.tuner.schemes.judged import judge_of, labels_of

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, repr=False)
class SensitivityResult:
    """What quantizing each layer costs.

    Attributes:
        layers: in the order of the graph.
        whole: how far the model is from itself where all of it is quantized.
        float_top1: of the float model; None without labels.
    """

    layers: tuple[LayerSensitivity, ...]
    whole: Distance
    float_top1: Share | None = None

    @property
    def worst(self) -> LayerSensitivity:
        """The layer that costs most where it alone is quantized."""
        return min(self.layers, key=lambda each: _db(each.alone))

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each layer, in the order of the graph."""
        rows = [
            {
                "name": each.name,
                "operator": each.operator,
                "tensor": each.tensor,
                "alone_db": each.alone.sqnr_db,
                "alone_agreement": each.alone.agreement,
                "alone_top1": each.alone.top1,
                "all_but_it_db": each.all_but_it.sqnr_db,
                "all_but_it_agreement": each.all_but_it.agreement,
                "all_but_it_top1": each.all_but_it.top1,
                "along_db": each.along_db,
            }
            for each in self.layers
        ]
        return frame_of(rows)

    def __repr__(self) -> str:
        return f"<Sensitivity of {listed(len(self.layers), 'layer')}, the worst is {self.worst.name}>"


def sensitivity(
    model: str | Path | Any,
    data: DataLike,
    *,
    test: DataLike | None = None,
    labels: str | Path | Sequence[int] | None = None,
    calibration: str = DEFAULT_CALIBRATION,
    per_tensor: bool = False,
    activations: str = "u8",
    equalize: bool = True,
    skip: Sequence[str] = (),
    count: int | None = None,
    divide: float = 1.0,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    trust: bool = False,
    report: Report = ignore,
) -> SensitivityResult:
    """Quantize each layer of a float model alone, and everything but it.

    Weights are rounded to the nearest, and biases stay what they are: a layer's damage is its own.

    Args:
        model: a float model: a file (.onnx), a program of torch.export (.pt2, or as it is), or a module of PyTorch's.
        data: samples by which ranges are chosen, as `profile` takes them.
        test: samples on which models are compared; `data` if None.
        labels: the classes of these samples, or a file of them (.npy, .npz): what each layer costs of top-1, too.
        calibration: how the ranges of quantized values are chosen: `max`, `percentile[:p]`, `mse`, `kl` or `global`.
        per_tensor: one scale for all weights of an operator, not one for each output channel.
        activations: the type of data, `u8` or `s8`.
        equalize: make channels of data alike before (cross-layer equalization).
        skip: operators that stay in float in all that is compared.
        count: how many samples are used of each file, the first ones; all if None.
        divide: values of samples are divided by it.
        mean: what is then taken from each channel; one number is for all.
        std: what each channel is then divided by.
        trust: load a .pt2 file, which may run code that is in it.
        report: is told how far it is.

    Raises:
        NoOnnxError: onnx or onnxruntime is not installed.
        NoTorchError: torch or onnxscript is not installed, and needed.
        UntrustedProgramError: a .pt2 file is not trusted.
        FloatModelError: the model can't be read or run, is quantized already, or a tensor has NaN.
        CalibrationError: the samples can't be read, or don't fit the model.
        SamplesError: labels can't be read, or don't fit the samples or the model.
        QuantizeSpecError: what is chosen can't be used, or the model has no layers.
        QuantizeError: ONNX Runtime can't rewrite the model.
    """
    has_sign = is_signed(activations)
    options = Options(calibration_named(calibration), per_tensor, has_sign, skip=tuple(skip), equalize=equalize)
    normalization = Normalization(divide, tuple(mean), tuple(std))
    read, data = float_model_of(model, data, trust)
    samples = samples_of(data, count, normalization)
    tests = None if test is None else samples_of(test, count, normalization, is_test=True)
    if labels is None:
        found = found_by(read, samples, options, tests, report=report)
        return SensitivityResult(found.layers, found.whole)
    classes = labels_of(labels, count)
    judge = judge_of(read, tests or samples, classes)
    found = found_by(read, samples, options, tests, classes, report)
    return SensitivityResult(found.layers, found.whole, judge.answers(judge.outputs).top1)


def _db(distance: Distance) -> float:
    return float("inf") if distance.sqnr_db is None else distance.sqnr_db
