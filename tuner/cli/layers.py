"""`int8tune layers`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.options import DebugOption, Format, FormatOption, NetworkArgument, TargetOption
from tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from schedules.target import Target
    from schedules.workload import Workload

VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show names, and why other templates take no layer.")]
NOT_TAKEN = "none"


def layers(
    network: NetworkArgument,
    target: TargetOption = None,
    verbose: VerboseOption = False,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Show a network's int8 layers and their templates.

    Of a model, those are the layers that it computes on 8-bit integers.

    Example: int8tune layers mobilenet_v2.tflite --target generic
    """
    from compiler.network_file import load_network
    from tuner.local_target import target_to_look_at

    found = load_network(network)
    chosen = target_to_look_at(target)
    rows = [
        {
            "names": layer.names,
            "count": layer.count,
            "macs": layer.workload.macs,
            "workload": layer.workload.key,
            **_templates(layer.workload, chosen),
        }
        for layer in found.layers
    ]
    if form is Format.JSON:
        emit_json({"network": found.name, "target": chosen.profile, "macs": found.macs, "layers": rows})
        return
    emit(aligned([("runs", "MACs", "template", "workload"), *map(_cells, rows)], numbers=(0, 1)))
    if verbose:
        emit("\n" + "\n".join(line for row in rows for line in _reasons(row)))
    runs = sum(layer.count for layer in found.layers)
    say(f"{found.name} on {chosen.profile}: {runs:,} layers, {len(rows)} distinct, {short(found.macs)} multiply-adds")


def short(count: int) -> str:
    """A count of operations in three digits, such as `118M`."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _templates(workload: Workload, target: Target) -> dict[str, Any]:
    """The templates that take a workload, the preferred one first, and why the others do not."""
    from schedules.registry import TEMPLATES, templates_for

    taking = [template.name for template in templates_for(workload, target)]
    rejections = {t.name: reason.reason for t in TEMPLATES if (reason := t.rejects(workload, target))}
    return {"templates": taking, "rejections": rejections}


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return str(row["count"]), short(row["macs"]), next(iter(row["templates"]), NOT_TAKEN), row["workload"]


def _reasons(row: dict[str, Any]) -> list[str]:
    others = [f"    {name}: takes it, too" for name in row["templates"][1:]]
    unnamed = row["count"] - len(row["names"])
    names = [f"    {name}" for name in row["names"]] + ([f"    and {unnamed} more of it"] if unnamed else [])
    return [row["workload"], *names, *others, *(f"    {name}: {reason}" for name, reason in row["rejections"].items())]
