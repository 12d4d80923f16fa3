"""Kernels that are wrong on purpose: the adversarial suite must catch each one.

A mutant is a right kernel with one edit of its scheduled TIR, or a template with one of its parts replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import saturating_dots
import tvm
from kernels import Built, compile_kernel
from probes import host_target
from tvm.script import tirx as T

from schedules.arguments import HIGHEST, LOWEST, OUTPUT_ZERO_POINT
from schedules.depthwise import DepthwiseForm
from schedules.direct import DirectForm
from schedules.epilogue import DTYPES
from schedules.numerics import Numerics
from schedules.registry import template_for
from schedules.workload import parse_workload

# Tiles that overlap on both axes, a border and a clamp.
CONV = "conv2d-u8u8-1x6x11x12-k3x3x40-s1-p1-wz-float.c-clamp-u8"
FIXED = "conv2d-s8s8-1x6x11x12-k3x3x40-s1-p1-fixed.c-clamp-s8"
DENSE = "dense-u8s8-7x64-o48-float.c-u8"
SUMS = "dense-u8s8-7x64-o48-s32"
TALL = "dwconv2d-u8u8-1x9x11x40-k5x3x1-s1-p1-wz-fixed.c-u8"
CONFIG = {"tile_columns": 4, "tile_blocks": 1}


def build(key: str, profile: str, edit: Callable[[str], str]) -> Built:
    """The kernel of a layer, its scheduled TIR edited, with 16 lanes on any machine."""
    workload = parse_workload(key)
    target = replace(host_target(profile), vector_lanes=16, vector_registers=32)
    template = template_for(workload, target)
    kernel = template.apply(workload, target, {**template.space(workload, target).default, **CONFIG})
    function = tvm.script.from_source(edit(kernel.function.script()))
    return compile_kernel(workload, target, replace(kernel, function=function))


@pytest.mark.parametrize("key", [CONV, FIXED, DENSE, SUMS, TALL])
@pytest.mark.parametrize("profile", ["x86-avx512vnni", "generic"])
def test_kernels_that_are_not_mutated_pass(key: str, profile: str) -> None:
    assert build(key, profile, lambda text: text).wrong_cases() == []


@dataclass(frozen=True, slots=True)
class Edit:
    """What to replace in the scheduled TIR of a layer."""

    key: str
    pattern: str
    replacement: str
    profile: str = "generic"

    def __call__(self, text: str) -> str:
        edited, count = re.subn(self.pattern, self.replacement, text)
        assert count, f"the kernel has no {self.pattern}"
        return edited


EDITS = {
    "last column tile starts early": Edit(CONV, r"T\.min\(vx \* 4, 7\)", "T.min(vx * 4, 6)"),
    "last channel tile starts early": Edit(CONV, r"T\.min\(vk \* 16, 24\)", "T.min(vk * 16, 23)"),
    "last output row is left out": Edit(CONV, r"T\.grid\(1, 3, 1, 6, 3\)", "T.grid(1, 3, 1, 5, 3)"),
    "last channels of the window are left out": Edit(CONV, r"T\.grid\(3, 1, 36\)", "T.grid(3, 1, 35)"),
    "rows are copied without their tail": Edit(CONV, r"T\.min\(vt \* 64, 68\)", "T.min(vt * 64, 64)"),
    "border is zero": Edit(CONV, r"T\.Cast\(\"uint8\", params\[0\]\)", "T.uint8(0)"),
    "zero-point term has the wrong sign": Edit(CONV, r"- params\[1\] \*", "+ params[1] *"),
    "zero-point term is left out": Edit(CONV, r"params\[1\] \*", "0 *"),
    "window sum has a row too many": Edit(TALL, r"vu \* 4 \+ vj < 5", "vu * 4 + vj < 6", "x86-avx512vnni"),
    "window sum has a row too few": Edit(TALL, r"vu \* 4 \+ vj < 5", "vu * 4 + vj < 4", "x86-avx512vnni"),
    "packed rows share a byte": Edit(TALL, r"<< T\.uint32\(16\)", "<< T.uint32(8)", "x86-avx512vnni"),
    "channels are swapped": Edit(CONV, r"(out\[.*?) \+ vl\] =", r"\1 + T.bitwise_xor(vl, 1)] ="),
    "all channels have one scale": Edit(CONV, r"rescale\[vg [^\]]* \+ vl\](?=, T\.Cast)", "rescale[0]"),
    "all channels have one bias": Edit(DENSE, r"\+ bias\[vg [^\]]* \+ vl\]", "+ bias[0]"),
    "upper clamp is missing": Edit(CONV, r"params\[4\]\)", "params[4] + 256)"),
    "lower clamp is missing": Edit(CONV, r"params\[3\]\)", "params[3] - 256)"),
    "accumulators start from the tile before": Edit(
        CONV, r"acc\[(.*), vx,(.*)\] = 0", r"acc[\1, vx,\2] = T.if_then_else(vx == 0, 0, acc[\1, vx - 1,\2])"
    ),
    "accumulators start from one": Edit(SUMS, r"(acc\[.*\]) = 0", r"\1 = 1"),
    "high product is not rounded": Edit(FIXED, r"T\.int64\(1073741824\)", "T.int64(0)"),
}


@pytest.mark.parametrize("name", EDITS)
def test_edited_kernels_are_caught(name: str) -> None:
    edit = EDITS[name]
    assert build(edit.key, edit.profile, edit).wrong_cases() != []


@pytest.mark.parametrize("name", ["saturate", "wrap"])
@pytest.mark.parametrize("key", [CONV, FIXED, DENSE, SUMS, TALL])
def test_sums_of_two_products_in_16_bits_are_caught(name: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `vpmaddubsw` saturates and `smlal` on 16-bit lanes wraps."""
    for layout in ("", "packed_"):
        mutant = getattr(saturating_dots, f"{layout}{name}")
        monkeypatch.setattr(f"schedules.intrinsics.x86_vnni._{layout}implementation", mutant)
    assert build(key, "x86-avx512vnni", lambda text: text).wrong_cases() != []


