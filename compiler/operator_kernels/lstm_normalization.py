"""Layer normalization of a row of an integer LSTM's gate, written as loops."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.operators.fixed_gates import HIGH, LOW
from int8tune.compiler.operators.fixed_normalization import (
    HALF_ROOT_2,
    HALF_THREE,
    LEAST_VARIANCE,
    MEAN_BITS,
    MOST_VARIANCE,
    ONE,
    REFINEMENTS,
    ROOT_SHIFT,
    VARIANCE_BITS,
    Normalizations,
)
from int8tune.compiler.operators.fixed_softmax import INT32
from int8tune.schedules.epilogue import scale_fixed_point

# The most powers of four by which a variance is below the least one that roots are taken of.
MOST_RAISES = 13


class NormalizationWriter:
    """Emits the normalization of numbers of 16 bits, in a buffer int32 [gates, cells]."""

    def __init__(self, norms: Normalizations, weight: Any, bias: Any) -> None:
        self._norms, self._weight, self._bias = norms, weight, bias
        self._sums = T.alloc_buffer((2,), "int64", scope="local")
        # The mean; the variance, and then half of it; the root, and its shift to the left.
        self._row = T.alloc_buffer((4,), "int32", scope="local")
        self._value = T.alloc_buffer((1,), "int32", scope="local")
        self._wide = T.alloc_buffer((1,), "int64", scope="local")

    def write(self, gates: Any, index: int) -> None:
        """Normalize the row of a gate."""
        cells = self._norms.weight.shape[1]
        self._moments(gates, index, cells)
        self._inverse_root()
        with T.serial(0, cells) as cell:
            T.buffer_store(gates, self._normalized(gates, index, cell), [index, cell])

    def _normalized(self, gates: Any, index: int, cell: Any) -> Any:
        """A number of a row whose mean and root are known; each rounding is stored, as it is read several times."""
        (mean, _, root, shift), value, wide = (self._row[at] for at in range(4)), self._value, self._wide
        T.buffer_store(value, scale_fixed_point((gates[index, cell] << MEAN_BITS) - mean, root, shift), [0])
        product = value[0].astype("int64") * self._weight[index, cell].astype("int64")
        T.buffer_store(wide, product + self._bias[index, cell].astype("int64"), [0])
        half = tirx.const(1 << (MEAN_BITS - 1), "int64")
        T.buffer_store(wide, wide[0] + tirx.Select(wide[0] > 0, half, -half), [0])
        whole = tirx.truncdiv(wide[0], tirx.const(1 << MEAN_BITS, "int64"))
        T.buffer_store(value, whole.astype("int32"), [0])
        multiplier, bits = (tirx.const(each) for each in self._norms.scales[index])
        return tirx.min(tirx.max(scale_fixed_point(value[0], multiplier, bits), LOW), HIGH)

    def _moments(self, gates: Any, index: int, cells: int) -> None:
        """The mean and the variance."""
        sums = self._sums
        for at in (0, 1):
            T.buffer_store(sums, tirx.const(0, "int64"), [at])
        with T.serial(0, cells) as cell:
            value = gates[index, cell].astype("int64")
            T.buffer_store(sums, sums[0] + value, [0])
            T.buffer_store(sums, sums[1] + value * value, [1])
        mean = tirx.truncdiv(sums[0] << MEAN_BITS, tirx.const(cells, "int64"))
        T.buffer_store(self._row, mean.astype("int32"), [0])
        whole = self._row[0].astype("int64")
        squares = sums[1] * tirx.const((1 << VARIANCE_BITS) // cells, "int64")
        variance = tirx.truncdiv(squares - whole * whole, tirx.const(1 << VARIANCE_BITS, "int64")).astype("int32")
        T.buffer_store(self._row, variance, [1])
        guard = tirx.const(self._norms.guards[index])
        T.buffer_store(self._row, tirx.Select(self._row[1] < 1, guard, self._row[1]), [1])

    def _inverse_root(self) -> None:
        """The reciprocal of the variance's square root."""
        row, is_one = self._row, T.alloc_buffer((1,), "bool", scope="local")
        T.buffer_store(is_one, row[1] <= 1, [0])
        is_large = row[1] >= MOST_VARIANCE
        T.buffer_store(row, ROOT_SHIFT + tirx.Cast("int32", is_large), [3])
        T.buffer_store(row, tirx.Select(is_large, row[1] >> 2, row[1]), [1])
        with T.serial(0, MOST_RAISES), T.If(row[1] < LEAST_VARIANCE), T.Then():
            T.buffer_store(row, row[1] << 2, [1])
            T.buffer_store(row, row[3] - 1, [3])
        T.buffer_store(row, _halved(row[1] >> 1), [1])
        T.buffer_store(row, tirx.const(ONE), [2])
        with T.serial(0, REFINEMENTS):
            cube = _raised(_high_product(_high_product(row[2], row[2]), row[2]), 6)
            root = _high_product(row[2], tirx.const(HALF_THREE)) - _high_product(row[1], cube)
            T.buffer_store(row, _raised(root, 3), [2])
        root = _high_product(row[2], tirx.const(HALF_ROOT_2)) << tirx.max(-row[3], 0)
        T.buffer_store(row, tirx.Select(is_one[0], tirx.const(int(INT32.max)), root), [2])
        T.buffer_store(row, tirx.Select(is_one[0], tirx.const(0), -tirx.max(row[3], 0)), [3])


def _high_product(one: Any, other: Any) -> Any:
    """The upper half of a doubled product, rounded, halves up."""
    product = one.astype("int64") * other.astype("int64") + tirx.const(1 << 30, "int64")
    return (product >> tirx.const(31, "int64")).astype("int32")


def _raised(value: Any, bits: int) -> Any:
    """Times a power of two, saturated."""
    wide = value.astype("int64") << tirx.const(bits, "int64")
    low, high = (tirx.const(int(end), "int64") for end in (INT32.min, INT32.max))
    return tirx.min(tirx.max(wide, low), high).astype("int32")


def _halved(value: Any) -> Any:
    """Half of a number of at least 0, halves up."""
    return (value >> 1) + tirx.bitwise_and(value, 1)
