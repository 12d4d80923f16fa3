"""What a campaign will do: its tasks, each a layer with the template and the space that are searched."""

from __future__ import annotations

from dataclasses import dataclass

from int8tune.compiler.network import Network
from int8tune.results.record import Candidate, Config
from int8tune.schedules.registry import template_for
from int8tune.schedules.space import ConfigSpace
from int8tune.schedules.target import Target
from int8tune.schedules.template import Template
from int8tune.schedules.workload import Workload


@dataclass(frozen=True, slots=True)
class Task:
    """One layer to tune.

    Attributes:
        index: position in the plan.
        count: how often the network runs the layer.
    """

    index: int
    name: str
    count: int
    workload: Workload
    target: Target
    template: Template
    space: ConfigSpace

    def candidate(self, config: Config) -> Candidate:
        return Candidate(self.workload.key, self.target.name, self.template.name, self.template.version, dict(config))

    @property
    def default(self) -> Candidate:
        return self.candidate(self.space.default)

    def trials(self, trials_per_task: int) -> int:
        """Trials of this task: the budget, or the whole space where that is smaller."""
        return min(trials_per_task, self.space.size)


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
