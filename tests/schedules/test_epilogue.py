"""The end of every kernel where values are extreme: sums at the ends of int32, and shifts that wrap."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from int8tune.schedules.numerics import RANGES, ROUNDING_RULES, Requantize
from int8tune.schedules.operands import DTYPES, MAX_SCALE, MIN_SCALE, Operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.scale_bounds import bounds_scales
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Workload, parse_workload
from tests.support.kernels.kernels import Built, build
from tests.support.run.probes import host_target

INT32_MIN, INT32_MAX = RANGES["s32"]
ENDS = (INT32_MIN, INT32_MIN + 1, INT32_MIN + 200, -1, 0, 1, INT32_MAX - 200, INT32_MAX - 1, INT32_MAX)
CHANNELS = 5 * len(ENDS)
SCALES = (1.0, 0.75, MIN_SCALE, MAX_SCALE, 2.0**-24)
FUSED_SCALES = (0.999998, 0.75, MIN_SCALE, 0.5, 2.0**-24)
SHIFTS = (0, -1, -31, 5, 30)


def sums_of_bias(workload: Workload, bias: Any, zero_point: int, **rescale: Any) -> Operands:
    low, high = RANGES[workload.numerics.output]
    return Operands(
        data=np.zeros(workload.data_shape, DTYPES[workload.numerics.data]),
        weight=np.ones(workload.weight_shape, DTYPES[workload.numerics.weight]),
        bias=np.array(bias, np.int32),
        clamp_low=low,
        clamp_high=high,
        output_zero_point=zero_point,
        **rescale,
    )


def built(key: str, target: Target) -> Built:
    return build(parse_workload(key), target)


@pytest.mark.matrix
@pytest.mark.parametrize("profile", ["generic", "x86-avx512vnni"])
@pytest.mark.parametrize("inputs", [4, 300])
@pytest.mark.parametrize("output", ["u8", "s8"])
def test_float_rule_at_the_ends_of_int32(output: str, inputs: int, profile: str) -> None:
    """Scales are bounded where a sum has few products; where it has 300, the products are."""
    kernel = built(f"dense-u8s8-1x{inputs}-o{CHANNELS}-float.c-{output}", host_target(profile))
    assert bounds_scales(kernel.workload) == (inputs == 4)
    pairs = list(itertools.product(ENDS, SCALES))
    bias, scale = [end for end, _ in pairs], np.array([scale for _, scale in pairs], np.float32)
    for zero_point in (*RANGES[output], 1):
        assert kernel.is_exact(sums_of_bias(kernel.workload, bias, zero_point, scale=scale))


@pytest.mark.parametrize("output", ["u8", "s8"])
def test_fixed_rule_at_the_ends_of_int32(output: str, generic: Target) -> None:
    kernel = built(f"dense-u8s8-1x4-o{CHANNELS}-fixed.c-{output}", generic)
    pairs = list(itertools.product(ENDS, SHIFTS))
    bias, shift = [end for end, _ in pairs], np.array([shift for _, shift in pairs], np.int32)
    for zero_point, multiplier in itertools.product((*RANGES[output], 1), (0, 1 << 30, INT32_MAX)):
        multipliers = np.full(CHANNELS, multiplier, np.int32)
        operands = sums_of_bias(kernel.workload, bias, zero_point, multiplier=multipliers, shift=shift)
        assert kernel.is_exact(operands)


@pytest.mark.matrix
@pytest.mark.parametrize("profile", ["generic", "x86-avx512vnni", "x86-avx2"])
@pytest.mark.parametrize("form", ["fused.c-u8", "fused.cx-s8", "fine.c-s8"])
def test_fused_rule_at_the_ends_of_int32(form: str, profile: str) -> None:
    """Nothing bounds its products, and those of the largest scale and offset need nothing that does."""
    kernel = built(f"dense-u8s8-1x4-o{CHANNELS}-{form}", host_target(profile))
    pairs = list(itertools.product(ENDS, FUSED_SCALES))
    bias, scale = [end for end, _ in pairs], np.array([scale for _, scale in pairs], np.float32)
    rescale: dict[str, Any] = {"scale": scale}
    others: tuple[float, ...] = (0.0,)
    if form.startswith("fine"):
        rescale["rest"] = np.where(scale < 1e-6, np.float32(0), scale * np.float32(2.0**-21))
    if kernel.workload.numerics.requantize == Requantize("fused", exceptions=True):
        magnitudes = np.minimum(np.abs(np.array(bias, np.int64)), INT32_MAX)
        rescale["exception"], others = magnitudes.astype(np.int32), (0.0, 1.0)
    for zero_point, offset, other in itertools.product((*RANGES[form[-2:]], 1), (0.0, 0.5, 1.0), others):
        rescale["offset"] = np.full(CHANNELS, offset, np.float32)
        if "exception" in rescale:
            rescale["exception_offset"] = np.full(CHANNELS, other, np.float32)
        assert kernel.is_exact(sums_of_bias(kernel.workload, bias, zero_point, **rescale))


@pytest.mark.parametrize("key", ["dense-u8s8-1x4000-o16-float.c-u8", "dense-u8u8-1x4000-o16-wz-fixed.c-u8"])
def test_partial_sums_may_wrap(key: str, generic: Target) -> None:
    """The folded bias leaves int32 although the sum itself does not."""
    kernel = built(key, generic)
    workload = kernel.workload
    rescale: dict[str, Any] = {"scale": np.full(16, 2.0**-24, np.float32)}
    if workload.numerics.weight_zero_point:
        rescale = {"multiplier": np.full(16, 1 << 30, np.int32), "shift": np.full(16, -23, np.int32)}
    operands = Operands(
        data=np.full(workload.data_shape, 255, np.uint8),
        weight=np.full(workload.weight_shape, RANGES[workload.numerics.weight][1], DTYPES[workload.numerics.weight]),
        bias=np.full(16, INT32_MIN + 100, np.int32),
        clamp_low=0,
        clamp_high=255,
        data_zero_point=255,
        output_zero_point=128,
        **rescale,
    )
    assert kernel.is_exact(operands)


@pytest.mark.matrix
@pytest.mark.parametrize("key", ["dense-u8u8-1x4000-o16-wz-fused.cx-u8", "dense-s8u8-1x4000-o16-wz-fused.cx-u8"])
@pytest.mark.parametrize("profile", ["generic", "x86-avx512vnni", "x86-avx2"])
def test_exceptions_are_sums_without_what_types_and_zero_points_add(key: str, profile: str) -> None:
    """Sums of 100 but in two channels: whatever a kernel folds into its bias must be gone again."""
    kernel = built(key, host_target(profile))
    workload = kernel.workload
    zero_points = RANGES[workload.numerics.data][1], RANGES["u8"][1]
    bias = np.full(16, 100, np.int32)
    bias[[3, 12]] = 99, 101
    operands = sums_of_bias(
        workload,
        bias,
        0,
        scale=np.full(16, 0.5, np.float32),
        offset=np.zeros(16, np.float32),
        exception=np.full(16, 100, np.int32),
        exception_offset=np.full(16, 1, np.float32),
    )
    far = replace(
        operands,
        data=np.full(workload.data_shape, zero_points[0], DTYPES[workload.numerics.data]),
        weight=np.zeros(workload.weight_shape, np.uint8),
        data_zero_point=zero_points[0],
        weight_zero_point=zero_points[1],
    )
    assert sorted(set(reference(workload, far)[0].tolist())) == [50, 51]
    assert kernel.is_exact(far)


@pytest.mark.parametrize("profile", ["x86-avx512vnni", "x86-avx2"])
def test_the_fused_rule_is_four_instructions_a_register_and_three_for_exceptions(profile: str) -> None:
    """LLVM fuses the product and the sum, and makes the sign's transfer one instruction where there is one."""
    target = host_target(profile)
    assembly = built("conv2d-u8s8-1x8x8x64-k1x1x64-s1-p0-fused.cx-u8", target).assembly
    registers = 2 * assembly.count("\tvpackssdw\t")
    names = ["vcvtdq2ps", r"vfmadd\d+ps", "vcvtps2dq", "vpabsd", "vpcmpeqd"]
    if profile == "x86-avx512vnni":
        names += ["vpternlogd", r"vmovdqa32(?=\t.*%k\d)"]
    assert [len(re.findall(rf"\t{name}\t", assembly)) for name in names] == [registers] * len(names)


