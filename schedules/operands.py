"""Operands: the values of one layer as its model has them, before anything is folded or packed for a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from schedules.errors import OperandError
from schedules.numerics import RANGES
from schedules.workload import Workload

ByteArray = npt.NDArray[np.uint8 | np.int8]
IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]

DTYPES: dict[str, type[np.generic]] = {"u8": np.uint8, "s8": np.int8, "s32": np.int32}

# Within these bounds the product of an int32 and a scale is neither subnormal nor infinite in binary32.
MIN_SCALE, MAX_SCALE = 2.0**-60, 2.0**20
MIN_MULTIPLIER = 1 << 30
MIN_SHIFT, MAX_SHIFT = -31, 30


def _no_floats() -> FloatArray:
    return np.empty(0, np.float32)


def _no_ints() -> IntArray:
    return np.empty(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """The values of one layer.

    `data` and `weight` have the workload's shapes, `bias` is int32 [OC]. The float rule takes `scale`, float32; the
    fixed rule `multiplier` and `shift`, int32, which stand for `multiplier * 2**(shift - 31)`. These are [OC] per
    channel, [1] per tensor, and [0] where the rule takes none. Outputs stay within `clamp_low` and `clamp_high`, which
    are the bounds of the output type in a workload without clamp.
    """

    data: ByteArray
    weight: ByteArray
    bias: IntArray
    clamp_low: int
    clamp_high: int
    data_zero_point: int = 0
    weight_zero_point: int = 0
    output_zero_point: int = 0
    scale: FloatArray = field(default_factory=_no_floats)
    multiplier: IntArray = field(default_factory=_no_ints)
    shift: IntArray = field(default_factory=_no_ints)

    def validate(self, workload: Workload) -> None:
        """Raise OperandError where the values don't fit the workload."""
        numerics = workload.numerics
        _require_array("data", self.data, workload.data_shape, numerics.data)
        _require_array("weight", self.weight, workload.weight_shape, numerics.weight)
        _require_array("bias", self.bias, (workload.out_channels,), "s32")
        _require_zero_point("data", self.data_zero_point, numerics.data)
        _require_zero_point("weight", self.weight_zero_point, numerics.weight)
        if self.weight_zero_point and not numerics.weight_zero_point:
            raise OperandError(f"the workload has no weight zero point, but one is given: {self.weight_zero_point}")
        if numerics.output == "s32" and self.output_zero_point:
            raise OperandError(f"an s32 output takes no zero point: {self.output_zero_point}")
        _require_zero_point("output", self.output_zero_point, numerics.output)
        self._validate_rescale(workload)
        self._validate_clamp(workload)

    def _validate_rescale(self, workload: Workload) -> None:
        requantize = workload.numerics.requantize
        rule = requantize.rule if requantize else None
        entries = workload.out_channels if requantize and requantize.per_channel else 1
        floats, ints = (entries if rule == "float" else 0), (entries if rule == "fixed" else 0)
        _require_dtype("scale", self.scale, (floats,), np.float32)
        _require_array("multiplier", self.multiplier, (ints,), "s32")
        _require_array("shift", self.shift, (ints,), "s32")
        # Negated, so that NaN is refused too.
        bad = self.scale[~((self.scale >= MIN_SCALE) & (self.scale <= MAX_SCALE))]
        if bad.size:
            raise OperandError(f"scale must be within 2^-60 and 2^20: {bad[0]}")
        bad_multiplier = self.multiplier[(self.multiplier < MIN_MULTIPLIER) & (self.multiplier != 0)]
        if bad_multiplier.size:
            raise OperandError(f"multiplier must be 0 or within 2^30 and 2^31 - 1: {bad_multiplier[0]}")
        bad_shift = self.shift[(self.shift < MIN_SHIFT) | (self.shift > MAX_SHIFT)]
        if bad_shift.size:
            raise OperandError(f"shift must be within {MIN_SHIFT} and {MAX_SHIFT}: {bad_shift[0]}")

    def _validate_clamp(self, workload: Workload) -> None:
        low, high = RANGES[workload.numerics.output]
        for value in (self.clamp_low, self.clamp_high):
            _require_int("clamp bounds", value)
        if not low <= self.clamp_low <= self.clamp_high <= high:
            raise OperandError(
                f"clamp bounds must ascend within {low} and {high}: {self.clamp_low} to {self.clamp_high}"
            )
        if not workload.numerics.clamp and (self.clamp_low, self.clamp_high) != (low, high):
            raise OperandError(
                f"the workload has no clamp, its bounds are {low} to {high}: {self.clamp_low} to {self.clamp_high}"
            )


def quantize_multiplier(real: float) -> tuple[int, int]:
    """The (multiplier, shift) nearest to `real` >= 0, as TFLite's QuantizeMultiplier computes them.

    A number too small for a shift of -31 becomes (0, 0).

    Raises:
        OperandError: `real` is negative, not finite, or above what a shift of 30 reaches.
    """
    if not math.isfinite(real) or real < 0:
        raise OperandError(f"a multiplier must be finite and not negative: {real}")
    fraction, shift = math.frexp(real)
    # floor(x + 1/2) is exact here: the sum has fewer than 53 bits unless `real` itself was subnormal.
    multiplier = math.floor(math.ldexp(fraction, 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    if shift < MIN_SHIFT or multiplier == 0:
        return 0, 0
    if shift > MAX_SHIFT:
        raise OperandError(f"a multiplier must be below 2^{MAX_SHIFT}: {real}")
    return multiplier, shift


def _require_array(name: str, array: object, shape: tuple[int, ...], data_type: str) -> None:
    _require_dtype(name, array, shape, DTYPES[data_type])


def _require_dtype(name: str, array: object, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    if not isinstance(array, np.ndarray):
        raise OperandError(f"{name} must be a numpy array: {type(array).__name__}")
    if array.dtype != dtype:
        raise OperandError(f"{name} must be of type {np.dtype(dtype)}: {array.dtype}")
    if array.shape != shape:
        raise OperandError(f"{name} must have shape {shape}: {array.shape}")


def _require_int(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise OperandError(f"{name} must be integers: {value!r}")


def _require_zero_point(name: str, value: Any, data_type: str) -> None:
    _require_int("zero points", value)
    low, high = RANGES[data_type]
    if not low <= value <= high:
        raise OperandError(f"the {name} zero point must be within {low} and {high}: {value}")
