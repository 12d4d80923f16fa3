"""`int8tune layers`"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli.options import (
    BindOption,
    DebugOption,
    Format,
    FormatOption,
    NetworkArgument,
    ShapeOption,
    TargetOption,
    UntilOption,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json, say, uncut_columns

if TYPE_CHECKING:
    from int8tune.tuner.api.layers import LayerInfo, Layers

VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show names, and why other templates take no layer.")]
NOT_TAKEN = "none"


def layers(
    network: NetworkArgument,
    target: TargetOption = None,
    verbose: VerboseOption = False,
    bind: BindOption = None,
    shape: ShapeOption = None,
    until: UntilOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Show a network's int8 layers and their templates.

    Of a model, those are the layers that it computes on 8-bit integers; what is computed in float, and what keeps it
    from being compiled, is said, too.

    Example: int8tune layers mobilenet_v2.tflite --target generic
    """
    from int8tune.tuner.api.layers import layers as layers_of
    from int8tune.tuner.models.given import bindings, shapes_of

    found = layers_of(network, target=target, bind=bindings(bind), shape=shapes_of(shape), until=until)
    if form is Format.JSON:
        emit_json(_as_json(found))
        return
    if found.layers:
        emit(layers_table(found.layers, uncut_columns()))
    if verbose:
        emit("\n" + "\n".join(line for layer in found.layers for line in _reasons(layer)))
    distinct = f"{found.runs:,} layers, {len(found.layers)} distinct"
    say(f"{found.network} on {found.target}: {distinct}, {short(found.macs)} multiply-adds")
    for line in found.model.lines if found.model else ():
        say(line)


def _as_json(found: Layers) -> dict[str, Any]:
    about = {"network": found.network, "target": found.target, "macs": found.macs}
    rows = [
        {
            "names": layer.names,
            "count": layer.count,
            "macs": layer.macs,
            "workload": layer.workload,
            "templates": layer.templates,
            "rejections": layer.rejections,
        }
        for layer in found.layers
    ]
    if found.model is None:
        return about | {"layers": rows}
    obstacles = [asdict(each) for each in found.model.obstacles]
    floats = [asdict(each) for each in found.model.floats]
    return about | {
        "layers": rows,
        "int8_share": found.model.int8_share,
        "exact": found.model.exact,
        "obstacles": obstacles,
        "floats": floats,
    }


def short(count: int) -> str:
    """A count of operations in three digits, such as `118M`."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= 0.9995 * size:  # what three digits round to a thousand has the next unit
            return f"{count / size:.3g}{unit}"
    return str(count)


def layers_table(layers: Sequence[LayerInfo], columns: int) -> str:
    """With the workloads' keys; where these don't fit, with the layers' shapes."""
    from int8tune.results.label import layer_label

    cells = [_cells(layer) for layer in layers]
    whole = aligned([("runs", "MACs", "template", "workload"), *cells], numbers=(0, 1))
    if max(map(len, whole.splitlines())) <= columns:
        return whole
    return aligned(
        [("runs", "MACs", "template", "layer"), *((*row[:-1], layer_label(row[-1])) for row in cells)], numbers=(0, 1)
    )


def _cells(layer: LayerInfo) -> tuple[str, str, str, str]:
    return str(layer.count), short(layer.macs), next(iter(layer.templates), NOT_TAKEN), layer.workload


def _reasons(layer: LayerInfo) -> list[str]:
    others = [f"    {name}: takes it, too" for name in layer.templates[1:]]
    unnamed = layer.count - len(layer.names)
    names = [f"    {name}" for name in layer.names] + ([f"    and {unnamed} more of it"] if unnamed else [])
    return [layer.workload, *names, *others, *(f"    {name}: {why}" for name, why in layer.rejections.items())]
