"""The addition of a residual in an x86 kernel, while the layer's own outputs are in registers of 32 bits.

The residual's bytes are loaded in the order of the packed bytes and widened to four registers, each of which takes four
bytes in every 128 bits (VPSHUFB). The rules are those of `schedules.oracle.reference`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from int8tune.schedules.epilogue import DTYPES, ROUNDER, ROUNDER_BITS
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.operands import ADDITION_SHIFT
from int8tune.schedules.written.bound import bind_int32
from int8tune.schedules.x86.fixed_point import doubled_high

# What is left of the 31 bits of a doubled product's low half, when a factor was shifted left.
LOW_BITS = 31 - ADDITION_SHIFT
HALF_BITS, HALF_MASK = 16, 0xFFFF


@dataclass(frozen=True, slots=True)
class ResidualAddition:
    """Adds the residual to the layer's own outputs, four registers at a time.

    Attributes:
        residual: bytes, in the order in which those of the sum are packed.
    """

    vectors: X86Vectors
    numerics: Numerics
    params: Any
    residual: Any

    def add(self, scaled: Sequence[Any]) -> Any:
        """The bytes of the sum.

        Args:
            scaled: the layer's own outputs without zero point and bounds: by the float rule float32 that are not
                rounded yet, else int32.
        """
        numerics, vectors = self.numerics, self.vectors
        assert numerics.residual is not None
        add = self._add_steps if numerics.addition_rule == "fixed" else self._add_floats
        registers = [add(own, part) for part, own in enumerate(scaled)]
        halves = [vectors.pack_32_to_16(registers[i], registers[i + 1]) for i in (0, 2)]
        if numerics.addition_rule == "fixed":
            zero_point = T.broadcast(T.cast(self.params[SUM_ZERO_POINT], "int16"), 2 * vectors.lanes)
            halves = [vectors.add_saturated_16(half, zero_point) for half in halves]
        packed = vectors.pack_16_to_8(halves[0], halves[1], numerics.output == "s8")
        if not numerics.residual.clamp:
            return packed
        bounds = [T.cast(self.params[at], DTYPES[numerics.output]) for at in (SUM_LOWEST, SUM_HIGHEST)]
        lowest, highest = (T.broadcast(bound, 4 * vectors.lanes) for bound in bounds)
        return T.min(T.max(packed, lowest), highest)

    def _add_floats(self, scaled: Any, part: int) -> Any:
        """int32 sums with their zero point, by the addition of the float rule."""
        vectors, lanes = self.vectors, self.vectors.lanes
        own = self._own_rounded(scaled) if self._is_float else self._own_converted(scaled)
        # A power of two in both factors changes no rounding.
        unit = T.float32(2.0**-24 if self._signed else 1.0)
        values = T.cast(self._words(part), f"float32x{lanes}")
        constant = T.broadcast(self._float(SUM_CONSTANT), lanes)
        own_term = own, T.broadcast(self._float(OWN_RATIO), lanes)
        residual_term = values, T.broadcast(self._float(RESIDUAL_RATIO) * unit, lanes)
        assert self.numerics.residual is not None
        first, second = self.numerics.residual.in_order(own_term, residual_term)
        return vectors.nearest_int(vectors.fused(*first, vectors.fused(*second, constant)))

    def _own_rounded(self, scaled: Any) -> Any:
        """The layer's own outputs as float32, of float32 that are not rounded."""
        lanes = self.vectors.lanes
        # Rounded in the last place. As integers, the bits of positive floats are in the order of their values, above
        # those of negative ones; where the last place is not 1, a value is outside of the bounds.
        value = self.vectors.unfused(scaled) + T.broadcast(T.float32(ROUNDER), lanes)
        bits = T.reinterpret(value, dtype=f"int32x{lanes}")
        whole = T.reinterpret(self._bounded(bits, ROUNDER_BITS), dtype=f"float32x{lanes}")
        origin = T.float32(ROUNDER) - T.cast(self.params[OUTPUT_ZERO_POINT], "float32")
        return whole - T.broadcast(origin, lanes)

    def _own_converted(self, scaled: Any) -> Any:
        """The layer's own outputs as float32, of int32."""
        lanes = self.vectors.lanes
        own = self._bounded(scaled, 0) + T.broadcast(self.params[OUTPUT_ZERO_POINT], lanes)
        return T.cast(own, f"float32x{lanes}")

    def _add_steps(self, scaled: Any, part: int) -> Any:
        """int32 sums without zero point, by the fixed rule."""
        lanes, words = self.vectors.lanes, self._words(part)
        if self._signed:
            words = T.shift_right(words, T.broadcast(T.int32(24), lanes))
        steps = words - T.broadcast(self.params[RESIDUAL_ZERO_POINT], lanes)
        terms = self._term(self._bounded(scaled, 0), 0) + self._term(steps, 1)
        multiplier = T.broadcast(self.params[MULTIPLIER + 2], lanes)
        return self._shifted(doubled_high(bind_int32(terms), multiplier, lanes), 2)

    def _bounded(self, values: Any, offset: int) -> Any:
        """int32 within the bounds of the layer's own outputs, all moved by an offset."""
        lowest, highest = (T.broadcast(self.params[at] + offset, self.vectors.lanes) for at in (LOWEST, HIGHEST))
        return T.min(T.max(values, lowest), highest)

    def _term(self, steps: Any, index: int) -> Any:
        """`steps << 20` times a multiplier, as int32.

        The high half of the doubled product is `(steps * multiplier + 2^10) >> 11`. The products of the multiplier's
        halves fit 32 bits.
        """
        lanes = self.vectors.lanes
        multiplier, steps = self.params[MULTIPLIER + index], bind_int32(steps)
        high = T.broadcast(T.shift_left(T.shift_right(multiplier, HALF_BITS), HALF_BITS - LOW_BITS), lanes)
        low = T.broadcast(T.bitwise_and(multiplier, HALF_MASK), lanes)
        nudge, count = T.broadcast(T.int32(1 << (LOW_BITS - 1)), lanes), T.broadcast(T.int32(LOW_BITS), lanes)
        return self._shifted(steps * high + T.shift_right(steps * low + nudge, count), index)

    def _shifted(self, values: Any, index: int) -> Any:
        """Values of less than 30 bits shifted right, rounded half away from zero.

        Twice the value is shifted by one more, so that a shift by 0 is no special case; beyond 30, all become 0.
        """
        lanes, values = self.vectors.lanes, bind_int32(values)
        right = T.min(T.int32(0) - self.params[SHIFT + index], 30)
        half = T.broadcast(T.shift_left(T.int32(1), right), lanes)
        sign = T.shift_right(values, T.broadcast(T.int32(31), lanes))
        return T.shift_right(values + values + half + sign, T.broadcast(right + 1, lanes))

    def _words(self, part: int) -> Any:
        """A fourth of the residual in lanes of 32 bits: unsigned values as they are, signed ones times 2^24."""
        lanes, place = self.vectors.lanes, 3 if self._signed else 0
        zeros = T.broadcast(T.int8(0) if self._signed else T.uint8(0), 4 * lanes)
        order = [
            lane // 4 * 16 + 4 * part + lane % 4 if byte == place else 4 * lanes
            for lane in range(lanes)
            for byte in range(4)
        ]
        return T.reinterpret(T.Shuffle([self.residual, zeros], order), dtype=f"int32x{lanes}")

    @property
    def _is_float(self) -> bool:
        return self.numerics.requantize is not None and self.numerics.requantize.rule == "float"

    @property
    def _signed(self) -> bool:
        """Whether the residual is."""
        return self.numerics.residual is not None and self.numerics.residual.data == "s8"

    def _float(self, at: int) -> Any:
        return T.reinterpret(self.params[at], dtype="float32")
