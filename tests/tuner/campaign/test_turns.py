"""Which layer has the next turn, what that depends on, and that it depends on nothing else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from int8tune.results.record import Candidate, Trial
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import Target, named_target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.budget import Standing, expected_gain, expected_saving_s, is_worth_a_batch, most_promising
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.campaign.task import BATCH, Slot, TaskRun, task_rng
from int8tune.tuner.campaign.teaching import Teacher
from int8tune.tuner.campaign.turns import MOST_OPEN, EvenTurns, GainTurns, RoundTurns, Turns
from int8tune.tuner.search.registry import make_strategy
from tests.support.program.campaigns import SMALL, SMALL_DEPTHWISE
from tests.support.program.results_samples import failed, ok

KEYS = (
    "conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-u8",
    "conv2d-u8s8-1x6x9x24-k1x1x48-s1-p0-float.c-u8",
    "conv2d-u8s8-1x8x8x64-k1x1x64-s1-p0-float.c-u8",
    "conv2d-u8s8-1x9x9x32-k3x3x32-s1-p1-float.c-u8",
    "conv2d-u8s8-1x4x4x32-k1x1x96-s1-p0-float.c-u8",
)
STANDING = Standing(count=1, ops=10**6, best_s=1e-3, trials=8, batch=8, last_gain=0.0, forecast=None)
Order = Callable[[list[Slot]], int]


@pytest.fixture
def generic() -> Target:
    """The same one everywhere: candidates are named after it, and their times here after their names."""
    return named_target("generic-x86-64")


def make_turns(
    target: Target,
    trials: int,
    recorded: Mapping[str, Trial] | None = None,
    *,
    keys: tuple[str, ...] = KEYS,
    strategy: str = "xgboost",
    min_gain: float = 0.0,
    guided: Callable[..., Turns] = GainTurns,
) -> tuple[Turns, list[TaskRun]]:
    teacher, runs = Teacher(), []
    for index, key in enumerate(keys):
        workload = parse_workload(key)
        template = template_for(workload, target)
        task = Task(index, f"layer{index}", 1, workload, target, template, template.space(workload, target))
        own = make_strategy(
            strategy, task.space, task_rng(3, task), lambda name=template.name: teacher.prior(name, target)
        )  # type: ignore[misc]
        runs.append(TaskRun(task, own, len(keys), recorded or {}))
    if strategy == "grid":
        return EvenTurns(runs, trials), runs
    return guided(runs, trials, min_gain, teacher.begin_round), runs


def measured(slot: Slot) -> Trial:
    """A time of its own for each candidate, most of them slow and some broken."""
    number = int(slot.candidate.id[:6], 16) % 1000
    if number < 50:
        return failed(slot.sequence, chosen=slot.candidate)
    scale = 2.0**-slot.task.task.index
    trial = ok(slot.sequence, scale * 1e-5 * (1 + number / 500), chosen=slot.candidate)
    return replace(trial, binary=slot.candidate.id)


def play(turns: Turns, order: Order = lambda _: 0, most: int = 10**9) -> dict[int, Trial]:
    """Make trials in some order, a few at a time, as a loop would; the trials by their sequence number."""
    made: dict[int, Trial] = {}
    waiting: list[Slot] = []
    while len(made) < most:
        while slots := turns.next_slots():
            waiting += slots
        if not waiting:
            break
        slot = waiting.pop(order(waiting))
        made[slot.sequence] = measured(slot)
        slot.task.record(made[slot.sequence])
    return made


def names(made: Mapping[int, Trial]) -> dict[int, str]:
    return {sequence: trial.candidate.id for sequence, trial in made.items()}


@pytest.mark.thorough
def test_what_is_proposed_does_not_depend_on_which_trial_ends_first(generic: Target) -> None:
    expected = names(play(make_turns(generic, 20)[0]))
    assert len(expected) == 20 * len(KEYS)
    for seed in range(3):
        rng = random.Random(seed)
        assert names(play(make_turns(generic, 20)[0], lambda waiting: rng.randrange(len(waiting)))) == expected  # noqa: B023


@pytest.mark.matrix
@pytest.mark.parametrize("guided", [GainTurns, RoundTurns])
@pytest.mark.parametrize("strategy", ["xgboost", "evolution", "grid"])
@pytest.mark.thorough
def test_an_interrupted_search_goes_on_as_it_would_have(
    generic: Target, strategy: str, guided: Callable[..., Turns]
) -> None:
    alone = play(make_turns(generic, 20, strategy=strategy, guided=guided)[0])
    recorded: dict[int, Trial] = {}
    rng = random.Random(1)
    while len(recorded) < len(alone):
        before = {trial.candidate.id: trial for trial in recorded.values()}
        turns, _ = make_turns(generic, 20, before, strategy=strategy, guided=guided)
        now = play(turns, lambda waiting: rng.randrange(len(waiting)), most=17)
        assert not set(now) & set(recorded)
        recorded |= now
    assert names(recorded) == names(alone)


@pytest.mark.matrix(at_most=1)
@pytest.mark.parametrize("guided", [GainTurns, RoundTurns])
@pytest.mark.parametrize("strategy", ["xgboost", "descent"])
def test_a_larger_budget_goes_on_with_the_same_trials(
    generic: Target, strategy: str, guided: Callable[..., Turns]
) -> None:
    large = names(play(make_turns(generic, 18, strategy=strategy, guided=guided)[0]))
    for trials in (13, 14, 15):
        small = names(play(make_turns(generic, trials, strategy=strategy, guided=guided)[0]))
        assert len(small) == trials * len(KEYS)
        assert small.items() <= large.items()


def test_a_round_is_a_batch_of_each_layer_and_the_next_one_waits_for_all_of_it(generic: Target) -> None:
    turns, runs = make_turns(generic, 2 * BATCH + 3, guided=RoundTurns)
    for _ in range(2):
        slots = turns.next_slots()
        assert Counter(slot.task.task.index for slot in slots) == dict.fromkeys(range(len(KEYS)), BATCH)
        for slot in slots:
            assert turns.next_slots() == []
            assert turns.take_finished() == []
            slot.task.record(measured(slot))
    last = turns.next_slots()
    assert len(last) == 3 * len(KEYS)
    assert max(Counter(slot.task.task.index for slot in last).values()) == BATCH
    for slot in last:
        slot.task.record(measured(slot))
    assert turns.next_slots() == []
    assert turns.take_finished() == runs


def test_rounds_leave_out_layers_of_which_nothing_is_expected(generic: Target) -> None:
    turns, _ = make_turns(generic, 40, guided=RoundTurns, min_gain=0.3)
    assert len(KEYS) * BATCH < len(play(turns)) < 40 * len(KEYS)
    assert len(turns.take_finished()) == len(KEYS)


def test_every_layer_has_its_first_batch_before_any_has_a_second(generic: Target) -> None:
    turns, runs = make_turns(generic, 12)
    made = play(turns)
    assert all(run.proposed >= BATCH for run in runs)
    assert len(made) == 12 * len(KEYS)
    assert Counter(turn.run.task.index for turn in turns._turns[: len(KEYS)]) == dict.fromkeys(range(len(KEYS)), 1)  # type: ignore[attr-defined]


def test_turns_overlap_but_no_layer_is_ahead_of_its_own_trials(generic: Target) -> None:
    turns, runs = make_turns(generic, 40)
    for _ in range(15):
        slots = []
        while new := turns.next_slots():
            slots.append(new)
            assert len({id(slot.task) for slot in new}) == 1
        open_now = [run for run in runs if not run.is_whole]
        assert len(open_now) == MOST_OPEN == 3
        oldest = next(turn.run for turn in turns._turns if not turn.is_whole)  # type: ignore[attr-defined]
        waiting = [candidate for candidate in oldest.batch if candidate not in oldest.trials]
        for key in waiting:
            assert turns.next_slots() == []
            oldest.record(replace(ok(0, 1e-5), candidate=candidate_of(oldest, key)))


def candidate_of(run: TaskRun, key: str) -> Candidate:
    return next(new for config in run.task.space if (new := run.task.candidate(config)).id == key)


def test_the_budget_goes_where_the_time_is(generic: Target) -> None:
    """Each layer takes half the time of the one before it."""
    _, runs = played(generic, strategy="evolution")
    assert runs[0].proposed > 2 * runs[-1].proposed


def played(target: Target, **options: object) -> tuple[dict[int, Trial], list[TaskRun]]:
    turns, runs = make_turns(target, 24, **options)  # type: ignore[arg-type]
    return play(turns), runs


@pytest.mark.thorough
def test_layers_of_which_nothing_is_expected_end_early(generic: Target) -> None:
    all_trials, _ = played(generic)
    some, runs = played(generic, min_gain=0.05)
    none, short = played(generic, min_gain=0.99)
    assert len(all_trials) == 24 * len(KEYS) > len(some) > len(none)
    assert [run.proposed for run in short] == [BATCH] * len(KEYS)
    assert min(run.proposed for run in runs) == BATCH
    # Strategies without a model expect nothing, neither much nor little.
    assert len(played(generic, min_gain=0.99, strategy="descent")[0]) == len(all_trials)


def test_finished_layers_are_taken_once(generic: Target) -> None:
    turns, runs = make_turns(generic, 8)
    assert turns.take_finished() == []
    assert turns.open == len(KEYS)
    play(turns)
    assert turns.take_finished() == runs
    assert (turns.open, turns.take_finished()) == (0, [])


def test_a_small_space_leaves_its_budget_to_others(generic: Target) -> None:
    turns, (small, large) = make_turns(generic, 36, keys=(SMALL_DEPTHWISE, SMALL), strategy="evolution")
    play(turns)
    assert small.proposed == small.task.space.size == 20
    assert large.proposed == 2 * 36 - 20
    assert turns.take_finished() == [small, large]


def test_a_strategy_that_learns_nothing_waits_for_nothing(generic: Target) -> None:
    turns, runs = make_turns(generic, 20, strategy="grid")
    slots = []
    while new := turns.next_slots():
        slots += new
    assert len(slots) == 20 * len(KEYS)
    assert [run.proposed for run in runs] == [20] * len(KEYS)
    assert [slot.task.task.index for slot in slots[: 2 * BATCH]] == [0] * BATCH + [1] * BATCH
    assert turns.take_finished() == []


def test_numbers_of_records_that_other_turns_made_are_not_given_again(generic: Target) -> None:
    stranger = replace(ok(1), candidate=replace(ok(1).candidate, config={"tile": 77}))
    turns, _ = make_turns(generic, 8, {stranger.candidate.id: stranger})
    made = play(turns)
    assert 1 not in made
    assert len(made) == 8 * len(KEYS)


def test_contenders_are_different_programs_in_whichever_order_they_were_measured(generic: Target) -> None:
    """Twins have one binary and one time. Were one of them chosen by chance, a finished campaign would go on."""
    chosen = set()
    for seed in range(8):
        _, (run,) = make_turns(generic, BATCH, keys=KEYS[:1])
        slots = run.next_slots(BATCH)
        trials = [ok(slot.sequence, 1e-5 * (1 + place // 3), chosen=slot.candidate) for place, slot in enumerate(slots)]
        trials = [replace(trial, binary=f"{place // 3:064x}") for place, trial in enumerate(trials)]
        for trial in random.Random(seed).sample(trials, len(trials)):
            run.record(trial)
        chosen.add(tuple(trial.sequence for trial in run.contenders()))
    # The first three are the default and its twins.
    assert chosen == {(3, 6)}


@pytest.mark.parametrize(
    ("changed", "gain"),
    [
        ({}, 0.8),
        ({"trials": 32}, 0.2),
        ({"trials": 32, "last_gain": 0.5}, 0.3),
        ({"forecast": 0.03}, 0.03),
        ({"forecast": 0.0, "last_gain": 0.5}, 0.0),
    ],
)
def test_a_forecast_counts_before_what_was_gained(changed: dict[str, float], gain: float) -> None:
    assert expected_gain(replace(STANDING, **changed)) == pytest.approx(gain)  # type: ignore[arg-type]


def test_a_saving_is_that_of_the_whole_network() -> None:
    known = replace(STANDING, forecast=0.1)
    assert expected_saving_s(known) == pytest.approx(1e-4)
    assert expected_saving_s(replace(known, count=3)) == pytest.approx(3e-4)
    # As slow as the slowest that is of use: 1e9 operations per second.
    assert expected_saving_s(replace(STANDING, best_s=None)) == pytest.approx(0.8e-3)


def test_the_largest_saving_has_the_next_turn() -> None:
    assert most_promising([replace(STANDING, best_s=best_s) for best_s in (1e-5, 1e-3, 1e-4, 1e-3)]) == 1


def test_only_a_model_ends_a_layer() -> None:
    assert is_worth_a_batch(replace(STANDING, trials=10**6), 0.9)
    assert is_worth_a_batch(replace(STANDING, forecast=0.01), 0.01)
    assert is_worth_a_batch(replace(STANDING, forecast=0.0), 0.0)
    assert not is_worth_a_batch(replace(STANDING, forecast=0.009), 0.01)
