"""`int8tune templates list` and `int8tune templates show`"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli import completing
from int8tune.tuner.cli.options import DebugOption, Format, FormatOption, TargetOption
from int8tune.tuner.cli.output import aligned, emit, emit_json

if TYPE_CHECKING:
    from int8tune.schedules.space import ConfigSpace
    from int8tune.schedules.target import Target
    from int8tune.schedules.template import Template
    from int8tune.schedules.workload import Workload

# One layer of each operator that no template has a reason to reject, to ask what a template takes.
USUAL_LAYERS = (
    "conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8",
    "dwconv2d-u8s8-1x56x56x64-k3x3x1-s1-p1-float.c-u8",
    "dense-u8s8-1x1024-o1024-float.c-u8",
)

TemplateArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", autocompletion=completing.templates, help="A template, as `templates list` names it."
    ),
]
WorkloadOption = Annotated[
    str | None,
    typer.Option("--workload", metavar="KEY", help="Show the space of this layer, as `layers` names it."),
]


def list_templates(form: FormatOption = Format.TABLE, _debug: DebugOption = False) -> None:
    """List the templates, the preferred ones first.

    Example: int8tune templates list
    """
    from int8tune.schedules.registry import all_templates

    rows: list[dict[str, Any]] = [{"name": t.name, "version": t.version, **_takes(t)} for t in all_templates()]
    if form is Format.JSON:
        emit_json(rows)
        return
    cells = [(r["name"], str(r["version"]), ", ".join(r["operators"]), ", ".join(r["targets"])) for r in rows]
    emit(aligned([("template", "version", "operators", "targets"), *cells], numbers=(1,)))


def show_template(
    name: TemplateArgument,
    workload: WorkloadOption = None,
    target: TargetOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Show a template, and its space for a layer.

    Example: int8tune templates show x86.conv --workload conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8
    """
    from int8tune.schedules.registry import template_named
    from int8tune.schedules.workload import parse_workload
    from int8tune.tuner.local_target import target_to_look_at

    template = template_named(name)
    about: dict[str, Any] = {
        "name": name,
        "version": template.version,
        **_takes(template),
        "description": _description(template),
    }
    layer = parse_workload(workload) if workload is not None else None
    space = _space(template, layer, target_to_look_at(target)) if layer else None
    if form is Format.JSON:
        emit_json(about | ({"workload": workload, "space": space} if space else {}))
        return
    emit(f"{name}, version {template.version}: {', '.join(about['operators'])} on {', '.join(about['targets'])}")
    emit(f"\n{about['description']}")
    if space:
        emit(f"\n{_draw(space)}")


def _takes(template: Template) -> dict[str, list[str]]:
    """The operators and target profiles of a template, by asking it."""
    from int8tune.schedules.target import PROFILE_NAMES
    from int8tune.schedules.workload import parse_workload
    from int8tune.tuner.local_target import target_to_look_at

    layers = [parse_workload(key) for key in USUAL_LAYERS]
    targets = [target_to_look_at(name) for name in PROFILE_NAMES]
    taken = [(layer, target) for layer in layers for target in targets if template.rejects(layer, target) is None]
    operators = dict.fromkeys(layer.op for layer, _ in taken)
    return {"operators": list(operators), "targets": list(dict.fromkeys(target.profile for _, target in taken))}


def _description(template: Template) -> str:
    """What the template's module and class say of themselves."""
    module = inspect.getdoc(inspect.getmodule(type(template)))
    return "\n\n".join(filter(None, [module, inspect.getdoc(type(template))]))


def _space(template: Template, layer: Workload, target: Target) -> dict[str, Any]:
    from int8tune.schedules.errors import WorkloadError

    if rejection := template.rejects(layer, target):
        raise WorkloadError(f"{template.name} does not take this layer ({rejection.reason}): {layer.key}")
    space: ConfigSpace = template.space(layer, target)
    return {
        "target": target.profile,
        "knobs": {knob.name: list(knob.choices) for knob in space.knobs},
        "constraints": [constraint.text for constraint in space.constraints],
        "size": space.size,
        "default": dict(space.default),
    }


def _draw(space: dict[str, Any]) -> str:
    rows = [("knob", "default", "choices")]
    rows += [(name, str(space["default"][name]), " ".join(map(str, all_))) for name, all_ in space["knobs"].items()]
    where = "".join(f", where {text}" for text in space["constraints"])
    return f"{aligned(rows)}\n\n{space['size']:,} configs on {space['target']}{where}"
