"""The oracle in its plainest form: sums by binary64, every rounding by integers, the whole of a layer at once.

`schedules.oracle.reference` must compute the same. `python -m tests.plain_oracle WORKLOAD` says how long both take for
the adversarial suite, in seconds of the processor and of the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.schedules.operands import DTYPES, Operands
from int8tune.schedules.oracle import reference as oracle
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, Workload, parse_workload

RealArray = npt.NDArray[np.float64]


def plain_sums(workload: Workload, operands: Operands) -> npt.NDArray[np.int64]:
    """Sums without bias: of a convolution, those of a tap of all windows after the other. 2^53 is far away."""
    data = operands.data.astype(np.float64) - operands.data_zero_point
    weight = operands.weight.astype(np.float64) - operands.weight_zero_point
    sums = data @ weight.T if isinstance(workload, Dense) else _windows(workload, data, weight)
    return sums.astype(np.int64)


def _windows(workload: Conv2d | DepthwiseConv2d, data: RealArray, weight: RealArray) -> RealArray:
    window, (_, height, width, _) = workload.window, workload.output_shape
    (top, left, _, _), (down, right) = window.padding, window.stride
    extents = [(size - 1) * step + 1 for size, step in zip(window.kernel, window.dilation, strict=True)]
    below, beside = (steps * size for steps, size in ((down, height), (right, width)))
    padded = np.pad(data, ((0, 0), (top, extents[0] + below), (left, extents[1] + beside), (0, 0)))
    sums = np.zeros(workload.output_shape)
    for kh in range(window.kernel[0]):
        for kw in range(window.kernel[1]):
            row, column = kh * window.dilation[0], kw * window.dilation[1]
            taps = padded[:, row : row + below : down, column : column + beside : right]
            sums += _products(workload, taps, weight, kh, kw)
    return sums


def _products(workload: Conv2d | DepthwiseConv2d, taps: RealArray, weight: RealArray, kh: int, kw: int) -> RealArray:
    if isinstance(workload, DepthwiseConv2d):
        filters = weight.reshape(workload.out_channels, *workload.window.kernel)[:, kh, kw]
        return np.repeat(taps, workload.multiplier, axis=-1) * filters
    groups: list[RealArray] = np.split(taps, workload.groups, axis=-1)
    own = np.split(weight[:, kh, kw], workload.groups)
    return np.concatenate([part @ each.T for part, each in zip(groups, own, strict=True)], axis=-1)


def plain_reference(workload: Workload, operands: Operands) -> npt.NDArray[Any]:
    """The outputs of a layer."""
    total = (plain_sums(workload, operands) + operands.bias).astype(np.int32).astype(np.int64)
    step = workload.numerics.requantize
    if step is None:
        return total.astype(np.int32)
    if step.rule == "float":
        scaled = oracle.scale_binary32(total, operands.scale)
    elif step.rule == "fixed":
        scaled = oracle.scale_fixed_point(total, operands.multiplier.astype(np.int64), operands.shift.astype(np.int64))
    elif step.rule == "fine":
        scaled = oracle.scale_fine(total, operands.scale, operands.rest, operands.offset)
    else:
        offset = operands.offset
        if step.exceptions:
            offset = np.where(np.abs(total) == operands.exception, operands.exception_offset, offset)
        scaled = oracle.scale_fused(total, operands.scale, offset)
    own = np.clip(scaled + operands.output_zero_point, operands.clamp_low, operands.clamp_high)
    return oracle.add_residual(workload, operands, own).astype(DTYPES[workload.numerics.output])


def main(arguments: Sequence[str]) -> int:
    workload = parse_workload(arguments[0] if arguments else "dense-u8s8-2048x768-o3072-float.c-u8")
    cases = [operands for _, operands in adversarial_operands(workload, 0)]

    def seconds(compute: Callable[[Workload, Operands], npt.NDArray[Any]]) -> tuple[list[Any], float, float]:
        clock, processor = time.perf_counter(), time.process_time()
        outputs = [compute(workload, operands) for operands in cases]
        return outputs, time.process_time() - processor, time.perf_counter() - clock

    plain, plain_processor_s, plain_s = seconds(plain_reference)
    found, processor_s, clock_s = seconds(oracle.reference)
    same = all(np.array_equal(one, other) for one, other in zip(plain, found, strict=True))
    print(f"{workload.key}: {len(cases)} cases, outputs {'are the same' if same else 'DIFFER'}")
    print(f"plain {plain_processor_s:.1f} s of a core, {plain_s:.1f} s; now {processor_s:.1f} s, {clock_s:.1f} s")
    print(f"{plain_processor_s / processor_s:.1f} times less work")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
