"""The config space of an ARM depthwise convolution, and what its configs are estimated to cost."""

from __future__ import annotations

from collections.abc import Mapping

from schedules.arm.depthwise_form import DepthwiseForm, depthwise_form
from schedules.space import ConfigSpace, Constraint, Knob, Value, cheapest
from schedules.tiles import tile_sizes
from schedules.workload import DepthwiseConv2d

MAX_TILE_COLUMNS = 8
TILE_CHANNELS = (8, 16)
# Registers of sums that leave enough of the 32 for operands and products.
MOST_SUMS = 20


def depthwise_space(workload: DepthwiseConv2d, threads: int) -> ConfigSpace:
    """The decisions of a depthwise convolution."""
    numerics, width = workload.numerics, workload.window.output_size(workload.height, workload.width)[1]
    symmetric = numerics.weight == "s8" and not numerics.weight_zero_point
    knobs = (
        Knob("products", ("pairs", "wide") if symmetric else ("wide",)),
        Knob("tile_columns", tile_sizes(width, MAX_TILE_COLUMNS)),
        Knob("tile_channels", TILE_CHANNELS if workload.channels > TILE_CHANNELS[0] else TILE_CHANNELS[:1]),
        Knob("outer", ("channels", "image")),
    )

    def form(config: Mapping[str, Value]) -> DepthwiseForm:
        return depthwise_form(workload, config, threads)

    constraints = (
        Constraint(
            f"a tile has at most {MOST_SUMS} registers of sums", lambda config: _sums(form(config)) <= MOST_SUMS
        ),
    )
    choices = {knob.name: knob.choices for knob in knobs} | {"outer": ("channels",)}
    return ConfigSpace(
        knobs=knobs,
        constraints=constraints,
        default=cheapest(choices, constraints, lambda config: estimated_cycles(form(config))),
        features=lambda config: _features(form(config)),
    )


def _sums(form: DepthwiseForm) -> int:
    return form.tile_columns * form.accumulators


def estimated_cycles(form: DepthwiseForm) -> float:
    """A rough count for an in-order core that issues one instruction of vectors a cycle."""
    return 1.0


def _features(form: DepthwiseForm) -> dict[str, float]:
    """What a cost model can know before anything is built; bytes and counts, not times."""
    return {"estimated_cycles": estimated_cycles(form)}
