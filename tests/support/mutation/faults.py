"""The faults that kernels are given, by kind."""

from __future__ import annotations

from tvm.ir import Call, TensorLoad
from tvm.tirx import (
    EQ,
    GE,
    GT,
    LT,
    Add,
    BitwiseOr,
    BitwiseXor,
    BufferStore,
    Cast,
    For,
    LShift,
    Max,
    Min,
    Mul,
    Select,
    SeqStmt,
    Shuffle,
    Sub,
)

from tests.support.mutation import outputs, places, sums
from tests.support.mutation.kernels import Expressions, Fault, Layouts, Statements

KINDS: dict[str, tuple[Fault, ...]] = {
    "dropped tap": (Expressions((Call,), sums.without_dot), Expressions((Add,), sums.without_multiply_add)),
    "wrong tail": (
        Expressions((TensorLoad,), places.shifted_load),
        Statements((BufferStore,), places.shifted_store),
        Expressions((Min, Max, GE, LT), places.moved_bound),
        Statements((For,), places.shorter_loop),
    ),
    "wrong rounding": (
        Expressions((Call,), outputs.other_conversion),
        Expressions((Add,), outputs.other_addition_of_rounder),
        Expressions((Mul,), outputs.in_binary64),
        Expressions((Call,), outputs.unfused),
        Expressions((Add,), outputs.fused),
        Expressions((Add,), outputs.other_nudge),
        Expressions((GT,), outputs.other_threshold),
        Expressions((Add,), outputs.without_right_rounding),
        Expressions((Add,), outputs.rounded_once),
        Expressions((LShift,), outputs.without_left_shift),
        Expressions((Call,), outputs.sum_in_binary64),
        Expressions((BitwiseOr,), outputs.without_sign),
        Expressions((BitwiseOr,), outputs.without_offset),
        Expressions((TensorLoad,), outputs.other_row),
    ),
    "wrong exception": (
        Expressions((EQ,), outputs.other_exception),
        Expressions((Select,), outputs.other_offset),
    ),
    "saturating product": (
        Expressions((Call,), sums.saturating_dot),
        Expressions((Call,), sums.saturating_pair_sums),
        Expressions((Mul,), sums.product_in_16_bits),
    ),
    "swapped channel": (
        Statements((BufferStore,), places.other_accumulator),
        Expressions((TensorLoad,), places.other_sum),
        Expressions((Call,), places.exchanged_registers),
        Expressions((Shuffle,), places.exchanged_values),
        Statements((BufferStore,), places.exchanged_outputs),
        Expressions((Call,), places.exchanged_rows),
        Expressions((Call,), places.exchanged_parts),
        Statements((For,), places.exchanged_lanes),
        Expressions((LShift,), places.other_byte),
        Layouts(places.exchanged_positions),
    ),
    "stale accumulator": (
        Statements((BufferStore,), sums.without_start),
        Expressions((Add,), sums.without_bias),
        Statements((SeqStmt,), sums.reset_in_reduction),
        Expressions((Call,), sums.restarted),
    ),
    "wrong zero point or clamp": (
        Expressions((Call,), outputs.without_zero_point),
        Expressions((TensorLoad,), outputs.other_parameter),
        Expressions((Min, Max), outputs.other_clamp),
        Expressions((Call,), outputs.without_saturation),
        Expressions((Call,), outputs.other_signedness),
        Expressions((Min,), outputs.without_largest),
    ),
    "missing sign flip": (Expressions((BitwiseXor,), sums.without_sign_flip),),
    "missing window sum": (
        Expressions((Call,), sums.without_correction),
        Expressions((Sub,), sums.without_scalar_correction),
        Expressions((Sub,), sums.without_weight_zero_point),
        Expressions((Mul,), sums.other_window_sum),
        Expressions((Add,), sums.other_pixel_sum),
    ),
    "wrong border": (
        Expressions((Cast,), places.other_pad_value),
        Statements((For,), places.other_kernel_rows),
        Layouts(places.other_border_taps),
    ),
}
