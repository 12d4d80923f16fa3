"""The templates, in order of preference: the first that takes a workload is its own, the last ones take anything."""

from __future__ import annotations

import difflib
from typing import Any

from int8tune.results.entry_points import TEMPLATES as GROUP
from int8tune.results.entry_points import loaded
from int8tune.schedules.arm.conv import ConvArm
from int8tune.schedules.arm.depthwise import DepthwiseArm
from int8tune.schedules.cuda.depthwise import DepthwiseCuda
from int8tune.schedules.cuda.first import FirstCuda
from int8tune.schedules.cuda.gemm import GroupsCuda, MatricesCuda, WordsCuda
from int8tune.schedules.errors import UnknownTemplateError, WorkloadError
from int8tune.schedules.generic.depthwise import DepthwiseGeneric
from int8tune.schedules.generic.direct import DirectGeneric
from int8tune.schedules.target import Target
from int8tune.schedules.template import Template
from int8tune.schedules.workload import Workload
from int8tune.schedules.x86.amx import AmxX86
from int8tune.schedules.x86.conv import ConvX86
from int8tune.schedules.x86.depthwise import DepthwiseX86
from int8tune.schedules.x86.grouped import GroupedX86

MAX_SHOWN = 80

TEMPLATES: tuple[Template, ...] = (
    GroupedX86(),
    AmxX86(),
    ConvX86(),
    DepthwiseX86(),
    ConvArm(),
    DepthwiseArm(),
    FirstCuda(),
    GroupsCuda(),
    MatricesCuda(),
    WordsCuda(),
    DepthwiseCuda(),
    DirectGeneric(),
    DepthwiseGeneric(),
)


_NEEDS = ("name", "version", "rejects", "space", "apply")


def all_templates() -> tuple[Template, ...]:
    """The templates of other packages, which are preferred, and then this package's.

    Raises:
        ExtensionError: another package's can't be used.
    """
    others: tuple[Any, ...] = loaded(GROUP, tuple(template.name for template in TEMPLATES), _NEEDS)
    return (*others, *TEMPLATES)


def template_named(name: str, version: int | None = None) -> Template:
    """The template of that name, in that version if one is given.

    Raises:
        UnknownTemplateError: there is none.
    """
    for template in all_templates():
        if template.name == name:
            if version not in (None, template.version):
                raise UnknownTemplateError(f"template `{name}` has version {template.version}, not {version}")
            return template
    names = [template.name for template in all_templates()]
    nearest = difflib.get_close_matches(name[:MAX_SHOWN], names, n=1, cutoff=0.4)
    hint = f", did you mean `{nearest[0]}`?" if nearest else ","
    raise UnknownTemplateError(f"unknown template `{name[:MAX_SHOWN]}`{hint} known: {', '.join(names)}")


def templates_for(workload: Workload, target: Target) -> tuple[Template, ...]:
    """The templates that take the workload on the target, the preferred one first."""
    return tuple(template for template in all_templates() if template.rejects(workload, target) is None)


def template_for(workload: Workload, target: Target) -> Template:
    """The preferred template of a workload on a target.

    Raises:
        WorkloadError: none takes it; the message has every template's reason.
    """
    templates = templates_for(workload, target)
    if not templates:
        reasons = "; ".join(f"{t.name}: {r.reason}" for t in all_templates() if (r := t.rejects(workload, target)))
        raise WorkloadError(f"no template takes {workload.key} on {target.name}: {reasons}")
    return templates[0]
