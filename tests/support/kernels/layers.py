"""Layers to test templates with: plain ones, odd ones, and drawn ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from int8tune.schedules.numerics import ROUNDING_RULES, Numerics, Requantize, Residual
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Window, Workload

# One layer of each operator: what a template takes at all shows here.
PLAIN = {
    "conv2d": "conv2d-u8s8-1x8x8x32-k3x3x32-s1-p1-float.c-u8",
    "dwconv2d": "dwconv2d-u8s8-1x8x8x32-k3x3x1-s1-p1-float.c-u8",
    "dense": "dense-u8s8-3x32-o32-float.c-u8",
    "grouped": "conv2d-u8s8-1x8x8x32-k3x3x32-s1-p1-g8-float.c-u8",
    "first": "conv2d-u8s8-1x8x8x3-k3x3x32-s2-p1-float.c-u8",
}
# What breaks tiles, runs and copies: each alone on its axis.
ODD = (
    "conv2d-u8s8-1x1x1x1-k1x1x1-s1-p0-float.c-u8",
    "conv2d-u8s8-1x5x5x3-k3x3x1-s1-p1-float.t-u8",
    "conv2d-s8s8-2x7x5x7-k3x3x17-s2-p1-fixed.c-s8",
    "conv2d-u8u8-1x6x9x5-k2x3x33-s1x2-p0.1.2.3-wz-fixed.t-clamp-u8",
    "conv2d-s8u8-1x9x7x4-k3x3x16-s1-p2-d2-wz-float.c-clamp-s8",
    "conv2d-u8s8-1x6x6x8-k3x3x36-s1-p1-g2-float.c-u8",
    "conv2d-u8u8-1x5x4x6-k1x1x10-s1-p0-g2-wz-s32",
    "conv2d-u8s8-3x4x5x19-k1x1x40-s1-p0-float.c-s8",
    "conv2d-u8s8-1x4x5x19-k1x1x40-s1-p1-float.c-u8",
    "conv2d-u8s8-1x3x3x130-k3x3x16-s1-p0-s32",
    "conv2d-u8s8-1x2x70x1-k1x5x16-s1-p0.2.0.2-float.c-u8",
    "conv2d-s8u8-1x19x33x3-k7x7x24-s2-p3-float.c-clamp-s8",
    "conv2d-u8s8-3x9x35x5-k6x3x18-s1x3-p0.2.3.1-d2x1-fused.c-addu8-u8",
    "conv2d-u8s8-1x23x21x1-k11x11x16-s4-p2-s32",
    "dwconv2d-u8s8-1x5x6x1-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-s8s8-2x9x7x19-k3x3x1-s2-p0.0.1.1-fixed.c-s8",
    "dwconv2d-u8u8-1x8x8x17-k5x3x1-s1-p2.1.2.1-wz-float.t-clamp-u8",
    "dwconv2d-s8u8-1x9x9x9-k2x4x2-s1-p1-d2-wz-fixed.t-s8",
    "dwconv2d-u8s8-1x3x3x80-k1x1x1-s1-p0-s32",
    "dwconv2d-u8s8-1x20x3x16-k9x1x1-s1-p0-float.c-u8",
    "dense-u8s8-1x1-o1-s32",
    "dense-u8u8-5x13-o17-wz-fixed.t-u8",
    "dense-s8s8-1x30-o300-float.c-clamp-s8",
    "conv2d-u8u8-2x5x7x6-k3x2x34-s1-p1-g2-wz-float.t-clamp-adds8-clamp-u8",
    "dwconv2d-s8s8-1x3x5x23-k3x3x1-s1-p1-fixed.c-addu8-s8",
    "dense-u8s8-5x13-o75-fixed.t-adds8-clamp-u8",
    "conv2d-s8s8-2x7x5x7-k3x3x17-s2-p1-fused.cx-s8",
    "dwconv2d-s8u8-1x9x9x9-k2x4x2-s1-p1-d2-wz-fused.tx-clamp-s8",
    "dwconv2d-s8s8-1x3x5x23-k3x3x1-s1-p1-fused.c-addu8-clamp-s8",
    "dense-u8s8-5x13-o75-fused.cx-adds8-u8",
    "conv2d-u8s8-2x5x7x6-k3x3x34-s1-p1-float.c-addu8.first-u8",
    "dwconv2d-s8s8-1x3x5x23-k3x3x1-s1-p1-float.t-clamp-adds8.first-clamp-s8",
    "dense-u8s8-5x13-o75-float.c-adds8.first-u8",
    "conv2d-u8s8-2x5x7x6-k3x3x34-s1-p1-fixed.c-adds8.fused-clamp-s8",
    "dwconv2d-s8s8-1x3x5x23-k3x3x1-s1-p1-fixed.t-addu8.fused-s8",
    "conv2d-s8s8-2x7x5x7-k3x3x17-s2-p1-fine.c-s8",
    "conv2d-u8s8-2x5x7x6-k3x3x34-s1-p1-fine.t-adds8-u8",
    "dwconv2d-s8u8-1x9x9x9-k2x4x2-s1-p1-d2-wz-fine.t-clamp-s8",
    "dwconv2d-s8s8-1x3x5x23-k3x3x1-s1-p1-fine.c-addu8-clamp-s8",
    "dense-u8s8-5x13-o75-fine.c-adds8-u8",
)


@st.composite
def numerics(draw: st.DrawFn) -> Numerics:
    kinds: st.SearchStrategy[Any] = st.sampled_from(["u8", "s8"])
    rules: st.SearchStrategy[Any] = st.sampled_from(ROUNDING_RULES)
    output: Any = draw(st.sampled_from(["u8", "s8", "s32"]))
    rule = draw(rules)
    requantize = Requantize(rule, draw(st.booleans()), rule == "fused" and draw(st.booleans()))
    return Numerics(
        data=draw(kinds),
        weight=draw(kinds),
        output=output,
        requantize=None if output == "s32" else requantize,
        weight_zero_point=draw(st.booleans()),
        clamp=output != "s32" and draw(st.booleans()),
        residual=draw(residuals(rule)) if output != "s32" and draw(st.booleans()) else None,
    )


@st.composite
def residuals(draw: st.DrawFn, rule: str) -> Residual:
    kind: Any = draw(st.sampled_from(["u8", "s8"]))
    is_first, is_fused = rule == "float" and draw(st.booleans()), rule == "fixed" and draw(st.booleans())
    return Residual(kind, draw(st.booleans()), is_first, is_fused)


@st.composite
def windows(draw: st.DrawFn, height: int, width: int) -> Window:
    """A window that fits the padded image."""
    kernel, stride, dilation, before, after = [], [], [], [], []
    for extent in (height, width):
        before.append(draw(st.integers(0, 2)))
        after.append(draw(st.integers(0, 2)))
        dilation.append(draw(st.sampled_from([1, 1, 2])))
        most = (extent + before[-1] + after[-1] - 1) // dilation[-1] + 1
        kernel.append(draw(st.integers(1, min(5, most))))
        stride.append(draw(st.integers(1, 3)))
    return Window(
        (kernel[0], kernel[1]),
        (stride[0], stride[1]),
        (before[0], before[1], after[0], after[1]),
        (dilation[0], dilation[1]),
    )


@st.composite
def first_layers(draw: st.DrawFn) -> Conv2d:
    height, width, channels = (
        draw(st.integers(7, 20)),
        draw(st.integers(7, 40)),
        draw(st.sampled_from([1, 2, 3, 3, 4, 6])),
    )
    kernel = draw(st.integers(2, 7)), draw(st.integers(1, 7))
    top, left, bottom, right = (draw(st.integers(0, most - 1)) for most in (*kernel, *kernel))
    window = Window(kernel, (draw(st.integers(1, 3)), draw(st.integers(1, 4))), (top, left, bottom, right))
    own = replace(draw(numerics()), weight_zero_point=False)
    return Conv2d(draw(st.integers(1, 2)), height, width, channels, draw(st.integers(16, 70)), window, 1, own)


@st.composite
def workloads(draw: st.DrawFn, op: str) -> Workload:
    """Small layers of an operator, in every form it can have.

    `grouped` ones are conv2d with narrow groups, `first` ones those of few channels, that first layers are like.
    """
    if op == "first":
        return draw(first_layers())
    if op == "dense":
        return Dense(draw(st.integers(1, 9)), draw(st.integers(1, 70)), draw(st.integers(1, 50)), draw(numerics()))
    batch, height, width = draw(st.integers(1, 2)), draw(st.integers(1, 9)), draw(st.integers(1, 12))
    window = draw(windows(height, width))
    if op == "dwconv2d":
        channels, multiplier = draw(st.integers(1, 70)), draw(st.sampled_from([1, 1, 2, 3]))
        return DepthwiseConv2d(batch, height, width, channels, window, multiplier, draw(numerics()))
    if op == "grouped":
        groups, widest = draw(st.sampled_from([2, 3, 5, 8, 11, 20])), (12, 12)
    else:
        groups, widest = draw(st.sampled_from([1, 1, 1, 2, 3])), (20, 40)
    channels, outputs = (groups * draw(st.integers(1, most)) for most in widest)
    return Conv2d(batch, height, width, channels, outputs, window, groups, draw(numerics()))
