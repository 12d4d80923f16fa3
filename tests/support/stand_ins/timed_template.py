"""A template whose kernels take a time that is known, some of which fail: what a campaign must find out is known."""

from __future__ import annotations

from collections.abc import Mapping

from int8tune.schedules.space import ConfigSpace, Knob, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Workload
from tests.support.stand_ins.faulty_templates import kernel_with_fault

# Of the best config; the next one takes twice as long, each further one a little more. A process that sleeps wakes up
# late where its core has other work, by a millisecond at times.
BEST_US, NEXT_US, STEP_US = 1000, 2000, 10
# Of so many configs each: one crashes, one is wrong.
_PERIOD = 20


class TimedTemplate:
    """The generic direct convolution after a sleep."""

    name = "timed"
    version = 1

    def __init__(self, count: int) -> None:
        self._count = count

    @property
    def best(self) -> int:
        return self._count * 2 // 3

    def fault(self, place: int) -> str:
        if place == self.best or place == 0:
            return ""
        return {7: "kernel_crash", 13: "kernel_wrong"}.get(place % _PERIOD, "")

    def sleep_us(self, place: int) -> int:
        return BEST_US if place == self.best else NEXT_US + STEP_US * (place * 37 % self._count)

    def rejects(self, workload: Workload, target: Target) -> Rejection | None:  # noqa: ARG002
        return None

    def space(self, workload: Workload, target: Target) -> ConfigSpace:  # noqa: ARG002
        return ConfigSpace(knobs=(Knob("place", tuple(range(self._count))),), default={"place": 0})

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        from tvm import tirx
        from tvm.script import tirx as T

        place = int(config["place"])
        kernel = kernel_with_fault(workload, target, self.fault(place) or "none")
        sleep = tirx.Evaluate(T.call_extern("int32", "usleep", self.sleep_us(place)))
        body = tirx.SeqStmt([sleep, kernel.function.body])
        return Kernel(kernel.function.with_body(body), kernel.layout, kernel.data_shape, kernel.output_shape)
