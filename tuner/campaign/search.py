"""What a campaign tries: its layers, whose turn it is, and what is recorded of both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from int8tune.results.base import Store
from int8tune.results.record import CacheMode, Candidate, Duel, Trial
from int8tune.tuner.campaign.plan import Task, as_recorded, most_trials
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign.task import Slot, TaskRun, task_rng
from int8tune.tuner.campaign.teaching import Teacher, trials_before
from int8tune.tuner.campaign.turns import EvenTurns, GainTurns, RoundTurns, Turns
from int8tune.tuner.search.registry import UNGUIDED, make_strategy

# Models are learned anew when they have not seen a fifth of the trials: as often while there are few.
ENOUGH_NEWS = 0.2


@dataclass
class Search:
    """The searches of all layers.

    Attributes:
        budget: the most trials of the campaign; fewer where layers end early.
        recorded: trials of earlier runs, by candidate.
        dueled: defaults and contenders that were timed in turn.
    """

    runs: tuple[TaskRun, ...]
    turns: Turns
    budget: int
    recorded: Mapping[str, Trial]
    dueled: frozenset[tuple[str, str]]
    _ready: list[Slot] = field(default_factory=list)

    def next_slots(self) -> list[Slot]:
        """Trials that are to be made now; none as long as the next turn waits, and none when all turns are over."""
        ready, self._ready = self._ready or self.turns.next_slots(), []
        return ready

    def nothing_left(self) -> bool:
        """Before anything is measured: whether all trials and duels are recorded already."""
        self._ready = self._ready or self.turns.next_slots()
        return not self._ready and not any(self.rivals(run) for run in self.runs)

    def rivals(self, run: TaskRun) -> list[Trial]:
        """A layer's contenders that were not timed against its default."""
        default = run.task.default.id
        return [trial for trial in run.contenders() if (default, trial.candidate.id) not in self.dueled]


def make_search(
    spec: CampaignSpec,
    tasks: Sequence[Task],
    store: Store,
    estimated_by: str = "",
    *,
    in_rounds: bool = False,
    no_duels: frozenset[tuple[str, str]] = frozenset(),
    notice: Callable[[str], None] = lambda _: None,
) -> Search:
    """The search of a stored campaign, from its beginning: what is recorded is not tried again.

    Args:
        in_rounds: the device answers when a whole round was measured.
        no_duels: defaults and contenders that are not to be timed in turn.
        notice: is told which earlier trials teach nothing any more, once.
    """
    recorded = {trial.candidate.id: trial for trial in store.query(Trial, campaign=spec.name)}
    duels = frozenset((duel.a, duel.b) for duel in store.query(Duel, campaign=spec.name)) | no_duels
    teacher = Teacher(
        lambda: trials_before(store, spec.name, spec.cache or CacheMode.NETWORK, estimated_by), ENOUGH_NEWS, notice
    )
    candidates: dict[str, list[Candidate]] = defaultdict(list)
    for trial in recorded.values():
        candidates[trial.candidate.workload].append(trial.candidate)
    # A task's default, its first proposal, has the task's own number; what is recorded first may be another one.
    by_number = {(trial.candidate.workload, trial.sequence): trial.candidate.id for trial in recorded.values()}

    def start(task: Task) -> TaskRun:
        rng, template = task_rng(spec.seed, task), task.template.name
        strategy = make_strategy(spec.strategy, task.space, rng, lambda: teacher.prior(template, task.target))
        return TaskRun(task, strategy, len(tasks), recorded)

    def begun(task: Task) -> Task:
        key = task.workload.key
        return as_recorded(task, candidates[key], by_number.get((key, task.index)))

    runs = tuple(start(begun(task)) for task in tasks)
    if spec.strategy in UNGUIDED:
        budget = sum(task.trials(spec.trials_per_task) for task in tasks)
        return Search(runs, EvenTurns(runs, spec.trials_per_task), budget, recorded, duels)
    budget = most_trials(tasks, spec.trials_per_task)
    guided = RoundTurns if in_rounds else GainTurns
    turns = guided(runs, spec.trials_per_task, spec.min_gain, teacher.begin_round)
    return Search(runs, turns, budget, recorded, duels)
