"""Which layers of a float model are hurt by 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.compiler.report import Report, ignore
from int8tune.quantize.comparison import Distance
from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.options import Options, calibration_named, is_signed
from int8tune.quantize.samples.base import Normalization
from int8tune.quantize.samples.given import DataLike, samples_of
from int8tune.quantize.sensitivity import LayerSensitivity
from int8tune.quantize.sensitivity import sensitivity as found_by
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.api.quantizing import DEFAULT_CALIBRATION

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, repr=False)
class SensitivityResult:
    """What quantizing each layer costs.

    Attributes:
        layers: in the order of the graph.
        whole: how far the model is from itself where all of it is quantized.
    """

    layers: tuple[LayerSensitivity, ...]
    whole: Distance

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
                "all_but_it_db": each.all_but_it.sqnr_db,
                "all_but_it_agreement": each.all_but_it.agreement,
                "along_db": each.along_db,
            }
            for each in self.layers
        ]
        return frame_of(rows)

    def __repr__(self) -> str:
        return f"<Sensitivity of {listed(len(self.layers), 'layer')}, the worst is {self.worst.name}>"


def sensitivity(
    model: str | Path,
    data: DataLike,
    *,
    test: DataLike | None = None,
    calibration: str = DEFAULT_CALIBRATION,
    per_tensor: bool = False,
    activations: str = "u8",
    equalize: bool = True,
    skip: Sequence[str] = (),
    count: int | None = None,
    divide: float = 1.0,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    report: Report = ignore,
) -> SensitivityResult:
    """Quantize each layer of a float model alone, and everything but it.

    Weights are rounded to the nearest, and biases stay what they are: a layer's damage is its own.

    Args:
        model: a float model (.onnx).
        data: samples by which ranges are chosen, as `profile` takes them.
        test: samples on which models are compared; `data` if None.
        calibration: how the ranges of quantized values are chosen: `max`, `percentile[:p]`, `mse` or `kl`.
        per_tensor: one scale for all weights of an operator, not one for each output channel.
        activations: the type of data, `u8` or `s8`.
        equalize: make channels of data alike before (cross-layer equalization).
        skip: operators that stay in float in all that is compared.
        count: how many samples are used of each file, the first ones; all if None.
        divide: values of samples are divided by it.
        mean: what is then taken from each channel; one number is for all.
        std: what each channel is then divided by.
        report: is told how far it is.

    Raises:
        NoOnnxError: onnx or onnxruntime is not installed.
        FloatModelError: the model can't be read or run, is quantized already, or a tensor has NaN.
        CalibrationError: the samples can't be read, or don't fit the model.
        QuantizeSpecError: what is chosen can't be used, or the model has no layers.
        QuantizeError: ONNX Runtime can't rewrite the model.
    """
    has_sign = is_signed(activations)
    options = Options(calibration_named(calibration), per_tensor, has_sign, skip=tuple(skip), equalize=equalize)
    normalization = Normalization(divide, tuple(mean), tuple(std))
    samples = samples_of(data, count, normalization)
    tests = None if test is None else samples_of(test, count, normalization, is_test=True)
    found = found_by(read_float_model(Path(model)), samples, options, tests, report)
    return SensitivityResult(found.layers, found.whole)


def _db(distance: Distance) -> float:
    return float("inf") if distance.sqnr_db is None else distance.sqnr_db
