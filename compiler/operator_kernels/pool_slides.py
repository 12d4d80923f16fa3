"""The largest values of windows, and their averages by integers, for `sliding`. This module imports TVM."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.operator_kernels.averages import EVERY_SUM, Averages
from int8tune.compiler.operator_kernels.kernel import TYPES, nearest_even, stored
from int8tune.compiler.operator_kernels.windows import Place, Sums, Windows, WindowSums
from int8tune.compiler.program import Array


class MaximumSlide:
    """The largest value of each window. Rows and columns beyond the image are ones that the window has anyway."""

    has_border = False
    constants: Sequence[Array] = ()

    def __init__(self, operator: Operator, data: Value, output: Value) -> None:
        self.operator, self.output = operator, output
        self.types = (TYPES[data.type], TYPES[data.type], TYPES[output.type])

    def join(self, one: Any, other: Any) -> Any:
        return T.max(one, other)

    def finish(self, joined: Any, _window: Any, _constants: Sequence[Any]) -> Any:
        if self.operator.clamp is None:
            return joined
        low, high = (tirx.const(bound, self.types[1]) for bound in self.operator.clamp)
        return T.min(T.max(joined, low), high)

    def end(self, *_: Any) -> None:
        """Nothing is left to do."""


class AverageSlide:
    """Averages by sums of stored values; a vector with a sum in doubt is computed again, as the rule says."""

    has_border = True

    def __init__(self, operator: Operator, output: Value, averages: Averages, windows: Windows, again: Sums) -> None:
        self.operator, self.output, self.averages = operator, output, averages
        self.types = (again.types[0], "int16", again.types[2])
        self.again = WindowSums(windows, again)
        doubts: tuple[Array, ...] = (
            (averages.doubts, *(each.reshape(-1) for each in again.constants)) if averages.doubts_of_each else ()
        )
        self.constants = (averages.factor, averages.offset, *doubts)

    def join(self, one: Any, other: Any) -> Any:
        return one + other

    def finish(self, joined: Any, window: Any, constants: Sequence[Any]) -> Any:
        factor, offset = constants[:2]
        steps = T.Cast("float32", joined) * factor[window] + offset[window]
        if self.averages.nudge:
            nudge = tirx.const(self.averages.nudge, "float32")
            steps += T.Select(joined < tirx.const(0, "int16"), -nudge, nudge)
        return stored(nearest_even(steps), self.operator, self.output)

    def end(self, joined: Sequence[Any], place: Place, image: Any, constants: Sequence[Any], out: Any) -> None:
        count = self.averages.doubts_of_each
        if not count:
            return
        _, _, doubts, *known = constants
        wanted = [T.Bind(doubts[place.window * count + index]) for index in range(count)]
        with T.If(T.Or(wanted[0] == tirx.const(EVERY_SUM, "int16"), _is_any(joined, wanted))), T.Then():
            self.again.write(place, image, known, out)


def _is_any(vectors: Sequence[Any], wanted: Sequence[Any]) -> Any:
    """Whether a lane of int16 vectors is one of some values."""
    lanes = int(vectors[0].shape[0])
    same = []
    for vector in vectors:
        value = vector.vload([0], f"int16x{lanes}") if lanes > 1 else vector[0]
        same += [T.Select(value == each, _every(-1, lanes), _every(0, lanes)) for each in wanted]
    found = functools.reduce(T.bitwise_or, same)
    if lanes > 1:
        found = tirx.call_llvm_pure_intrin("int16", "llvm.vector.reduce.or", found)
    return found != tirx.const(0, "int16")


def _every(value: int, lanes: int) -> Any:
    one = tirx.const(value, "int16")
    return T.broadcast(one, lanes) if lanes > 1 else one
