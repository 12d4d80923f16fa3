"""Templates: what they take, and their spaces for a layer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.registry import all_templates, template_named
from int8tune.schedules.space import ConfigSpace
from int8tune.schedules.target import PROFILE_NAMES
from int8tune.schedules.template import Template
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.local_target import target_to_look_at

if TYPE_CHECKING:
    import pandas

# Of each operator a layer that its templates have no reason to reject, to ask what a template takes.
USUAL_LAYERS = (
    "conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-float.c-u8",
    "dwconv2d-u8s8-1x56x56x64-k3x3x1-s1-p1-float.c-u8",
    "dense-u8s8-1x1024-o1024-float.c-u8",
    "dense-u8s8-128x1024-o1024-float.c-u8",
    "conv2d-u8s8-1x56x56x64-k3x3x128-s1-p1-g8-float.c-u8",
    "conv2d-u8s8-1x224x224x3-k7x7x64-s2-p3-float.c-u8",
)


@dataclass(frozen=True, slots=True)
class KnownTemplate:
    """A template, and what it takes.

    Attributes:
        operators: such as `conv2d`.
        targets: profiles.
    """

    name: str
    version: int
    operators: tuple[str, ...]
    targets: tuple[str, ...]


class Templates(tuple[KnownTemplate, ...]):
    """All templates, the preferred ones first."""

    __slots__ = ()

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each template."""
        return frame_of([asdict(each) for each in self])

    def __repr__(self) -> str:
        return f"<{listed(len(self), 'template')}: {', '.join(each.name for each in self)}>"


def templates() -> Templates:
    """All templates, the preferred ones first."""
    return Templates(map(known_template, all_templates()))


def known_template(template: Template) -> KnownTemplate:
    """What a template takes, by asking it."""
    layers = [parse_workload(key) for key in USUAL_LAYERS]
    targets = [target_to_look_at(name) for name in PROFILE_NAMES]
    taken = [(layer, target) for layer in layers for target in targets if template.rejects(layer, target) is None]
    operators = dict.fromkeys(layer.op for layer, _ in taken)
    profiles = dict.fromkeys(target.profile for _, target in taken)
    return KnownTemplate(template.name, template.version, tuple(operators), tuple(profiles))


def space(template: str, workload: str, *, target: str | None = None) -> ConfigSpace:
    """A template's space for a layer: its knobs, its constraints, its default, and each of its configs.

    Args:
        template: its name.
        workload: the key of a layer, as `layers` names it.
        target: a profile; the best of this CPU if None.

    Raises:
        UnknownTemplateError, UnknownTargetError: nobody registered it.
        WorkloadError: the key can't be read, or the template does not take this layer.
    """
    known, layer, chosen = template_named(template), parse_workload(workload), target_to_look_at(target)
    if rejection := known.rejects(layer, chosen):
        raise WorkloadError(f"{known.name} does not take this layer ({rejection.reason}): {layer.key}")
    return known.space(layer, chosen)
