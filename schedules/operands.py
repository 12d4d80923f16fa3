"""Operands: the values of one layer as its model has them, before anything is folded or packed for a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.errors import OperandError
from int8tune.schedules.numerics import RANGES, Requantize
from int8tune.schedules.workload import Workload

ByteArray = npt.NDArray[np.uint8 | np.int8]
IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]

DTYPES: dict[str, type[np.generic]] = {"u8": np.uint8, "s8": np.int8, "s32": np.int32}

# Within these bounds the product of an int32 and a scale is neither subnormal nor infinite in binary32.
MIN_SCALE, MAX_SCALE = 2.0**-60, 2.0**20
# The fused rule's scales are below this, so that no product leaves int32, not even with an offset of 1.
FUSED_SCALE_LIMIT, MAX_OFFSET = 1 - 2.0**-20, 1.0
# Of the fine rule's scale: what is more belongs to the scale itself.
MAX_REST = 2.0**-20
# With a constant of this magnitude and the largest ratios, an addition stays within int32.
MAX_CONSTANT = 2.0**30
MIN_MULTIPLIER = 1 << 30
MIN_SHIFT, MAX_SHIFT = -31, 30
# The fixed rule adds values shifted left by this many bits, as TFLite's ADD does with 8-bit tensors.
ADDITION_SHIFT = 20


def _no_floats() -> FloatArray:
    return np.empty(0, np.float32)


def _no_ints() -> IntArray:
    return np.empty(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Addend:
    """The residual of a layer, and how it is added to the layer's own output.

    `data` has the workload's output shape. The float rule takes `ratio`, float32 [2]: the scales of the own output and
    of the residual, over that of the sum. The fixed rule takes `multiplier` and `shift`, int32 [3], for the own output,
    the residual and their sum, as `quantize_addition` makes them. The fused rule adds as the float rule does, but takes
    the `constant` of that addition, too, float32 [1]: what the zero points are for is all in it. The arrays of the
    other rules are empty. Sums stay within `clamp_low` and `clamp_high`, which are the bounds of the output type where
    the sum has no clamp.
    """

    data: ByteArray
    clamp_low: int
    clamp_high: int
    zero_point: int = 0
    sum_zero_point: int = 0
    ratio: FloatArray = field(default_factory=_no_floats)
    multiplier: IntArray = field(default_factory=_no_ints)
    shift: IntArray = field(default_factory=_no_ints)
    constant: FloatArray = field(default_factory=_no_floats)

    def validate(self, workload: Workload) -> None:
        """Raise OperandError where the values don't fit the workload."""
        numerics = workload.numerics
        if numerics.residual is None or numerics.requantize is None:
            raise OperandError("the workload has no residual, but one is given")
        _require_array("residual", self.data, workload.output_shape, numerics.residual.data)
        _require_zero_point("residual", self.zero_point, numerics.residual.data)
        _require_zero_point("sum", self.sum_zero_point, numerics.output)
        rule = numerics.addition_rule
        _require_dtype("ratio", self.ratio, (0 if rule == "fixed" else 2,), np.float32)
        _require_array("the addition's multiplier", self.multiplier, (3 if rule == "fixed" else 0,), "s32")
        _require_array("the addition's shift", self.shift, (3 if rule == "fixed" else 0,), "s32")
        _require_dtype("the addition's constant", self.constant, (1 if rule == "fused" else 0,), np.float32)
        _require_scales("ratio", self.ratio)
        _require_addends("the addition's constant's magnitude", np.abs(self.constant), MAX_CONSTANT)
        _require_multipliers("the addition's multiplier", self.multiplier)
        # TFLite's factors are below 1; with larger ones, sums may leave int32.
        _require_shifts("the addition's shift", self.shift, 0)
        bounds = self.clamp_low, self.clamp_high
        _require_bounds("sum", bounds, numerics.output, numerics.residual.clamp)


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """The values of one layer.

    `data` and `weight` have the workload's shapes, `bias` is int32 [OC]. The float rule takes `scale`, float32; the
    fixed rule `multiplier` and `shift`, int32, which stand for `multiplier * 2**(shift - 31)`; the fused rule `scale`
    and `offset`, float32, and with exceptions `exception`, int32, the magnitude of sums (-1 for none) that have another
    offset, `exception_offset`, float32; the fine rule `scale` and `offset`, and `rest`, float32, what the scale is more
    than `scale`. These are
    [OC] per channel, [1] per tensor, and [0] where the rule takes none. Outputs stay within `clamp_low` and
    `clamp_high`, which are the bounds of the output type in a workload without clamp. Where the workload has a
    `residual`, all this is about the layer's own output, before the addition.
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
    offset: FloatArray = field(default_factory=_no_floats)
    exception: IntArray = field(default_factory=_no_ints)
    exception_offset: FloatArray = field(default_factory=_no_floats)
    rest: FloatArray = field(default_factory=_no_floats)
    residual: Addend | None = None

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
        _require_bounds("workload", (self.clamp_low, self.clamp_high), numerics.output, numerics.clamp)
        if self.residual is not None:
            self.residual.validate(workload)
        elif numerics.residual is not None:
            raise OperandError("the workload has a residual, but none is given")

    def _validate_rescale(self, workload: Workload) -> None:
        requantize = workload.numerics.requantize
        taken = _rescale_arrays(requantize) if requantize else ()
        entries = workload.out_channels if requantize and requantize.per_channel else 1
        for name in ("scale", "offset", "multiplier", "shift", "exception", "exception_offset", "rest"):
            dtype = np.int32 if name in ("multiplier", "shift", "exception") else np.float32
            _require_dtype(name, getattr(self, name), (entries if name in taken else 0,), dtype)
        (_require_fused_scales if "offset" in taken else _require_scales)("scale", self.scale)
        _require_multipliers("multiplier", self.multiplier)
        _require_shifts("shift", self.shift, MAX_SHIFT)
        _require_addends("offset", self.offset, MAX_OFFSET)
        _require_exceptions("exception", self.exception)
        _require_addends("exception_offset", self.exception_offset, MAX_OFFSET)
        _require_rests(self.rest, self.scale)


def split_scale(real: npt.NDArray[np.float64]) -> tuple[FloatArray, FloatArray]:
    """The fine rule's scale and rest nearest to numbers."""
    scale = real.astype(np.float32)
    rest = (real - scale).astype(np.float32)
    return scale, np.where(np.abs(rest) < MIN_SCALE, np.float32(0), rest)


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