@pytest.mark.parametrize("profile", ["x86-avx512vnni", "x86-avx2"])
def test_the_fine_rule_is_ten_instructions_a_register(profile: str) -> None:
    """Three of these round to integers; two products are fused with sums, and one is not."""
    target = host_target(profile)
    assembly = built("conv2d-u8s8-1x8x8x64-k1x1x64-s1-p0-fine.c-u8", target).assembly
    registers = 2 * assembly.count("\tvpackssdw\t")
    counts = {"vcvtdq2ps": 2, "vmulps": 1, "vcvtps2dq": 2, r"vfmadd\d+ps": 1, r"vfmsub\d+ps": 1, "vaddps": 1}
    if profile == "x86-avx512vnni":
        counts |= {"vpternlogd": 1}
    found = {name: len(re.findall(rf"\t{name}\t", assembly)) for name in counts}
    assert found == {name: count * registers for name, count in counts.items()}


@pytest.mark.parametrize("rule", ROUNDING_RULES)
def test_code_is_vector_code(rule: str, vnni: Target) -> None:
    """Bytes are packed 64 at a time: an operator that TVM can't vectorize would leave a scalar loop."""
    assembly = built(f"conv2d-u8s8-1x8x8x64-k1x1x64-s1-p0-{rule}.c-u8", vnni).assembly
    assert re.search(r"vpackuswb\t%zmm\d+, %zmm\d+, %zmm", assembly)
