"""The kernel that packs matrices as weights, and makes the bias that zero points leave. This module imports TVM."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from int8tune.compiler.matrices.places import place_of
from int8tune.compiler.matrices.values import Packed
from int8tune.schedules.written.rows import repeat, store_vector
from int8tune.schedules.written.signature import flat_argument

LANES = 16


def write_pack(packed: Packed) -> Any:
    """The PrimFunc (matrices, starts, channels, packed, bias), each of one axis."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        _PackWriter(packed).write()
    return builder.get()


class _PackWriter:
    """Emits one kernel."""

    def __init__(self, packed: Packed) -> None:
        self.packed, self.packing, self.form = packed, packed.packing, packed.packing.form

    def write(self) -> None:
        packed, packing = self.packed, self.packing
        T.func_name("main")
        self.matrices = flat_argument("matrices", packed.size, packed.dtype)
        self.starts = flat_argument("starts", len(packing.starts), "int32")
        self.channels = flat_argument("channels", len(packed.channels), "int32")
        out = flat_argument("packed", packed.count * packed.packed_stride, "int8")
        self.bias = flat_argument("bias", packed.count * packed.bias_stride, "int32")
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        unit_bytes = np.dtype(self.form.dtype).itemsize
        self.out = T.decl_buffer((packed.count * packed.packed_stride // unit_bytes,), self.form.dtype, data=out.data)
        loop = T.parallel if packed.threads > 1 and packed.count > 1 else T.serial
        with loop(0, packed.count) as index:
            self._matrix(index)

    def _matrix(self, index: Any) -> None:
        packing = self.packing
        units = packing.columns * (packing.rows + 1)
        self.units = T.alloc_buffer((units,), self.form.dtype)
        self.sums = T.alloc_buffer((packing.channels,), "int32")
        self.first = place_of(index, self.packed.batch, self.packed.strides)
        if self.packed.channel_stride == 1 and packing.channels >= LANES:
            repeat(-(-packing.channels // LANES), self._columns)
        else:
            repeat(packing.channels, lambda channel: self._column(channel, 1))
        self._border()
        self._copy(index)
        self._bias(index)

    def _columns(self, block: Any) -> None:
        """Units of adjacent channels; the last of these overlap their neighbours."""
        self._column(T.min(block * LANES, self.packing.channels - LANES), LANES)

    def _column(self, channel: Any, width: int) -> None:
        form, features = self.form, self.packed.features
        total = T.alloc_buffer((1,), _vector("int32", width))
        T.buffer_store(total, _all(0, width), [0])
        whole, rest = divmod(features, form.taps)

        def block(row: Any, first: Any, inside: range) -> None:
            """The units of as many taps as a form has, of which those inside are there, from the first one on."""
            values = {tap: self._value(channel, first + tap, width) for tap in inside}
            for place, taps in enumerate(form.rows):
                at = (row * len(form.rows) + place) * self.packing.columns + channel
                self._store_unit(at, [values.get(tap) for tap in taps], width)
            T.buffer_store(total, sum(values.values(), start=total[0]), [0])

        repeat(whole, lambda index: block(index, index * form.taps, range(form.taps)))
        if rest:
            block(whole, whole * form.taps, range(rest))
        store_vector(self.sums, channel, total[0], width)
        behind, rows = form.behind(features), whole + (rest > 0)
        lead = -behind % form.taps
        for index in range(-(-behind // form.taps)):
            first = features - behind - lead + index * form.taps
            block(rows + index, first, range(0 if index else lead, form.taps))

    def _value(self, channel: Any, tap: Any, width: int) -> Any:
        at = self.first + channel * self.packed.channel_stride + tap * self.packed.tap_stride
        loaded = self.matrices[T.ramp(at, 1, width) if width > 1 else at]
        return T.Bind(T.cast(loaded, _vector("int32", width)))

    def _store_unit(self, at: Any, values: list[Any], width: int) -> None:
        form, offset, mask = self.form, self.packing.offset, (1 << self.form.bits) - 1
        unit: Any = _all(0, width)
        for place, value in enumerate(values):
            if value is None:
                continue
            moved = value + _all(offset, width) if offset else value
            last = place == len(values) - 1
            part = moved if last else T.bitwise_and(moved, _all(mask, width))
            part = T.shift_left(part, _all(form.bits * place, width)) if place else part
            unit = part if place == 0 else T.bitwise_or(unit, part)
        store_vector(self.units, at, unit if form.dtype == "int32" else T.cast(unit, _vector(form.dtype, width)), width)

    def _border(self) -> None:
        """The last column again, as often as pieces need it, and the row of zeros."""
        packing = self.packing

        def widen(row: Any) -> None:
            last = row * packing.columns + packing.channels - 1
            with T.serial(0, packing.columns - packing.channels) as column:
                T.buffer_store(self.units, self.units[last], [last + 1 + column])

        if packing.columns > packing.channels:
            repeat(packing.rows, widen)
        with T.serial(0, packing.columns) as column:
            zero = T.int32(0) if self.form.dtype == "int32" else T.int8(0)
            T.buffer_store(self.units, zero, [packing.rows * packing.columns + column])

    def _copy(self, index: Any) -> None:
        """Pieces to where the kernel reads them."""
        piece = self.packing.piece
        unit_bytes = np.dtype(self.form.dtype).itemsize
        first = T.Bind(index * (self.packed.packed_stride // unit_bytes))
        with T.serial(0, len(self.packing.starts)) as place:
            start = T.Bind(self.starts[place])
            value = self.units[T.ramp(start, 1, piece) if piece > 1 else start]
            store_vector(self.out, first + place * piece, value, piece)

    def _bias(self, index: Any) -> None:
        """What data's zero point takes of each sum: `za * sum(w - zw)`, less than nothing."""
        packed = self.packed
        taken = packed.features * packed.weight_zero_point
        with T.serial(0, len(packed.channels)) as place:
            left = self.sums[self.channels[place]] - taken
            T.buffer_store(self.bias, left * -packed.data_zero_point, [index * packed.bias_stride + place])


def _vector(dtype: str, width: int) -> str:
    return f"{dtype}x{width}" if width > 1 else dtype


def _all(value: int, width: int) -> Any:
    return T.broadcast(T.int32(value), width) if width > 1 else T.int32(value)
