"""`int8tune plan`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from int8tune.tuner.cli.options import (
    BatchOption,
    DebugOption,
    Format,
    FormatOption,
    NetworkArgument,
    TargetOption,
    ThreadsOption,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json
from int8tune.tuner.cli.tune import TrialsOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from int8tune.rpc.request import Capabilities
    from int8tune.tuner.campaign.plan import Task

# Of MobileNet V2's and ResNet-18's layers on two cores of a server.
TYPICAL_TRIAL_S = 0.2


def plan(
    network: NetworkArgument,
    batch: BatchOption = 1,
    target: TargetOption = None,
    trials: TrialsOption = 32,
    threads: ThreadsOption = 1,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Show what `tune` would do, and about how long.

    Builds and runs nothing.

    Example: int8tune plan resnet50 --trials 64
    """
    from int8tune.compiler.batches import network_with_batch
    from int8tune.compiler.network_file import load_network
    from int8tune.rpc.transports.local import LocalTransport
    from int8tune.schedules.target import target_for
    from int8tune.tuner.campaign.plan import make_plan
    from int8tune.tuner.campaign.spec import CampaignSpec
    from int8tune.tuner.cores import measuring_and_build_cores

    spec = CampaignSpec("plan", network_with_batch(load_network(network), batch), trials_per_task=trials)
    measuring, building = measuring_and_build_cores(threads)
    with LocalTransport(measuring) as transport:
        device = transport.start()
    chosen = target_for(device.features, device.llvm_cpu, device.llvm_triple, target, threads)
    tasks = make_plan(spec.network, chosen)
    rows = [_row(task, trials) for task in tasks]
    total = sum(row["trials"] for row in rows)
    if form is Format.JSON:
        about = {"network": spec.network.name, "target": chosen.name, "device": _device(device, measuring, building)}
        emit_json(about | {"tasks": rows, "trials": total, "predicted_s": total * TYPICAL_TRIAL_S})
        return
    emit(f"{spec.network.name} on {device.cpu}, target {chosen.name}")
    emit(cores_in_words(measuring, building))
    emit("\n" + aligned([("runs", "layer", "template", "configs", "trials"), *map(_cells, rows)], numbers=(0, 3, 4)))
    emit(f"\n{len(rows)} layers, {total:,} trials, about {in_words(total * TYPICAL_TRIAL_S)} (an estimate)")


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


def _row(task: Task, trials: int) -> dict[str, Any]:
    from int8tune.results.label import layer_label

    return {
        "name": task.name,
        "label": layer_label(task.workload.key),
        "count": task.count,
        "workload": task.workload.key,
        "template": task.template.name,
        "space": task.space.size,
        "trials": task.trials(trials),
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return str(row["count"]), row["label"], row["template"], f"{row['space']:,}", str(row["trials"])


def _device(device: Capabilities, measuring: Sequence[int], building: Sequence[int]) -> dict[str, Any]:
    return {"cpu": device.cpu, "measuring_cores": list(measuring), "building_cores": list(building)}
