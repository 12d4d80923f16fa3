"""What a campaign will do: its tasks, each a layer with the template and the space that are searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from int8tune.compiler.network import Network
from int8tune.results.record import Candidate, Config
from int8tune.schedules.errors import ScheduleError
from int8tune.schedules.registry import template_for
from int8tune.schedules.space import ConfigSpace
from int8tune.schedules.target import Target
from int8tune.schedules.template import Template
from int8tune.schedules.upgrades import with_same_kernel
from int8tune.schedules.workload import Workload


@dataclass(frozen=True, slots=True)
class Task:
    """One layer to tune.

    Attributes:
        index: position in the plan.
        count: how often the network runs the layer.
        named: by their index in the space, configs that were recorded as something else than a new candidate would be.
    """

    index: int
    name: str
    count: int
    workload: Workload
    target: Target
    template: Template
    space: ConfigSpace
    named: Mapping[int, Candidate] = field(default_factory=dict, compare=False)

    def candidate(self, config: Config) -> Candidate:
        """The candidate of a config: as it was recorded, if it was; else as this version records it."""
        if self.named and (named := self.named.get(self.space.index(config))):
            return named
        written = self.space.written(config)
        return Candidate(self.workload.key, self.target.name, self.template.name, self.template.version, written)

    @property
    def default(self) -> Candidate:
        return self.candidate(self.space.default)

    def trials(self, trials_per_task: int) -> int:
        """Trials of this task: the budget, or the whole space where that is smaller."""
        return self.space.size_up_to(trials_per_task)


def most_trials(tasks: Sequence[Task], trials_per_task: int) -> int:
    """The most trials of a campaign whose strategy learns: what small spaces leave is spent on other layers."""
    most = left = trials_per_task * len(tasks)
    for task in tasks:
        left -= task.space.size_up_to(left)
    return most - left


def as_recorded(task: Task, recorded: Iterable[Candidate], default_id: str | None) -> Task:
    """The task with the names and the default under which it was begun.

    Candidates may lack a knob that came later, or have an earlier version of the template: a proposal of the same
    kernel is to be found among them, not to be measured again. The default that it began with stays that, as
    all that was timed in turn was timed beside it.

    Args:
        default_id: of the candidate that was proposed first; None where it was not recorded before a stop.
    """
    known = {candidate.id: candidate for candidate in recorded if candidate.template == task.template.name}
    named, default = {}, dict(task.space.default)
    for candidate in known.values():
        try:
            found = with_same_kernel(candidate.template, candidate.template_version, candidate.config)
            index = task.space.index(found.config)
        except ScheduleError:
            continue
        if candidate.id == default_id:
            default = task.space.at(index)
        if task.candidate(found.config).id not in known:
            named[index] = candidate
    space = task.space if default == task.space.default else replace(task.space, default=default)
    return replace(task, named=named, space=space)


def make_plan(network: Network, target: Target) -> tuple[Task, ...]:
    """The tasks of a network on a target, in the order of its layers.

    Raises:
        WorkloadError: no template takes a layer.
    """
    tasks = []
    for index, layer in enumerate(network.layers):
        template = template_for(layer.workload, target)
        space = template.space(layer.workload, target)
        tasks.append(Task(index, layer.name, layer.count, layer.workload, target, template, space))
    return tuple(tasks)