def quantize_addition(
    own_scale: float, residual_scale: float, sum_scale: float, bits: int = ADDITION_SHIFT
) -> tuple[IntArray, IntArray]:
    """The multipliers and shifts of the fixed rule's addition, as TFLite's ADD prepares them.

    Args:
        bits: by how many both values are shifted left before they are multiplied.

    Raises:
        OperandError: the sum's scale is too small: one step of an input is 2^(bits - 1) steps of the sum or more.
    """
    twice_larger = 2 * max(own_scale, residual_scale)
    reals = (own_scale / twice_larger, residual_scale / twice_larger, twice_larger / (2**bits * sum_scale))
    multiplier, shift = np.array([quantize_multiplier(real) for real in reals], np.int32).T
    if shift[2] > 0:
        raise OperandError(f"the sum's scale must be above 2^-{bits - 1} of the inputs' larger: {sum_scale}")
    return np.ascontiguousarray(multiplier), np.ascontiguousarray(shift)


def _rescale_arrays(requantize: Requantize) -> tuple[str, ...]:
    """The names of the arrays that a rounding rule takes."""
    match requantize.rule:
        case "float":
            return ("scale",)
        case "fixed":
            return ("multiplier", "shift")
        case "fused":
            return ("scale", "offset", *(("exception", "exception_offset") if requantize.exceptions else ()))
        case "fine":
            return ("scale", "offset", "rest")


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


def _require_scales(name: str, values: FloatArray) -> None:
    # Negated, so that NaN is refused too.
    bad = values[~((values >= MIN_SCALE) & (values <= MAX_SCALE))]
    if bad.size:
        raise OperandError(f"{name} must be within 2^-60 and 2^20: {bad[0]}")


def _require_fused_scales(name: str, values: FloatArray) -> None:
    bad = values[~((values >= MIN_SCALE) & (values < FUSED_SCALE_LIMIT))]
    if bad.size:
        raise OperandError(f"{name} must be at least 2^-60 and below 1 - 2^-20: {bad[0]}")


def _require_addends(name: str, values: FloatArray, largest: float) -> None:
    """What is added to products with scales: no last bit of it is below those of the least scale."""
    bad = values[~((values == 0) | ((values >= MIN_SCALE) & (values <= largest)))]
    if bad.size:
        raise OperandError(f"{name} must be 0 or within 2^-60 and {largest:.0f}: {bad[0]}")


def _require_rests(values: FloatArray, scale: FloatArray) -> None:
    if not values.size:
        return
    _require_addends("rest's magnitude", np.abs(values), 1.0)
    bad = np.abs(values) > scale * np.float32(MAX_REST)
    if bad.any():
        raise OperandError(f"rest must be at most 2^-20 of its scale: {values[bad][0]}, {scale[bad][0]}")


def _require_exceptions(name: str, values: IntArray) -> None:
    bad = values[values < -1]
    if bad.size:
        raise OperandError(f"{name} must be at least -1: {bad[0]}")


def _require_multipliers(name: str, values: IntArray) -> None:
    bad = values[(values < MIN_MULTIPLIER) & (values != 0)]
    if bad.size:
        raise OperandError(f"{name} must be 0 or within 2^30 and 2^31 - 1: {bad[0]}")


def _require_shifts(name: str, values: IntArray, highest: int) -> None:
    bad = values[(values < MIN_SHIFT) | (values > highest)]
    if bad.size:
        raise OperandError(f"{name} must be within {MIN_SHIFT} and {highest}: {bad[0]}")


def _require_bounds(owner: str, bounds: tuple[int, int], data_type: str, has_clamp: bool) -> None:
    for value in bounds:
        _require_int(f"the {owner}'s clamp bounds", value)
    (low, high), (lowest, highest) = bounds, RANGES[data_type]
    if not lowest <= low <= high <= highest:
        raise OperandError(f"the {owner}'s clamp bounds must ascend within {lowest} and {highest}: {low} to {high}")
    if not has_clamp and bounds != (lowest, highest):
        raise OperandError(f"the {owner} has no clamp, its bounds are {lowest} to {highest}: {low} to {high}")
