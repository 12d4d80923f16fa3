"""`int8tune plan`"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from int8tune.tuner.cli.campaign_file import plan_file
from int8tune.tuner.cli.options import (
    BatchOption,
    BindOption,
    DebugOption,
    Format,
    FormatOption,
    NetworkArgument,
    ShapeOption,
    TargetOption,
    ThreadsOption,
    UntilOption,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json
from int8tune.tuner.cli.tune import TrialsOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from int8tune.tuner.api.plan import Plan, PlannedLayer


def plan(
    context: typer.Context,
    network: NetworkArgument,
    batch: BatchOption = 1,
    bind: BindOption = None,
    shape: ShapeOption = None,
    until: UntilOption = None,
    target: TargetOption = None,
    trials: TrialsOption = 32,
    threads: ThreadsOption = 1,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Show what `tune` would do, and about how long.

    Builds and runs nothing. CAMPAIGN.toml names several networks: see int8tune help campaign-files.

    Example: int8tune plan resnet50 --trials 64
    """
    from int8tune.tuner.api.campaign_file import is_campaign_file
    from int8tune.tuner.api.plan import plan as planned
    from int8tune.tuner.models.given import bindings, shapes_of

    if is_campaign_file(network):
        return plan_file(context, network, form)
    found = planned(
        network,
        batch=batch,
        bind=bindings(bind),
        shape=shapes_of(shape),
        until=until,
        target=target,
        trials=trials,
        threads=threads,
    )
    if form is Format.JSON:
        emit_json(_as_json(found))
        return 0
    emit(f"{found.network} on {found.cpu}, target {found.target}")
    emit(cores_in_words(found.measuring_cores, found.building_cores))
    rows = [("runs", "layer", "template", "configs", "trials"), *map(_cells, found.layers)]
    emit("\n" + aligned(rows, numbers=(0, 3, 4)))
    most = f"{len(found.layers)} layers, at most {found.trials:,} trials"
    emit(f"\n{most}, about {in_words(found.predicted_s)} (an estimate)")
    return 0


def cores_in_words(measuring: Sequence[int], building: Sequence[int]) -> str:
    """Which cores measure and which build; of those that measure, the last one builds in between."""
    measures = f"{_cores(measuring, 'measures', 'measure')}, core {measuring[-1]} builds in between"
    return f"{_cores(building, 'builds', 'build')}, {measures}" if building else measures


def _cores(numbers: Sequence[int], does: str, do: str) -> str:
    return f"core {numbers[0]} {does}" if len(numbers) == 1 else f"cores {_ranges(numbers)} {do}"


def in_words(seconds: float) -> str:
    """A duration in its largest unit, such as `12 min`."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as `0-3, 8`."""
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _cells(layer: PlannedLayer) -> tuple[str, ...]:
    return str(layer.count), layer.label, layer.template, f"{layer.space:,}", str(layer.trials)


def _as_json(found: Plan) -> dict[str, Any]:
    measuring, building = list(found.measuring_cores), list(found.building_cores)
    return {
        "network": found.network,
        "target": found.target,
        "device": {"cpu": found.cpu, "measuring_cores": measuring, "building_cores": building},
        "tasks": [asdict(layer) for layer in found.layers],
        "trials": found.trials,
        "predicted_s": found.predicted_s,
    }