@pytest.mark.parametrize("form", [DirectForm, DepthwiseForm])
def test_a_dropped_last_tap_is_caught(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = form.pack

    def without_last_tap(self: Any, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
        dropped = weight.copy()
        dropped[..., -1] = 0
        packed: npt.NDArray[Any] = pack(self, dropped)
        return packed

    monkeypatch.setattr(form, "pack", without_last_tap)
    for key in (CONV, DENSE) if form is DirectForm else (TALL,):
        assert build(key, "generic", lambda text: text).wrong_cases() != []


def clamped(value: Any, params: Any, dtype: str) -> Any:
    bounded = T.min(T.max(value, T.cast(params[LOWEST], dtype)), T.cast(params[HIGHEST], dtype))
    return T.cast(bounded, "int32") + params[OUTPUT_ZERO_POINT]


def half_away(numerics: Numerics, total: Any, channel: Any, rescale: Any, params: Any) -> Any:
    value = T.cast(total, "float32") * rescale[channel]
    rounded = T.Select(value >= 0, T.floor(value + 0.5), T.ceil(value - 0.5))
    return T.cast(clamped(rounded, params, "float32"), DTYPES[numerics.output])


def truncated(numerics: Numerics, total: Any, channel: Any, rescale: Any, params: Any) -> Any:
    return T.cast(clamped(T.cast(total, "float32") * rescale[channel], params, "float32"), DTYPES[numerics.output])


def in_binary64(numerics: Numerics, total: Any, channel: Any, rescale: Any, params: Any) -> Any:
    value = T.nearbyint(T.cast(total, "float64") * T.cast(rescale[channel], "float64"))
    return T.cast(clamped(value, params, "float64"), DTYPES[numerics.output])


@pytest.mark.parametrize("requantize", [half_away, truncated, in_binary64])
@pytest.mark.parametrize("key", [CONV, DENSE])
def test_other_roundings_of_the_float_rule_are_caught(
    requantize: Callable[..., Any], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedules.compute.requantize", requantize)
    assert build(key, "generic", lambda text: text).wrong_cases() != []


def rounded_once(total: Any, multiplier: Any, shift: Any) -> Any:
    product = T.cast(total, "int64") * T.cast(multiplier, "int64")
    right = T.cast(31 - shift, "int64")
    half = T.shift_left(T.int64(1), right - T.int64(1))
    return T.cast(T.shift_right(product + half, right), "int32")


def half_up(total: Any, multiplier: Any, shift: Any) -> Any:
    product = T.cast(T.shift_left(total, T.max(shift, 0)), "int64") * T.cast(multiplier, "int64")
    high = T.cast(T.shift_right(product + T.int64(1 << 30), T.int64(31)), "int32")
    right = T.max(-shift, 0)
    return T.shift_right(high + T.shift_right(T.shift_left(T.int32(1), right), 1), right)


@pytest.mark.parametrize("fixed_point", [rounded_once, half_up])
@pytest.mark.parametrize("key", [FIXED, TALL])
def test_other_roundings_of_the_fixed_rule_are_caught(
    fixed_point: Callable[..., Any], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedules.epilogue._fixed_point", fixed_point)
    assert build(key, "generic", lambda text: text).wrong_cases() != []


def test_a_mutant_of_one_value_is_caught() -> None:
    """The suite compares every value: one wrong output among all is enough."""
    kernel = build(
        DENSE, "generic", Edit(DENSE, r"\+ bias\[", '+ T.cast(vx + vi + vk + vl == 20, "int32") * 9 + bias[')
    )
    assert kernel.wrong_cases() != []
    assert np.prod(kernel.workload.output_shape) > 300
