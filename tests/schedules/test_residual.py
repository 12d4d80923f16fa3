"""Kernels that add a residual: every rule, type and shape of the epilogue, extreme values, and wrong kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm.script import tirx as T
from tvm.script.ir_builder import tirx as builder

from int8tune.schedules.arguments import OWN_RATIO, RESIDUAL_RATIO, SHIFT, SUM_CONSTANT, kernel_inputs
from int8tune.schedules.epilogue import add_residual
from int8tune.schedules.intrinsics.x86_vectors import X86Vectors
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import DTYPES, MAX_CONSTANT, MAX_SCALE, MIN_SCALE, Addend, Operands, quantize_addition
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from int8tune.schedules.x86.conv import ConvX86
from int8tune.schedules.x86.residual import ResidualAddition
from tests.support.kernels.kernels import Built, build
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

# One of each width of registers: the instruction of the dot product makes no difference here.
X86_PROFILES = ("x86-avx512vnni", "x86-avx2")
FORMS = tuple(
    "-".join((rule, *clamp, f"add{residual}", *sum_clamp, output))
    for (rule, residual, output), (clamp, sum_clamp) in zip(
        itertools.product(("float.c", "fixed.t", "fused.cx"), ("u8", "s8"), ("u8", "s8")),
        itertools.cycle([((), ()), (("clamp",), ()), ((), ("clamp",)), (("clamp",), ("clamp",))]),
        strict=False,
    )
)
FORMS += ("float.c-addu8.first-u8", "float.t-clamp-adds8.first-u8", "float.c-adds8.first-clamp-s8")
FORMS += ("fine.c-adds8-s8", "fine.t-clamp-addu8-clamp-u8", "fine.c-addu8-s8")
FORMS += ("fixed.c-adds8.fused-s8", "fixed.t-clamp-addu8.fused-clamp-u8", "fixed.c-clamp-addu8.fused-s8")
LAYER = "conv2d-u8s8-1x6x11x12-k3x3x40-s1-p1-float.c-addu8-u8"
FIRST = LAYER.replace("-addu8", "-addu8.first")
FUSED = "conv2d-u8s8-1x6x11x12-k3x3x40-s1-p1-fused.cx-addu8-u8"
FIXED = "conv2d-s8s8-1x6x11x12-k3x3x40-s1-p1-fixed.c-clamp-adds8-clamp-s8"


@pytest.mark.parametrize("form", one_in(4, FORMS))
def test_every_form_is_exact(form: str, generic: Target) -> None:
    shapes = ("conv2d-u8s8-1x3x5x6-k3x3x18-s1-p1", "dwconv2d-s8s8-1x3x5x19-k3x3x1-s1-p1")
    shape = shapes[FORMS.index(form) // 2 % 2]
    assert build(parse_workload(f"{shape}-{form}"), generic).wrong_cases() == []


@pytest.mark.parametrize(
    ("profile", "form"),
    one_in(7, [(X86_PROFILES[0], form) for form in FORMS] + [(X86_PROFILES[1], form) for form in FORMS[::3]]),
)
def test_every_form_is_exact_on_x86(profile: str, form: str) -> None:
    workload, target = parse_workload(f"conv2d-u8s8-1x5x7x8-k1x1x40-s1-p0-{form}"), host_target(profile)
    assert build(workload, target, template=ConvX86()).wrong_cases() == []


@pytest.mark.matrix
@pytest.mark.parametrize("channels", [35, 80])
@pytest.mark.parametrize("profile", X86_PROFILES)
def test_every_register_tile_is_exact(profile: str, channels: int) -> None:
    """Groups of four, two and one register, of which the last one is not full."""
    workload = parse_workload(f"conv2d-u8s8-1x3x12x8-k1x1x{channels}-s1-p0-float.c-adds8-u8")
    target = host_target(profile)
    configs = {(c["tile_columns"], c["tile_registers"]): c for c in ConvX86().space(workload, target)}
    few = [configs[tile] for tile in sorted(configs)][:: max(1, len(configs) // 2)]
    for config in (*few, configs[max(configs)]):
        assert build(workload, target, config, ConvX86()).wrong_cases() == []


def test_the_residual_is_an_argument_only_where_there_is_one(generic: Target) -> None:
    for key, count in ((LAYER, 7), (LAYER.replace("-addu8", ""), 6)):
        built = build(parse_workload(key), generic)
        assert len(built.kernel.function.params) == count
        assert len(kernel_inputs(built.workload, built.kernel, layer_operands(built))) == count - 1


def layer_operands(built: Built) -> Operands:
    operands = extreme_operands(built, 0)
    return operands if built.workload.numerics.residual else replace(operands, residual=None)


# Extreme values.

BIASES = (-(2**31), -(2**31) + 1, -(2**24) - 1, -300, -1, 0, 1, 300, 2**22, 2**24 + 1, 2**31 - 200, 2**31 - 1)


def extreme_operands(built: Built, zero_point_place: int) -> Operands:
    """Sums that are all biases, with zero points at one end."""
    workload = built.workload
    numerics, channels = workload.numerics, workload.out_channels
    assert numerics.requantize is not None
    kind = numerics.residual.data if numerics.residual else "u8"
    rng = np.random.default_rng(zero_point_place)
    low, high = RANGES[numerics.output]
    addend = Addend(
        data=rng.integers(*RANGES[kind], workload.output_shape, endpoint=True).astype(DTYPES[kind]),
        clamp_low=low,
        clamp_high=high,
        zero_point=RANGES[kind][zero_point_place],
        sum_zero_point=RANGES[numerics.output][zero_point_place],
    )
    values: dict[str, Any]
    if numerics.requantize.rule == "float":
        values = {"scale": np.resize(np.array([1, MIN_SCALE, MAX_SCALE, 0.75], np.float32), channels)}
        addend = replace(addend, ratio=np.array([0.75, 0.5], np.float32))
    elif numerics.addition_rule == "fused":
        scales = np.resize(np.array([0.999998, MIN_SCALE, 0.75], np.float32), channels)
        values = {"scale": scales, "offset": np.resize(np.array([0, 1], np.float32), channels)}
        if numerics.requantize.rule == "fine":
            values["rest"] = np.resize(np.array([2.0**-30, 0, -(2.0**-21)], np.float32), channels)
        ratio, constant = np.array([0.75, 0.5], np.float32), np.array([-33.3], np.float32)
        addend = replace(addend, ratio=ratio, constant=constant)
    else:
        shifts = np.resize(np.array([0, -31, -7], np.int32), channels)
        values = {"multiplier": np.full(channels, 2**30 + 9, np.int32), "shift": shifts}
        multiplier, shift = quantize_addition(0.3, 0.7, 1.1)
        addend = replace(addend, multiplier=multiplier, shift=shift)
    return Operands(
        data=np.zeros(workload.data_shape, DTYPES[numerics.data]),
        weight=np.ones(workload.weight_shape, np.int8),
        bias=np.resize(np.array(BIASES, np.int32), channels),
        clamp_low=low,
        clamp_high=high,
        output_zero_point=RANGES[numerics.output][zero_point_place],
        residual=addend,
        **values,
    )


@pytest.mark.matrix(at_most=2)
@pytest.mark.parametrize(
    "form", ["float.c-addu8-u8", "float.c-adds8.first-s8", "fixed.c-adds8-s8", "fused.c-addu8-s8", "fine.c-addu8-s8"]
)
@pytest.mark.parametrize("profile", ["generic", *X86_PROFILES])
def test_sums_at_the_ends_of_int32_are_exact(profile: str, form: str) -> None:
    built = build(parse_workload(f"dense-u8s8-3x4-o48-{form}"), host_target(profile))
    for place in (0, 1):
        operands = extreme_operands(built, place)
        assert built.is_exact(operands)
        assert operands.residual is not None
        for change in extreme_factors(operands.residual):
            assert built.is_exact(replace(operands, residual=replace(operands.residual, **change)))


def extreme_factors(addend: Addend) -> list[dict[str, Any]]:
    if addend.ratio.size:
        pairs = itertools.product((MIN_SCALE, 1.0, MAX_SCALE), repeat=2)
        constants = (-MAX_CONSTANT, 0.0, MAX_CONSTANT) if addend.constant.size else (None,)
        return [
            {
                "ratio": np.array(pair, np.float32),
                **({} if value is None else {"constant": np.array([value], np.float32)}),
            }
            for pair, value in itertools.product(pairs, constants)
        ]
    largest = np.full(3, 2**31 - 1, np.int32)
    shifts = [(0, 0, 0), (0, -31, -30), (-31, 0, -31), (-1, -2, -29)]
    return [{"multiplier": largest, "shift": np.array(shift, np.int32)} for shift in shifts] + [
        {"multiplier": np.zeros(3, np.int32), "shift": np.zeros(3, np.int32)}
    ]


# Wrong kernels.


def rounded_product(left: Any, right: Any) -> Any:
    """A product that no compiler fuses with a sum."""
    return T.max(left * right, T.float32(-3e38))


@pytest.mark.matrix(at_most=2)
@pytest.mark.parametrize("key", [LAYER, FIRST, FUSED])
@pytest.mark.parametrize("rule", ["products rounded", "own output first"])
def test_other_float_arithmetic_is_caught(
    rule: str, key: str, generic: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule == "products rounded":
        monkeypatch.setattr(
            "int8tune.schedules.epilogue._fused", lambda left, right, term: rounded_product(left, right) + term
        )
    else:
        monkeypatch.setattr("int8tune.schedules.generic.direct_compute.add_residual", own_output_first)
    assert build(parse_workload(key), generic).wrong_cases() != []


def own_output_first(numerics: Any, own: Any, residual: Any, params: Any) -> Any:
    other = {OWN_RATIO: RESIDUAL_RATIO, RESIDUAL_RATIO: OWN_RATIO}

    class Exchanged:
        def __getitem__(self, at: int) -> Any:
            return params[other.get(at, at)]

    return add_residual(numerics, residual, own, Exchanged())


@pytest.mark.parametrize("profile", one_in(3, ["generic", *X86_PROFILES]))
def test_the_other_order_of_summands_is_caught(profile: str) -> None:
    """Kernels of both orders: the cases of either one accuse the other."""
    workloads = [parse_workload(key) for key in (LAYER, FIRST)]
    kernels = [build(workload, host_target(profile)) for workload in workloads]
    for workload, right, wrong in zip(workloads, kernels, kernels[::-1], strict=True):
        cases = [operands for _, operands in adversarial_operands(workload, 0)]
        assert all(right.is_exact(operands) for operands in cases)
        outputs = [(wrong.run(each, np.zeros(workload.output_shape, np.uint8)), each) for each in cases]
        assert any((made != reference(workload, each)).any() for made, each in outputs)


def test_llvm_fuses_products_and_sums_unless_it_is_kept_from_it(vnni: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer's own product is rounded before anything is added to it; without the fence, it is not, which shows."""
    workload = parse_workload(LAYER)
    assert build(workload, vnni).wrong_cases() == []
    monkeypatch.setattr(X86Vectors, "unfused", lambda self, value: value)  # noqa: ARG005
    assert build(workload, vnni).wrong_cases() != []


