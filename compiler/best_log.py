"""What a best log must satisfy beyond its form: that a template of this version makes every schedule in it."""

from __future__ import annotations

from int8tune.results.best import BestSchedule
from int8tune.results.record import Candidate
from int8tune.schedules.errors import ScheduleError, UnknownTargetError
from int8tune.schedules.target import Target, targets_named
from int8tune.schedules.upgrades import Upgraded, with_same_kernel
from int8tune.schedules.workload import Workload, parse_workload


def schedule_faults(best: BestSchedule) -> list[str]:
    """Why the schedule can't be made here, as `field: what`; empty if it can."""
    return candidate_faults(best.candidate)


def candidate_faults(candidate: Candidate) -> list[str]:
    """The same of a candidate."""
    faults: list[str] = []
    workload = found = None
    targets: tuple[Target, ...] = ()
    try:
        workload = parse_workload(candidate.workload)
    except ScheduleError as error:
        faults.append(f"workload: {error}")
    try:
        found = with_same_kernel(candidate.template, candidate.template_version, candidate.config)
    except ScheduleError as error:
        faults.append(f"template: {error}")
    try:
        targets = targets_named(candidate.target)
    except UnknownTargetError as error:
        faults.append(f"target: {error}")
    if workload and found and targets:
        faults += _config_faults(found, workload, targets)
    return faults


def _config_faults(found: Upgraded, workload: Workload, targets: tuple[Target, ...]) -> list[str]:
    """One fault, unless the config is in the space of one of the targets that the name may stand for."""
    faults, template = [], found.template
    for target in targets:
        if rejection := template.rejects(workload, target):
            faults.append(f"template: {template.name} does not take this workload: {rejection.reason}")
        elif fault := template.space(workload, target).fault(found.config):
            faults.append(f"config: {fault}")
        else:
            return []
    return faults[:1]
