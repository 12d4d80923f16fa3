"""The end of an ARM kernel: from int32 sums in registers to bytes in memory.

Conversions to integers round half to even and saturate (FCVTNS), and the rules of fixed-point numbers have instructions
of their own (SQRDMULH, SRSHL), so no value is bounded before it is narrowed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from int8tune.schedules.arguments import (
    HIGHEST,
    LOWEST,
    MULTIPLIER,
    OUTPUT_ZERO_POINT,
    OWN_RATIO,
    RESIDUAL_RATIO,
    RESIDUAL_ZERO_POINT,
    SHIFT,
    SUM_CONSTANT,
    SUM_HIGHEST,
    SUM_LOWEST,
    SUM_ZERO_POINT,
)
from int8tune.schedules.arm.pipeline import staggered
from int8tune.schedules.epilogue import DTYPES
from int8tune.schedules.intrinsics import arm_vectors as arm
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.operands import ADDITION_SHIFT
from int8tune.schedules.written.bound import bind_int32
from int8tune.schedules.written.rows import pieces, store_vector
from int8tune.schedules.written.scaling import scale_fine, scale_fused
from int8tune.schedules.written.signature import Arguments

# Registers of sums that become one of bytes; how many stages such groups are behind each other where
# they overlap, and where they don't.
PACKED_REGISTERS, GROUP_DISTANCE, FAR = 4, 5, 100
# Some registers of some pixels' sums, int32x4.
Totals = Callable[[range, range], Generator[None, None, Sequence[Sequence[Any]]]]


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Requantizes and stores the sums of pixels, whose channels are in order.

    Attributes:
        in_stages: each step for all pixels before the next one, in our order: best where sums come from memory. Where
            they are in registers, LLVM would spill some in the loop before.
    """

    numerics: Numerics
    arguments: Arguments
    in_stages: bool = False

    def store(self, totals: Totals, places: Sequence[Any], channel: Any, valid: int) -> None:
        """Requantize and store the same channels of some pixels.

        Args:
            totals: gives some registers of some pixels' sums.
            places: the index in the output of each pixel's first sum.
            channel: index in `rescale` of the first sum.
            valid: how many of the channels exist; the others are not stored.
        """
        registers, point, works = -(-valid // arm.LANES), self._zero_point(), []
        together = len(places) if self.in_stages else 1
        for first in range(0, registers, PACKED_REGISTERS):
            group = range(first, min(first + PACKED_REGISTERS, registers))
            done, factors = first * arm.LANES, self._factors(channel + first * arm.LANES, len(group))
            for pixel in range(0, len(places), together):
                pixels = range(pixel, pixel + together)
                at = [places[index] + done for index in pixels]
                left = min(len(group) * arm.LANES, valid - done)
                works.append(self._group(totals(group, pixels), at, factors, left, point))
        staggered(works, GROUP_DISTANCE if self.in_stages else FAR)

    def _group(
        self,
        totals: Generator[None, None, Sequence[Sequence[Any]]],
        places: Sequence[Any],
        factors: Sequence[Sequence[Any]],
        valid: int,
        point: Any,
    ) -> Iterator[None]:
        """Emit one stage of all pixels at a time: each value is ready some instructions later."""
        pixels = yield from totals
        count = len(pixels[0])
        if self.numerics.requantize is None:
            for own, at in zip(pixels, places, strict=True):
                for index, value in enumerate(own):
                    done = index * arm.LANES
                    self._store(value, arm.LANES, at + done, min(arm.LANES, valid - done))
            return
        yield
        scaled: Sequence[Any] = [total for own in pixels for total in own]
        for stage in self._scaling():
            scaled = self._ordered(
                [stage(total, of) for total, of in zip(scaled, [*factors] * len(pixels), strict=True)]
            )
            yield
        scaled = [bind_int32(value) for value in scaled]
        pixels = [scaled[first : first + count] for first in range(0, len(scaled), count)]
        if self.numerics.residual is not None:
            words = [self._residual(at, valid, count) for at in places]
            pixels = [
                [self._with_residual(own, word) for own, word in zip(*pair, strict=True)]
                for pair in zip(pixels, words, strict=True)
            ]
        packed = yield from self._bytes(pixels, point)
        for value, at in zip(self._clamped(packed), places, strict=True):
            self._store(T.Bind(value), value.ty.dtype.lanes, at, valid)

    def _store(self, value: Any, count: int, at: Any, valid: int) -> None:
        for offset, width in pieces(valid, count):
            part = value if width == count else T.Shuffle([value], list(range(offset, offset + width)))
            store_vector(self.arguments.out, at + offset, part, width)

    def _zero_point(self) -> Any:
        """What is added in the end, int16x8; None where nothing is."""
        numerics = self.numerics
        if numerics.requantize is None or numerics.addition_rule in ("float", "fused"):
            return None
        place = OUTPUT_ZERO_POINT if numerics.residual is None else SUM_ZERO_POINT
        return self._ordered([T.broadcast(T.cast(self.arguments.params[place], "int16"), 2 * arm.LANES)])[0]

    def _bytes(self, pixels: Sequence[Sequence[Any]], point: Any) -> Generator[None, None, Sequence[Any]]:
        """Each pixel's registers of int32 as bytes, at least eight, to which the zero point `point` is added."""
        # What is missing to two or four registers repeats the last one, and is not stored.
        filled = [[*registers, *[registers[-1]] * (len(registers) % 2)] for registers in pixels]
        halves = self._ordered(
            [arm.narrow_32_to_16(*own[at : at + 2]) for own in filled for at in range(0, len(own), 2)]
        )
        yield
        if point is not None:
            halves = self._ordered([arm.add_saturated_16(half, point) for half in halves])
            yield
        narrow: Sequence[Any] = [arm.narrow_16_to_8(half, self.numerics.output == "s8") for half in halves]
        if len(narrow) > len(pixels):
            narrow = [
                T.Shuffle(narrow[first : first + 2], list(range(arm.BYTES))) for first in range(0, len(narrow), 2)
            ]
        narrow = self._ordered(narrow)
        yield
        return narrow

    def _clamped(self, packed: Sequence[Any]) -> Sequence[Any]:
        residual = self.numerics.residual
        if not (residual.clamp if residual else self.numerics.clamp):
            return packed
        places = (SUM_LOWEST, SUM_HIGHEST, -1) if residual else (LOWEST, HIGHEST, OUTPUT_ZERO_POINT)
        width = packed[0].ty.dtype.lanes
        lowest, highest = (T.broadcast(self._bound(place, places[2]), width) for place in places[:2])
        return [T.min(T.max(value, lowest), highest) for value in packed]

    def _bound(self, parameter: int, zero_point: int) -> Any:
        params = self.arguments.params
        value = params[parameter] + params[zero_point] if zero_point >= 0 else params[parameter]
        return T.cast(value, DTYPES[self.numerics.output])

    def _factors(self, channel: Any, count: int) -> list[list[Any]]:
        """The rows of `rescale` at so many times four channels."""
        requantize = self.numerics.requantize
        if requantize is None:
            return []
        rows = requantize.rows
        if not requantize.per_channel:
            return [[T.broadcast(self.arguments.load_rescale(row, 0, 1), arm.LANES) for row in range(rows)]] * count
        bind = T.Bind if requantize.rule == "float" else bind_int32
        return [
            [bind(self.arguments.load_rescale(row, channel + index * arm.LANES, arm.LANES)) for row in range(rows)]
            for index in range(count)
        ]

    def _ordered(self, values: Sequence[Any]) -> Sequence[Any]:
        return arm.in_turn(values) if self.in_stages else values

    def _scaling(self) -> list[Callable[[Any, Sequence[Any]], Any]]:
        """The stages from an int32x4 sum to the output without zero point and bounds."""
        requantize = self.numerics.requantize
        assert requantize is not None
        match requantize.rule:
            case "float":
                return [
                    lambda total, _: T.cast(total, "float32x4"),
                    lambda value, of: value * of[0],
                    lambda value, _: arm.nearest_int(value),
                ]
            case "fixed":
                return [lambda total, of: _fixed_point(total, of[0], of[1])]
            case "fused":
                return [
                    lambda total, of: scale_fused(arm.FLOATS, total, of.__getitem__, exceptions=requantize.exceptions)
                ]
            case "fine":
                return [lambda total, of: scale_fine(arm.FLOATS, total, of.__getitem__)]

    def _with_residual(self, scaled: Any, residual: Any) -> Any:
        """The int32x4 sum of own outputs and the residual's values; by the fixed rule without zero point."""
        own = T.min(T.max(scaled, self._int(LOWEST)), self._int(HIGHEST))
        if self.numerics.addition_rule == "fixed":
            terms = self._term(own, 0) + self._term(residual - self._int(RESIDUAL_ZERO_POINT), 1)
            return self._scaled_down(terms, 2)
        whole = T.cast(own + self._int(OUTPUT_ZERO_POINT), "float32x4")
        residual_term = T.cast(residual, "float32x4"), self._float(RESIDUAL_RATIO)
        assert self.numerics.residual is not None
        first, second = self.numerics.residual.in_order((whole, self._float(OWN_RATIO)), residual_term)
        return arm.nearest_int(arm.fused(*first, arm.fused(*second, self._float(SUM_CONSTANT))))

    def _term(self, steps: Any, index: int) -> Any:
        return self._scaled_down(T.shift_left(steps, T.broadcast(T.int32(ADDITION_SHIFT), arm.LANES)), index)

    def _scaled_down(self, value: Any, index: int) -> Any:
        high = bind_int32(arm.doubled_high(value, self._int(MULTIPLIER + index)))
        return bind_int32(arm.shift_right_away(high, self._int(SHIFT + index)))

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
        return [bind_int32(T.cast(T.Shuffle(parts, place), "int32x4")) for place in places]

    def _int(self, parameter: int) -> Any:
        return T.broadcast(self.arguments.params[parameter], arm.LANES)

    def _float(self, parameter: int) -> Any:
        return T.broadcast(T.reinterpret(self.arguments.params[parameter], dtype="float32"), arm.LANES)


def _fixed_point(total: Any, multiplier: Any, shift: Any) -> Any:
    """`total * multiplier * 2**(shift - 31)`, rounded twice as gemmlowp does."""
    zero = T.broadcast(T.int32(0), arm.LANES)
    high = arm.doubled_high(arm.shift_by(total, T.max(shift, zero)), multiplier)
    return arm.shift_right_away(bind_int32(high), bind_int32(T.min(shift, zero)))
