"""A template whose configs go wrong in every way a candidate can, while it is built and while it runs."""

import os
import time
from collections.abc import Mapping

from int8tune.schedules.space import ConfigSpace, Knob, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Workload

BUILD_FAULTS = ("raise", "abort", "exit", "hang", "memory")
KERNEL_FAULTS = ("kernel_abort", "kernel_crash", "kernel_hang", "kernel_wrong")
FAULTS = ("none", "none_again", *BUILD_FAULTS, *KERNEL_FAULTS)


class FaultyTemplate:
    """The generic direct convolution, with a knob for the fault."""

    name = "faulty"
    version = 1

    def __init__(self, faults: tuple[str, ...] = FAULTS) -> None:
        self._faults = faults

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:  # noqa: ARG002
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:  # noqa: ARG002
        return ConfigSpace(knobs=(Knob("fault", self._faults),), default={"fault": self._faults[0]})

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        fault = config["fault"]
        if fault in BUILD_FAULTS:
            fail_to_build(str(fault))
        return kernel_with_fault(workload, target, str(fault))


def fail_to_build(fault: str) -> None:
    match fault:
        case "raise":
            raise RuntimeError("this template raises")
        case "abort":
            os.abort()
        case "exit":
            os._exit(0)
        case "hang":
            time.sleep(3600)
        case "memory":
            bytearray(1 << 40)


def kernel_with_fault(workload: Workload, target: Target, fault: str) -> Kernel:
    from tvm import tirx
    from tvm.script import tirx as T

    from int8tune.schedules.generic.direct import DirectGeneric

    plain = DirectGeneric()
    kernel = plain.apply(workload, target, plain.space(workload, target).default)
    if fault.startswith("none"):
        return kernel
    calls = {
        "kernel_abort": lambda: T.call_extern("int32", "abort"),
        "kernel_crash": lambda: T.call_extern("int32", "raise", 11),
        "kernel_hang": lambda: T.call_extern("int32", "pause"),
        "kernel_wrong": lambda: T.call_extern("int32", "abs", 0),
    }
    body = tirx.Evaluate(calls[fault]())
    if fault == "kernel_hang":  # again and again: a signal ends one pause
        body = tirx.For(tirx.Var("turn", "int32"), 0, 1 << 30, tirx.ForKind.SERIAL, body)
    if fault != "kernel_wrong":
        body = tirx.SeqStmt([body, kernel.function.body])
    return Kernel(kernel.function.with_body(body), kernel.layout, kernel.data_shape, kernel.output_shape)
