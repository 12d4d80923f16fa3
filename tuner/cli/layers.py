"""`int8tune layers`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli.options import DebugOption, Format, FormatOption, NetworkArgument, TargetOption
from int8tune.tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.compiler.graph import Graph
    from int8tune.compiler.network import Network
    from int8tune.schedules.target import Target
    from int8tune.schedules.workload import Workload

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

    Of a model, those are the layers that it computes on 8-bit integers; what keeps it from being compiled is said, too.

    Example: int8tune layers mobilenet_v2.tflite --target generic
    """
    from int8tune.compiler.obstacles import obstacle_lines
    from int8tune.tuner.local_target import target_to_look_at

    found, graph = _loaded(network)
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
        obstacles = {} if graph is None else _obstacles(graph)
        emit_json({"network": found.name, "target": chosen.profile, "macs": found.macs, "layers": rows, **obstacles})
        return
    emit(aligned([("runs", "MACs", "template", "workload"), *map(_cells, rows)], numbers=(0, 1)))
    if verbose:
        emit("\n" + "\n".join(line for row in rows for line in _reasons(row)))
    runs = sum(layer.count for layer in found.layers)
    say(f"{found.name} on {chosen.profile}: {runs:,} layers, {len(rows)} distinct, {short(found.macs)} multiply-adds")
    if graph is not None:
        for line in obstacle_lines(graph):
            say(line)


def _loaded(network: str) -> tuple[Network, Graph | None]:
    """A network; with the graph that it was read from, if it is a model."""
    from int8tune.compiler.network_file import is_model, load_network

    if not is_model(network):
        return load_network(network), None
    from int8tune.compiler.model import read_model
    from int8tune.compiler.obstacles import obstructed_network_of

    graph = read_model(Path(network))
    return obstructed_network_of(graph), graph


def _obstacles(graph: Graph) -> dict[str, Any]:
    """What keeps a model from being compiled, as `--format json` has it."""
    from int8tune.compiler.obstacles import int8_share, obstacles

    return {"int8_share": int8_share(graph), "obstacles": [asdict(each) for each in obstacles(graph)]}


def short(count: int) -> str:
    """A count of operations in three digits, such as `118M`."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _templates(workload: Workload, target: Target) -> dict[str, Any]:
    """The templates that take a workload, the preferred one first, and why the others do not."""
    from int8tune.schedules.registry import TEMPLATES, templates_for

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
