"""Templates as a later version of the program might have them: copies of `x86.conv` with its own kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import int8tune.schedules.registry
from int8tune.schedules.image import image_of
from int8tune.schedules.space import Config, ConfigSpace, Constraint, Knob, Value
from int8tune.schedules.target import Target
from int8tune.schedules.template import Kernel, Template
from int8tune.schedules.upgrades import Upgrade
from int8tune.schedules.workload import Conv2d, Dense, Workload
from int8tune.schedules.x86.conv import ConvX86
from int8tune.schedules.x86.conv_form import conv_form
from int8tune.schedules.x86.offsets import dot_offsets
from int8tune.schedules.x86.registers import REGISTERS


class ConvWithKnob(ConvX86):
    """The template with one knob more, which came without a new version: twice as many steps of a loop in a row.

    The default has it.
    """

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        own = super().space(workload, target)
        knobs = (*own.knobs, Knob("doubled", (False, True), before=False))
        features = own.features
        return replace(
            own,
            knobs=knobs,
            default={**own.default, "doubled": True},
            features=lambda config: {**features(config), "doubled": float(config["doubled"])},
        )

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        assert isinstance(workload, Conv2d | Dense)
        from int8tune.schedules.intrinsics.x86_vectors import VECTORS
        from int8tune.schedules.x86.conv_kernel import write_conv

        config = self.space(workload, target).check(config)
        steps = int(config["unroll"]) * (2 if config["doubled"] else 1)
        registers, offsets = REGISTERS[target.profile], dot_offsets(workload)
        form = conv_form(image_of(workload), registers, {**config, "unroll": steps}, offsets, 1)
        function = write_conv(workload, form, VECTORS[target.profile])
        return Kernel(function, form, (math.prod(workload.data_shape),), (math.prod(workload.output_shape),))


class RenamedConv(ConvX86):
    """The template's next version, in which the knob `unroll` is called `steps`; the kernels are the same."""

    version = ConvX86.version + 1

    def space(self, workload: Workload, target: Target) -> ConfigSpace:
        own = super().space(workload, target)
        rules = tuple(Constraint(rule.text, _of_old(rule)) for rule in own.constraints)
        features = own.features
        return ConfigSpace(
            knobs=tuple(replace(knob, name="steps") if knob.name == "unroll" else knob for knob in own.knobs),
            default=renamed(own.default),
            constraints=rules,
            features=lambda config: features(_old(config)),
        )

    def apply(self, workload: Workload, target: Target, config: Mapping[str, Value]) -> Kernel:
        return ConvX86().apply(workload, target, _old(self.space(workload, target).check(config)))


class NewKernelsConv(ConvX86):
    """The template's next version, of which nothing says what became of the configs before."""

    version = ConvX86.version + 1


def renamed(config: Mapping[str, Value]) -> Config:
    return {"steps" if name == "unroll" else name: value for name, value in config.items()}


RENAMING = {("x86.conv", ConvX86.version): Upgrade(same_kernels=True, config=renamed)}


def with_conv(template: Template) -> tuple[Template, ...]:
    """The registered templates with this one in place of `x86.conv`."""
    return tuple(template if one.name == "x86.conv" else one for one in int8tune.schedules.registry.TEMPLATES)


def _old(config: Mapping[str, Value]) -> Config:
    return {"unroll" if name == "steps" else name: value for name, value in config.items()}


def _of_old(rule: Constraint) -> Callable[[Mapping[str, Value]], bool]:
    """A constraint's condition, for configs with the new names."""
    return lambda config: rule.holds(_old(config))
