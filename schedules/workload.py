"""Workloads: the int8 layers that templates know how to compute.

A workload says everything that changes the kernel and nothing else: shapes, types and the form of the epilogue.
Values that a kernel receives at run time (zero points, scales, clamp bounds) are in `schedules.arguments`.

Every workload has a readable key that parses back::

    conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8
    dwconv2d-u8u8-1x112x112x32-k3x3x1-s2-p0.0.1.1-wz-fixed.t-clamp-u8
    dense-s8s8-128x768-o3072-s32
    conv2d-s8s8-1x56x56x64-k1x1x256-s1-p0-fixed.c-adds8-clamp-s8
    conv2d-s8s8-1x56x56x64-k1x1x256-s1-p0-fused.cx-s8

A rule rounds with values per channel (`.c`) or tensor (`.t`); `x` says that there are exceptions. The fourth key adds a
residual of type s8 and clamps the sum; a `clamp` before `add` is one of the layer's own output. By the float rule, sums
depend on the order of their summands: with `adds8.first` the residual is the first one, else the layer's own output is.
With `adds8.fused`, a layer of the fixed rule adds by the rule `fused`, as a layer of the fine rule always does.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.numerics import ROUNDING_RULES, USUAL, Numerics, Requantize, Residual

MAX_EXTENT = 1 << 20
MAX_TENSOR_BYTES = 1 << 31
# 255 * 255 products in an int32: a longer sum could wrap, and a wrapped sum has no right answer.
MAX_REDUCTION = (2**31 - 1) // (255 * 255)


@dataclass(frozen=True, slots=True)
class Window:
    """How a convolution's window moves over the image: (height, width) pairs, padding as (top, left, bottom, right)."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        _require_extents(kernel=self.kernel, stride=self.stride, dilation=self.dilation)
        for value in self.padding:
            if not _is_int(value) or not 0 <= value <= MAX_EXTENT:
                raise WorkloadError(f"padding must be integers of 0 to {MAX_EXTENT}: {self.padding}")

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the output of an image of `height` x `width`."""
        top, left, bottom, right = self.padding
        sizes = []
        for axis, extent, pad in ((0, height, top + bottom), (1, width, left + right)):
            reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
            if extent + pad < reach:
                raise WorkloadError(
                    f"the window spans {reach} {('rows', 'columns')[axis]}, the padded image has only {extent + pad}"
                )
            sizes.append((extent + pad - reach) // self.stride[axis] + 1)
        return sizes[0], sizes[1]

    @property
    def key(self) -> str:
        parts = [f"s{_pair(self.stride)}"]
        top, left, bottom, right = self.padding
        parts.append(f"p{top}" if len(set(self.padding)) == 1 else f"p{top}.{left}.{bottom}.{right}")
        if self.dilation != (1, 1):
            parts.append(f"d{_pair(self.dilation)}")
        return "-".join(parts)


@dataclass(frozen=True, slots=True)
class Conv2d:
    """A 2-D convolution: data [N, H, W, C], weights [OC, KH, KW, C / groups], output [N, OH, OW, OC]."""

    batch: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    window: Window
    groups: int = 1
    numerics: Numerics = USUAL

    def __post_init__(self) -> None:
        _require_extents(
            batch=(self.batch,),
            image=(self.height, self.width),
            channels=(self.in_channels, self.out_channels),
            groups=(self.groups,),
        )
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise WorkloadError(
                f"groups must divide both channel counts: {self.groups} groups, "
                f"{self.in_channels} in, {self.out_channels} out"
            )
        _require_feasible(self)

    @property
    def op(self) -> str:
        return "conv2d"

    @property
    def data_shape(self) -> tuple[int, ...]:
        return (self.batch, self.height, self.width, self.in_channels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.out_channels, *self.window.kernel, self.in_channels // self.groups)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.batch, *self.window.output_size(self.height, self.width), self.out_channels)

    @property
    def reduction(self) -> int:
        """Products that are summed for one output value."""
        return math.prod(self.weight_shape[1:])

    @property
    def macs(self) -> int:
        return math.prod(self.output_shape) * self.reduction

    @property
    def key(self) -> str:
        groups = f"-g{self.groups}" if self.groups > 1 else ""
        kernel = f"k{self.window.kernel[0]}x{self.window.kernel[1]}x{self.out_channels}"
        shape = _shape(self.data_shape)
        return f"conv2d-{self.numerics.types}-{shape}-{kernel}-{self.window.key}{groups}-{self.numerics.suffix}"


@dataclass(frozen=True, slots=True)
class DepthwiseConv2d:
    """A depthwise convolution: data [N, H, W, C], weights [C * multiplier, KH, KW], output [N, OH, OW, C * multiplier].

    Output channel `c * multiplier + m` reads data channel `c`.
    """

    batch: int
    height: int
    width: int
    channels: int
    window: Window
    multiplier: int = 1
    numerics: Numerics = USUAL

    def __post_init__(self) -> None:
        _require_extents(
            batch=(self.batch,),
            image=(self.height, self.width),
            channels=(self.channels,),
            multiplier=(self.multiplier,),
        )
        _require_feasible(self)

    @property
    def op(self) -> str:
        return "dwconv2d"

    @property
    def out_channels(self) -> int:
        return self.channels * self.multiplier

    @property
    def data_shape(self) -> tuple[int, ...]:
        return (self.batch, self.height, self.width, self.channels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.out_channels, *self.window.kernel)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.batch, *self.window.output_size(self.height, self.width), self.out_channels)

    @property
    def reduction(self) -> int:
        """Products that are summed for one output value."""
        return math.prod(self.window.kernel)

    @property
    def macs(self) -> int:
        return math.prod(self.output_shape) * self.reduction

    @property
    def key(self) -> str:
        kernel = f"k{self.window.kernel[0]}x{self.window.kernel[1]}x{self.multiplier}"
        shape = _shape(self.data_shape)
        return f"dwconv2d-{self.numerics.types}-{shape}-{kernel}-{self.window.key}-{self.numerics.suffix}"


@dataclass(frozen=True, slots=True)
class Dense:
    """A matrix product: data [M, K], weights [N, K], output [M, N]."""

    rows: int
    in_features: int
    out_channels: int
    numerics: Numerics = USUAL

    def __post_init__(self) -> None:
        _require_extents(rows=(self.rows,), features=(self.in_features, self.out_channels))
        _require_feasible(self)

    @property
    def op(self) -> str:
        return "dense"

    @property
    def data_shape(self) -> tuple[int, ...]:
        return (self.rows, self.in_features)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.out_channels, self.in_features)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.rows, self.out_channels)

    @property
    def reduction(self) -> int:
        """Products that are summed for one output value."""
        return self.in_features

    @property
    def macs(self) -> int:
        return self.rows * self.in_features * self.out_channels

    @property
    def key(self) -> str:
        return f"dense-{self.numerics.types}-{_shape(self.data_shape)}-o{self.out_channels}-{self.numerics.suffix}"


Workload = Conv2d | DepthwiseConv2d | Dense

_NUMBER = r"[1-9][0-9]{0,8}"
_HEAD = r"(?P<types>[us]8[us]8)"
_WINDOW = (
    rf"s(?P<stride>{_NUMBER}(?:x{_NUMBER})?)-p(?P<padding>[0-9]{{1,9}}(?:\.[0-9]{{1,9}}){{0,3}})"
    rf"(?:-d(?P<dilation>{_NUMBER}(?:x{_NUMBER})?))?"
)
_IMAGE = rf"(?P<shape>{_NUMBER}(?:x{_NUMBER}){{3}})-k(?P<kernel>{_NUMBER}(?:x{_NUMBER}){{2}})"
_TAIL = (
    rf"(?P<wz>-wz)?(?:-(?P<rule>{'|'.join(ROUNDING_RULES)})\.(?P<per>[ct])(?P<exceptions>x)?)?(?P<clamp>-clamp)?"
    r"(?:-add(?P<residual>[us]8)(?P<first>\.first)?(?P<sum_fused>\.fused)?(?P<sum_clamp>-clamp)?)?-(?P<output>u8|s8|s32)"
)
_PATTERNS = {
    "conv2d": re.compile(rf"conv2d-{_HEAD}-{_IMAGE}-{_WINDOW}(?:-g(?P<groups>{_NUMBER}))?{_TAIL}"),
    "dwconv2d": re.compile(rf"dwconv2d-{_HEAD}-{_IMAGE}-{_WINDOW}{_TAIL}"),
    "dense": re.compile(rf"dense-{_HEAD}-(?P<shape>{_NUMBER}x{_NUMBER})-o(?P<out>{_NUMBER}){_TAIL}"),
}
_EXAMPLES = {
    "conv2d": "conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8",
    "dwconv2d": "dwconv2d-u8s8-1x56x56x64-k3x3x1-s1-p1-float.c-u8",
    "dense": "dense-u8s8-1x1024-o1000-float.c-u8",
}


def parse_workload(key: str) -> Workload:
    """Return the workload of a readable key; `parse_workload(w.key) == w`.

    Raises:
        WorkloadError: the text is no key, or describes a layer that can't exist; the message has the reason.
    """
    op = key.split("-", 1)[0]
    if op not in _PATTERNS:
        raise WorkloadError(f"unknown operator `{op[:40]}`, known: {', '.join(_PATTERNS)}")
    match = _PATTERNS[op].fullmatch(key)
    if match is None:
        raise WorkloadError(f"`{key[:120]}` is not a {op} key, which look like `{_EXAMPLES[op]}`")
    try:
        workload = _from_groups(op, match.groupdict())
    except WorkloadError as error:
        raise WorkloadError(f"{key}: {error}") from None
    if workload.key != key:
        raise WorkloadError(f"`{key}` is not in its shortest form: {workload.key}")
    return workload


def _from_groups(op: str, text: dict[str, str | None]) -> Workload:
    types = text["types"] or ""
    numerics = Numerics(
        data=types[:2],  # type: ignore[arg-type]
        weight=types[2:],  # type: ignore[arg-type]
        output=text["output"],  # type: ignore[arg-type]
        requantize=_requantize(text),
        weight_zero_point=bool(text["wz"]),
        clamp=bool(text["clamp"]),
        residual=_residual(text),
    )
    shape = _numbers(text["shape"])
    if op == "dense":
        return Dense(shape[0], shape[1], _numbers(text["out"])[0], numerics)
    kernel = _numbers(text["kernel"])
    window = Window(
        kernel=(kernel[0], kernel[1]),
        stride=_as_pair(text["stride"]),
        padding=_as_padding(text["padding"]),
        dilation=_as_pair(text["dilation"] or "1"),
    )
    if op == "dwconv2d":
        return DepthwiseConv2d(shape[0], shape[1], shape[2], shape[3], window, kernel[2], numerics)
    groups = _numbers(text["groups"] or "1")[0]
    return Conv2d(shape[0], shape[1], shape[2], shape[3], kernel[2], window, groups, numerics)


def _requantize(text: dict[str, str | None]) -> Requantize | None:
    if text["rule"] is None:
        return None
    return Requantize(text["rule"], text["per"] == "c", bool(text["exceptions"]))  # type: ignore[arg-type]


def _residual(text: dict[str, str | None]) -> Residual | None:
    if text["residual"] is None:
        return None
    return Residual(text["residual"], bool(text["sum_clamp"]), bool(text["first"]), bool(text["sum_fused"]))  # type: ignore[arg-type]


def _numbers(text: str | None) -> list[int]:
    return [int(part) for part in re.split(r"[x.]", text or "")]


def _as_pair(text: str | None) -> tuple[int, int]:
    values = _numbers(text)
    return values[0], values[-1]


def _as_padding(text: str | None) -> tuple[int, int, int, int]:
    values = _numbers(text)
    if len(values) == 1:
        values *= 4
    if len(values) != 4:
        raise WorkloadError(f"padding is one number or four (top.left.bottom.right): {text}")
    return values[0], values[1], values[2], values[3]


def _pair(values: tuple[int, int]) -> str:
    return str(values[0]) if values[0] == values[1] else f"{values[0]}x{values[1]}"


def _shape(values: tuple[int, ...]) -> str:
    return "x".join(str(value) for value in values)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require_extents(**extents: tuple[int, ...]) -> None:
    for name, values in extents.items():
        for value in values:
            if not _is_int(value) or not 1 <= value <= MAX_EXTENT:
                raise WorkloadError(f"{name} must be integers of 1 to {MAX_EXTENT}: {values}")


def _require_feasible(workload: Workload) -> None:
    if workload.reduction > MAX_REDUCTION:
        raise WorkloadError(
            f"sums of {workload.reduction} products may overflow int32, the limit is {MAX_REDUCTION} products"
        )
    item_bytes = 4 if workload.numerics.output == "s32" else 1
    for name, shape, size in (
        ("data", workload.data_shape, 1),
        ("weights", workload.weight_shape, 1),
        ("output", workload.output_shape, item_bytes),
    ):
        if math.prod(shape) * size > MAX_TENSOR_BYTES:
            raise WorkloadError(f"{name} of shape {shape} need over {MAX_TENSOR_BYTES} bytes")