def words_of_one_part(self: ResidualAddition, part: int) -> Any:
    return WORDS(self, part ^ 1)


def unbounded(self: ResidualAddition, values: Any, offset: int) -> Any:  # noqa: ARG001
    return values


def product_rounded(self: X86Vectors, left: Any, right: Any, addend: Any) -> Any:
    return self.unfused(left * right) + addend


def shifted_half_up(self: ResidualAddition, values: Any, index: int) -> Any:
    lanes = self.vectors.lanes
    right = builder.int32(0) - self.params[SHIFT + index]
    half = builder.shift_right(builder.shift_left(builder.int32(1), right), 1)
    return builder.shift_right(values + builder.broadcast(half, lanes), builder.broadcast(right, lanes))


WORDS = ResidualAddition._words
MUTANTS: dict[str, tuple[str, type, str, Callable[..., Any]]] = {
    "bytes of another register": (LAYER, ResidualAddition, "_words", words_of_one_part),
    "own output not bounded": (LAYER, ResidualAddition, "_bounded", unbounded),
    "products rounded": (LAYER, X86Vectors, "fused", product_rounded),
    "fixed: bytes of another register": (FIXED, ResidualAddition, "_words", words_of_one_part),
    "fixed: own output not bounded": (FIXED, ResidualAddition, "_bounded", unbounded),
    "fused: bytes of another register": (FUSED, ResidualAddition, "_words", words_of_one_part),
    "fused: own output not bounded": (FUSED, ResidualAddition, "_bounded", unbounded),
    "fused: products rounded": (FUSED, X86Vectors, "fused", product_rounded),
    "fixed: half up": (FIXED, ResidualAddition, "_shifted", shifted_half_up),
}


@pytest.mark.parametrize("name", one_in(4, MUTANTS))
def test_wrong_x86_kernels_are_caught(name: str, vnni: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    key, owner, method, mutant = MUTANTS[name]
    monkeypatch.setattr(owner, method, mutant)
    assert build(parse_workload(key), vnni).wrong_cases() != []


@pytest.mark.matrix
@pytest.mark.parametrize("key", [LAYER, FIRST, FUSED])
@pytest.mark.parametrize("parameter", [OWN_RATIO, RESIDUAL_RATIO, SUM_CONSTANT])
def test_every_parameter_of_the_addition_counts(parameter: int, key: str, generic: Target) -> None:
    """One unit in the last place more of any of them shows."""
    built = build(parse_workload(key), generic)
    shown = False
    for _, operands in adversarial_operands(built.workload, 0):
        *inputs, params, residual = kernel_inputs(built.workload, built.kernel, operands)
        params = params.copy()
        params[parameter] += 1
        expected = reference(built.workload, operands)
        shown |= bool((built.call((*inputs, params, residual), np.invert(expected)) != expected).any())
    assert shown
