"""The number formats of a layer and its epilogue: types, zero points in use, rounding rule, clamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from int8tune.schedules.errors import WorkloadError

DataType = Literal["u8", "s8"]
OutputType = Literal["u8", "s8", "s32"]
Term = TypeVar("Term")
RoundingRule = Literal["float", "fixed", "fused", "fine"]
ROUNDING_RULES: tuple[RoundingRule, ...] = ("float", "fixed", "fused", "fine")

RANGES: dict[str, tuple[int, int]] = {"u8": (0, 255), "s8": (-128, 127), "s32": (-(2**31), 2**31 - 1)}


@dataclass(frozen=True, slots=True)
class Requantize:
    """How an int32 sum becomes an 8-bit value.

    `float` multiplies in IEEE binary32 and rounds half to even (ONNX Runtime's QLinearConv); `fixed` multiplies by a
    31-bit integer and rounds twice (gemmlowp, TFLite's reference kernels). `fused` adds an offset of the sum's sign to
    the product, in one fused multiply-add of binary32, and rounds half to even; with `exceptions`, sums of one
    magnitude in each channel have another offset. `fine` does the same with a scale of two binary32 numbers, and keeps
    apart what the product has behind the point (`schedules.oracle.reference.scale_fine`): it is right where sums are so
    many for each output that `fused` is not. Scales and offsets that are chosen for these give the outputs of `fixed`,
    in a fraction of its instructions.
    """

    rule: RoundingRule = "float"
    per_channel: bool = True
    exceptions: bool = False

    def __post_init__(self) -> None:
        if self.rule not in ROUNDING_RULES:
            raise WorkloadError(f"unknown rounding rule `{self.rule}`, known: {', '.join(ROUNDING_RULES)}")
        if self.exceptions and self.rule != "fused":
            raise WorkloadError(f"exceptions need the rounding rule fused: {self.rule}")

    @property
    def rows(self) -> int:
        """How many values each channel has for it."""
        return {"float": 1, "fixed": 2, "fused": 4 if self.exceptions else 2, "fine": 3}[self.rule]

    @property
    def key(self) -> str:
        """The part of a key that names the rule, such as `float.c` or `fused.tx`."""
        return f"{self.rule}.{'c' if self.per_channel else 't'}{'x' if self.exceptions else ''}"


@dataclass(frozen=True, slots=True)
class Residual:
    """A quantized tensor of the output's shape that is added to the layer's own output, by the layer's rounding rule.

    A layer of the rule `fine` adds by the rule `fused`.

    The layer's own output is quantized first, as without residual; the sum has a scale, a zero point and bounds of its
    own. `clamp` says that these bounds are narrower than the output type. `first` says that the residual is the first
    summand, and not the layer's own output: the float rule rounds by their order. `fused` says that a layer of the
    fixed rule adds by the rule `fused`.
    """

    data: DataType = "u8"
    clamp: bool = False
    first: bool = False
    fused: bool = False

    def __post_init__(self) -> None:
        if self.data not in ("u8", "s8"):
            raise WorkloadError(f"unknown residual type `{self.data}`, known: u8, s8")

    @property
    def key(self) -> str:
        """The part of a key that names the addition, such as `addu8`, `adds8.fused` or `adds8.first-clamp`."""
        order, rule = ".first" if self.first else "", ".fused" if self.fused else ""
        return f"add{self.data}{order}{rule}{'-clamp' if self.clamp else ''}"

    def in_order(self, own: Term, residual: Term) -> tuple[Term, Term]:
        """What is known of both summands, in the order in which they are added."""
        return (residual, own) if self.first else (own, residual)


@dataclass(frozen=True, slots=True)
class Numerics:
    """The types of a layer and its epilogue.

    The data zero point needs no field: it is folded into the bias and pads the border, so it changes no kernel.
    `weight_zero_point` does (the window sum of the data is needed), and so does `clamp`, bounds narrower than the
    output type. With a `residual`, `output` is the type of both the layer's own output and the sum.
    """

    data: DataType = "u8"
    weight: DataType = "s8"
    output: OutputType = "u8"
    requantize: Requantize | None = Requantize()
    weight_zero_point: bool = False
    clamp: bool = False
    residual: Residual | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("data", self.data, ("u8", "s8")),
            ("weight", self.weight, ("u8", "s8")),
            ("output", self.output, ("u8", "s8", "s32")),
        ):
            if value not in allowed:
                raise WorkloadError(f"unknown {name} type `{value}`, known: {', '.join(allowed)}")
        if (self.requantize is None) != (self.output == "s32"):
            raise WorkloadError(
                f"an output of type {self.output} {'needs a' if self.output != 's32' else 'takes no'} requantize step"
            )
        if self.clamp and self.output == "s32":
            raise WorkloadError("a clamp needs an 8-bit output: s32 sums are never clamped")
        if self.residual and self.output == "s32":
            raise WorkloadError("a residual needs an 8-bit output: nothing is added to s32 sums")
        if self.residual and self.residual.first and self.requantize and self.requantize.rule != "float":
            raise WorkloadError(
                f"a residual is the first summand by the rounding rule float only: {self.requantize.rule}"
            )
        if self.residual and self.residual.fused and self.requantize and self.requantize.rule != "fixed":
            raise WorkloadError(
                f"a residual has the rule fused of its own beside the rounding rule fixed only: {self.requantize.rule}"
            )

    @property
    def types(self) -> str:
        return f"{self.data}{self.weight}"

    @property
    def addition_rule(self) -> RoundingRule | None:
        """The rule by which the residual is added; None without one."""
        if self.residual is None or self.requantize is None:
            return None
        return "fused" if self.residual.fused or self.requantize.rule == "fine" else self.requantize.rule

    @property
    def suffix(self) -> str:
        """The part of a key that names the epilogue, such as `wz-fixed.t-clamp-u8` or `float.c-addu8-u8`."""
        parts = ["wz"] if self.weight_zero_point else []
        if self.requantize is not None:
            parts.append(self.requantize.key)
        if self.clamp:
            parts.append("clamp")
        if self.residual is not None:
            parts.append(self.residual.key)
        return "-".join([*parts, self.output])


USUAL = Numerics()
"""As most quantized networks have it: u8 data, symmetric s8 weights, one scale per channel, u8 output."""
