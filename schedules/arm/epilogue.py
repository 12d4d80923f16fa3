"""The end of an ARM kernel: from int32 sums in registers to bytes in memory.

Conversions to integers round half to even and saturate (FCVTNS), and the rules of fixed-point numbers have instructions
of their own (SQRDMULH, SRSHL), so no value is bounded before it is narrowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from schedules.arguments import (
    EXCEPTION_OFFSET_ROW,
    EXCEPTION_ROW,
    HIGHEST,
    LOWEST,
    MULTIPLIER,
    OFFSET_ROW,
    OUTPUT_ZERO_POINT,
    OWN_RATIO,
    RESIDUAL_RATIO,
    RESIDUAL_ZERO_POINT,
    SCALE_ROW,
    SHIFT,
    SUM_CONSTANT,
    SUM_HIGHEST,
    SUM_LOWEST,
    SUM_ZERO_POINT,
)
from schedules.epilogue import DTYPES, SIGN_BIT
from schedules.intrinsics import arm_vectors as arm
from schedules.numerics import Numerics
from schedules.operands import ADDITION_SHIFT
from schedules.written.rows import pieces, store_vector
from schedules.written.signature import Arguments

# Registers of sums that become one of bytes.
PACKED_REGISTERS = 4


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Requantizes and stores the sums of pixels, whose channels are in order."""

    numerics: Numerics
    arguments: Arguments

    def store(self, pixels: Sequence[tuple[Sequence[Any], Any]], channel: Any, valid: int) -> None:
        """Requantize and store the same channels of some pixels.

        Args:
            pixels: for each its sums, int32x4 each, and the index in the output of the first one.
            channel: index in `rescale` of the first sum.
            valid: how many of the channels exist; the others are not stored.
        """
        registers = -(-valid // arm.LANES)
        for first in range(0, registers, PACKED_REGISTERS):
            group = range(first, min(first + PACKED_REGISTERS, registers))
            left, offset = min(len(group) * arm.LANES, valid - first * arm.LANES), first * arm.LANES
            factors = [self._factors(channel + register * arm.LANES) for register in group]
            group_of = [([sums[register] for register in group], at + offset) for sums, at in pixels]
            if self.numerics.requantize is not None:
                self._store_bytes(group_of, factors, left)
                continue
            for own, at in group_of:
                for index, value in enumerate(own):
                    done = index * arm.LANES
                    self._store(value, arm.LANES, at + done, min(arm.LANES, left - done))

    def _store_bytes(self, pixels: Sequence[tuple[Sequence[Any], Any]], factors: Sequence[Any], valid: int) -> None:
        """The same stage of all pixels before the next one: each value is ready some instructions later."""
        count = len(factors)
        scaled = self._scaled([total for sums, _ in pixels for total in sums], [*factors] * len(pixels))
        of_pixels = [scaled[first : first + count] for first in range(0, len(scaled), count)]
        zero_point, bounds = OUTPUT_ZERO_POINT, (LOWEST, HIGHEST, OUTPUT_ZERO_POINT)
        clamps = self.numerics.clamp
        if self.numerics.residual is not None:
            for index, (_, at) in enumerate(pixels):
                words = self._residual(at, valid, count)
                pairs = zip(of_pixels[index], words, strict=True)
                of_pixels[index] = [self._with_residual(own, word) for own, word in pairs]
            is_fixed = self.numerics.requantize is not None and self.numerics.requantize.rule == "fixed"
            zero_point, bounds = (SUM_ZERO_POINT if is_fixed else -1), (SUM_LOWEST, SUM_HIGHEST, -1)
            clamps = self.numerics.residual.clamp
        for packed, (_, at) in zip(self._bytes(of_pixels, zero_point), pixels, strict=True):
            width = packed.ty.dtype.lanes
            if clamps:
                lowest, highest = (T.broadcast(self._bound(place, bounds[2]), width) for place in bounds[:2])
                packed = T.min(T.max(packed, lowest), highest)
            self._store(T.Bind(packed), width, at, valid)

    def _store(self, value: Any, count: int, at: Any, valid: int) -> None:
        for offset, width in pieces(valid, count):
            part = value if width == count else T.Shuffle([value], list(range(offset, offset + width)))
            store_vector(self.arguments.out, at + offset, part, width)

    def _bytes(self, pixels: Sequence[Sequence[Any]], zero_point: int) -> list[Any]:
        """Each pixel's registers of int32 as bytes, at least eight; `zero_point` is a parameter, none if -1."""
        # What is missing to two or four registers repeats the last one, and is not stored.
        filled = [[*registers, *[registers[-1]] * (len(registers) % 2)] for registers in pixels]
        halves = arm.in_turn([arm.narrow_32_to_16(*own[at : at + 2]) for own in filled for at in range(0, len(own), 2)])
        if zero_point >= 0:
            point = T.broadcast(T.cast(self.arguments.params[zero_point], "int16"), 2 * arm.LANES)
            halves = arm.in_turn([arm.add_saturated_16(half, point) for half in halves])
        narrow = [arm.narrow_16_to_8(half, self.numerics.output == "s8") for half in halves]
        if len(narrow) == len(pixels):
            return narrow
        return [T.Shuffle(narrow[first : first + 2], list(range(arm.BYTES))) for first in range(0, len(narrow), 2)]

    def _bound(self, parameter: int, zero_point: int) -> Any:
        params = self.arguments.params
        value = params[parameter] + params[zero_point] if zero_point >= 0 else params[parameter]
        return T.cast(value, DTYPES[self.numerics.output])

    def _factors(self, channel: Any) -> list[Any]:
        """The rows of `rescale` at four channels."""
        requantize = self.numerics.requantize
        if requantize is None:
            return []
        rows = {"float": 1, "fixed": 2, "fused": 4 if requantize.exceptions else 2}[requantize.rule]
        if not requantize.per_channel:
            return [T.broadcast(self.arguments.load_rescale(row, 0, 1), arm.LANES) for row in range(rows)]
        loaded = [self.arguments.load_rescale(row, channel, arm.LANES) for row in range(rows)]
        return [T.Bind(value) if requantize.rule == "float" else arm.bind_int32(value) for value in loaded]

    def _scaled(self, totals: Sequence[Any], factors: Sequence[Sequence[Any]]) -> list[Any]:
        """The int32x4 outputs without zero point and bounds."""
        assert self.numerics.requantize is not None
        match self.numerics.requantize.rule:
            case "float":
                values = arm.in_turn([T.cast(total, "float32x4") for total in totals])
                values = arm.in_turn([value * of[0] for value, of in zip(values, factors, strict=True)])
                return arm.in_turn([arm.nearest_int(value) for value in values])
            case "fixed":
                return [arm.bind_int32(_fixed_point(total, *of)) for total, of in zip(totals, factors, strict=True)]
            case "fused":
                return [
                    arm.bind_int32(self._fused(arm.bind_int32(total), of))
                    for total, of in zip(totals, factors, strict=True)
                ]

    def _fused(self, total: Any, factors: Sequence[Any]) -> Any:
        assert self.numerics.requantize is not None
        offset = factors[OFFSET_ROW]
        if self.numerics.requantize.exceptions:
            magnitude = T.max(total, T.broadcast(T.int32(0), arm.LANES) - total)
            offset = T.Select(magnitude == factors[EXCEPTION_ROW], factors[EXCEPTION_OFFSET_ROW], offset)
        sign = T.bitwise_and(total, T.broadcast(T.int32(SIGN_BIT), arm.LANES))
        scale, signed = (
            T.reinterpret(bits, dtype="float32x4") for bits in (factors[SCALE_ROW], T.bitwise_or(sign, offset))
        )
        return arm.nearest_int(arm.fused(T.cast(total, "float32x4"), scale, signed))

    def _with_residual(self, scaled: Any, residual: Any) -> Any:
        """The int32x4 sum of own outputs and the residual's values; by the fixed rule without zero point."""
        assert self.numerics.requantize is not None
        own = T.min(T.max(scaled, self._int(LOWEST)), self._int(HIGHEST))
        if self.numerics.requantize.rule == "fixed":
            terms = self._term(own, 0) + self._term(residual - self._int(RESIDUAL_ZERO_POINT), 1)
            return self._scaled_down(terms, 2)
        whole = T.cast(own + self._int(OUTPUT_ZERO_POINT), "float32x4")
        inner = arm.fused(T.cast(residual, "float32x4"), self._float(RESIDUAL_RATIO), self._float(SUM_CONSTANT))
        return arm.nearest_int(arm.fused(whole, self._float(OWN_RATIO), inner))

    def _term(self, steps: Any, index: int) -> Any:
        return self._scaled_down(T.shift_left(steps, T.broadcast(T.int32(ADDITION_SHIFT), arm.LANES)), index)

    def _scaled_down(self, value: Any, index: int) -> Any:
        high = arm.bind_int32(arm.doubled_high(value, self._int(MULTIPLIER + index)))
        return arm.bind_int32(arm.shift_right_away(high, self._int(SHIFT + index)))

    def _residual(self, at: Any, valid: int, registers: int) -> list[Any]:
        """The residual's values as int32x4."""
        buffer, count = self.arguments.residual, registers * arm.LANES
        parts = [
            T.Bind(buffer.vload([at + offset], f"{buffer.dtype}x{width}" if width > 1 else buffer.dtype))
            for offset, width in pieces(valid, arm.BYTES)
        ]
        # Bytes that are not stored may have any value; a shuffle needs as many as it gives.
        parts.append(T.broadcast(T.cast(0, buffer.dtype), arm.LANES))
        order = [*range(valid), *[0] * (count - valid)]
        places = [order[first : first + arm.LANES] for first in range(0, count, arm.LANES)]
        return [arm.bind_int32(T.cast(T.Shuffle(parts, place), "int32x4")) for place in places]

    def _int(self, parameter: int) -> Any:
        return T.broadcast(self.arguments.params[parameter], arm.LANES)

    def _float(self, parameter: int) -> Any:
        return T.broadcast(T.reinterpret(self.arguments.params[parameter], dtype="float32"), arm.LANES)


def _fixed_point(total: Any, multiplier: Any, shift: Any) -> Any:
    """`total * multiplier * 2**(shift - 31)`, rounded twice as gemmlowp does."""
    zero = T.broadcast(T.int32(0), arm.LANES)
    high = arm.doubled_high(arm.shift_by(total, T.max(shift, zero)), multiplier)
    return arm.shift_right_away(arm.bind_int32(high), arm.bind_int32(T.min(shift, zero)))
