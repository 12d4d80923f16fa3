"""`int8tune templates list` and `int8tune templates show`"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli import completing
from int8tune.tuner.cli.options import DebugOption, Format, FormatOption, TargetOption
from int8tune.tuner.cli.output import aligned, emit, emit_json

if TYPE_CHECKING:
    from int8tune.schedules.template import Template

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
    from dataclasses import asdict

    from int8tune.tuner.api.templates import templates

    rows: list[dict[str, Any]] = [asdict(each) for each in templates()]
    if form is Format.JSON:
        emit_json(rows)
        return
    cells = [(r["name"], str(r["version"]), ", ".join(r["operators"]), ", ".join(folded(r["targets"]))) for r in rows]
    emit(aligned([("template", "version", "operators", "targets"), *cells], numbers=(1,)))


def folded(targets: Sequence[str]) -> list[str]:
    """Targets; of families of which all are there the family, such as `x86-*`."""
    from int8tune.schedules.target import PROFILE_NAMES

    found: dict[str, None] = {}
    for name in targets:
        family = name.partition("-")[0]
        members = {known for known in PROFILE_NAMES if known.startswith(f"{family}-")}
        found[f"{family}-*" if len(members) > 1 and members <= set(targets) else name] = None
    return list(found)


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
    from dataclasses import asdict

    from int8tune.schedules.registry import template_named
    from int8tune.tuner.api.templates import known_template

    template = template_named(name)
    about: dict[str, Any] = asdict(known_template(template)) | {"description": _description(template)}
    space = None if workload is None else _space(name, workload, target)
    if form is Format.JSON:
        emit_json(about | ({"workload": workload, "space": space} if space else {}))
        return
    emit(f"{name}, version {template.version}: {', '.join(about['operators'])} on {', '.join(about['targets'])}")
    emit(f"\n{about['description']}")
    if space:
        emit(f"\n{_draw(space)}")


def _description(template: Template) -> str:
    """What the template's module and class say of themselves."""
    module = inspect.getdoc(inspect.getmodule(type(template)))
    return "\n\n".join(filter(None, [module, inspect.getdoc(type(template))]))


def _space(template: str, workload: str, target: str | None) -> dict[str, Any]:
    from int8tune.tuner.api.templates import space
    from int8tune.tuner.local_target import target_to_look_at

    found = space(template, workload, target=target)
    return {
        "target": target_to_look_at(target).profile,
        "knobs": {knob.name: list(knob.choices) for knob in found.knobs},
        "constraints": [constraint.text for constraint in found.constraints],
        "size": found.size,
        "default": dict(found.default),
    }


def _draw(space: dict[str, Any]) -> str:
    rows = [("knob", "default", "choices")]
    rows += [(name, str(space["default"][name]), " ".join(map(str, all_))) for name, all_ in space["knobs"].items()]
    where = "".join(f", where {text}" for text in space["constraints"])
    return f"{aligned(rows)}\n\n{space['size']:,} configs on {space['target']}{where}"
