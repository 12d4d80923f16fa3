"""Schemes: how a model is quantized, as a user names them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.options import Calibration, Options, calibration_named, is_signed

PER_CHANNEL, PER_TENSOR = "per-channel", "per-tensor"
MOST = 64
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to quantize a model.

    Attributes:
        calibration: None: as a quantizer does it that is not this library's.
    """

    calibration: Calibration | None
    per_tensor: bool = False
    is_signed: bool = False

    @property
    def form(self) -> str:
        """What is not as usual, such as `per-tensor, s8`."""
        return ", ".join([*([PER_TENSOR] if self.per_tensor else []), *(["s8"] if self.is_signed else [])])

    def __str__(self) -> str:
        return ", ".join(filter(None, [str(self.calibration or ""), self.form]))

    def options(self, common: Options) -> Options:
        """What is chosen for all schemes, with what this one chooses."""
        chosen = common.calibration if self.calibration is None else self.calibration
        return replace(common, calibration=chosen, per_tensor=self.per_tensor, is_signed=self.is_signed)


def schemes_of(calibrations: Sequence[str], weights: Sequence[str], activations: Sequence[str]) -> tuple[Scheme, ...]:
    """Each calibration with each form of weights and each type of data.

    Raises:
        QuantizeSpecError: one of them is unknown, there is none, or there are too many.
    """
    found = [
        Scheme(calibration_named(how), _is_per_tensor(weight), is_signed(data))
        for how, weight, data in itertools.product(calibrations, weights, activations)
    ]
    if not 1 <= len(found) <= MOST:
        raise QuantizeSpecError(f"1 to {MOST} schemes can be compared: {len(found)}")
    return tuple(dict.fromkeys(found))


def _is_per_tensor(weights: str) -> bool:
    if weights not in (PER_CHANNEL, PER_TENSOR):
        raise QuantizeSpecError(f"weights are {PER_CHANNEL} or {PER_TENSOR}: {weights[:_SHOWN]}")
    return weights == PER_TENSOR
