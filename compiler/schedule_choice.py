"""Which schedule a layer gets: the best log's, that of a layer of the same form, or its template's default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from int8tune.results.best import BestSchedule
from int8tune.results.record import Candidate
from int8tune.schedules.errors import UnknownTemplateError
from int8tune.schedules.numerics import Numerics
from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Config
from int8tune.schedules.target import Target
from int8tune.schedules.template import Template
from int8tune.schedules.upgrades import with_same_kernel
from int8tune.schedules.workload import Workload, parse_workload


class Source(StrEnum):
    """Where a schedule comes from."""

    LOG = "log"
    SAME_FORM = "same form"
    DEFAULT = "default"
    NETWORK = "network"
    """The fastest of several inside the network."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A layer's schedule."""

    template: Template
    config: Config
    source: Source


class Chooser(Protocol):
    """Chooses schedules for the layers of a model."""

    def choose(self, workload: Workload) -> Choice:
        """A layer's schedule.

        Raises:
            WorkloadError: no template takes the layer on this target.
        """


@dataclass(frozen=True, slots=True)
class Chosen:
    """Schedules that were chosen before, for every layer of a model."""

    choices: Mapping[Workload, Choice]

    def choose(self, workload: Workload) -> Choice:
        return self.choices[workload]


class Schedules:
    """Chooses schedules for a target by a best log, whose schedules must have no faults (`compiler.best_log`)."""

    def __init__(self, target: Target, log: Iterable[BestSchedule] = ()) -> None:
        self._target = target
        self._exact: dict[Workload, BestSchedule] = {}
        self._of_form: dict[Workload, BestSchedule] = {}
        for best in log:
            if best.target == target.name:
                workload = parse_workload(best.workload)
                self._exact[workload] = best
                self._of_form.setdefault(_form(workload), best)

    def choose(self, workload: Workload) -> Choice:
        """The layer's own schedule; without one, that of a layer which differs in how it rounds and bounds only.

        Of several such layers, one that adds the same in the other order, or by the other rule, comes first.

        Farther layers say less than the default does: it is the best by an estimate that was fitted to measurements
        of many layers (docs/search.md), and most often within a few per cent.

        Raises:
            WorkloadError: no template takes the layer on this target.
        """
        for source, best in (
            (Source.LOG, self._exact.get(workload)),
            (Source.SAME_FORM, self._exact.get(_adding_otherwise(workload))),
            (Source.SAME_FORM, self._of_form.get(_form(workload))),
        ):
            if best and (choice := usable(best.candidate, workload, self._target, source)):
                return choice
        template = template_for(workload, self._target)
        return Choice(template, dict(template.space(workload, self._target).default), Source.DEFAULT)


def usable(candidate: Candidate, workload: Workload, target: Target, source: Source) -> Choice | None:
    """A candidate's schedule for a workload; None where this version has no template that makes it."""
    try:
        found = with_same_kernel(candidate.template, candidate.template_version, candidate.config)
    except UnknownTemplateError:
        return None
    if found.template.rejects(workload, target):
        return None
    space = found.template.space(workload, target)
    return None if space.fault(found.config) else Choice(found.template, space.completed(found.config), source)


def _adding_otherwise(workload: Workload) -> Workload:
    """The workload whose residual is the other summand (rule `float`), or is added by the other rule (`fixed`)."""
    numerics, residual = workload.numerics, workload.numerics.residual
    if residual is None or numerics.requantize is None or numerics.requantize.rule in ("fused", "fine"):
        return workload
    is_float = numerics.requantize.rule == "float"
    other = replace(residual, first=not residual.first) if is_float else replace(residual, fused=not residual.fused)
    return replace(workload, numerics=replace(numerics, residual=other))


def _form(workload: Workload) -> Workload:
    """The workload with one epilogue for all; whether it reads a residual stays, as kernels are shaped for that."""
    numerics = workload.numerics
    plain = Numerics(numerics.data, numerics.weight, "s32", None, numerics.weight_zero_point)
    return replace(workload, numerics=plain)
