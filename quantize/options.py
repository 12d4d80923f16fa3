"""How a model is quantized: what a user may choose."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.forms import Form

DEFAULT_PERCENTILE = 99.999
LEAST_PERCENTILE = 90.0
_SHOWN = 60


class Method(StrEnum):
    """How the range of a tensor's quantized values is chosen."""

    MAX = "max"
    PERCENTILE = "percentile"
    MSE = "mse"
    KL = "kl"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Calibration:
    """A method, and how many percent of the values its range has; that counts for `percentile` alone."""

    method: Method = Method.MSE
    percentile: float = DEFAULT_PERCENTILE

    def __str__(self) -> str:
        return f"{self.method}:{self.percentile:g}" if self.method is Method.PERCENTILE else str(self.method)


@dataclass(frozen=True, slots=True)
class Options:
    """What is chosen.

    Attributes:
        per_tensor: one scale for all weights of an operator, not one for each channel.
        is_signed: data is s8, not u8.
        symmetric: the zero point of data is the middle of its type.
        weight_zero_points: weights have zero points, too; for weights with one scale alone.
        skip: operators that stay in float, by their names or those of a tensor that they make.
        equalize: channels are made alike before, but with one scale for all weights, which would lose by it. This and
            what follows needs samples, not only ranges.
        round_weights: weights are rounded so that outputs stay where they were.
        bias_correction: biases take up the mean errors of outputs.
        smooth: how far what dense layers read is smoothed, 0 to 1, before; not at all if None. This needs samples, too.
        share_scales: the operands and the result of each Add and Concat have one scale.
        forms: of layers that are computed in another form than the rest, by the names of their operators.
    """

    calibration: Calibration = Calibration()
    per_tensor: bool = False
    is_signed: bool = False
    symmetric: bool = False
    weight_zero_points: bool = False
    skip: tuple[str, ...] = ()
    equalize: bool = True
    round_weights: bool = True
    bias_correction: bool = True
    smooth: float | None = None
    share_scales: bool = False
    forms: Mapping[str, Form] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.weight_zero_points and not self.per_tensor:
            # ONNX Runtime's convolutions take one zero point for all channels.
            raise QuantizeSpecError("zero points of weights need one scale for all channels: add --per-tensor")
        if self.smooth is not None and not 0 <= self.smooth <= 1:
            raise QuantizeSpecError(f"smoothing must be 0 to 1: {self.smooth:g}")

    @property
    def equalizes(self) -> bool:
        """Whether channels are made alike: one scale for all weights can't follow what that does to them."""
        return self.equalize and not self.per_tensor

    @property
    def usual_form(self) -> Form:
        """That of all layers which `forms` does not name."""
        if self.weight_zero_points:
            return Form.ZERO_POINTS
        return Form.PER_TENSOR if self.per_tensor else Form.PER_CHANNEL

    def weight_form(self, layer: str) -> Form:
        """The form of 8-bit data whose weights a layer has, by the name of its operator."""
        form = self.forms.get(layer, self.usual_form)
        return self.usual_form if form in (Form.WORDS, Form.FLOAT) else form


def chosen_by(calibration: Calibration, rule: Calibration) -> str:
    """A calibration, and the rule that it has found, in words."""
    return str(calibration) if calibration == rule else f"{calibration} ({rule})"


def is_signed(activations: str) -> bool:
    """Whether a type of data, `u8` or `s8`, has a sign.

    Raises:
        QuantizeSpecError: it is neither.
    """
    if activations not in ("u8", "s8"):
        raise QuantizeSpecError(f"data is u8 or s8: {activations}")
    return activations == "s8"


def calibration_named(text: str) -> Calibration:
    """A method, such as `mse` or `percentile:99.99`.

    Raises:
        QuantizeSpecError: there is no such method, or no such percentile.
    """
    name, separator, percent = text.partition(":")
    if name not in tuple(Method) or (separator and name != Method.PERCENTILE):
        raise QuantizeSpecError(f"unknown calibration `{text[:_SHOWN]}`, known: max, percentile[:p], mse, kl, global")
    if not separator:
        return Calibration(Method(name))
    value = float(percent) if re.fullmatch(r"\d{1,3}(\.\d{1,9})?", percent) else math.nan
    if not LEAST_PERCENTILE <= value <= 100:
        raise QuantizeSpecError(f"a percentile must be {LEAST_PERCENTILE:g} to 100: {percent[:_SHOWN]}")
    return Calibration(Method(name), value)
