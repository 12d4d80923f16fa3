"""The farm's promises, played in a simulated farm: docs/reliability.md. `make farm-nemesis` plays them for long."""

from __future__ import annotations

import time

import numpy as np
import psutil
import pytest

from int8tune.rpc.farm.simulation.accounting import Accounting
from int8tune.rpc.farm.simulation.nemesis import nemesis_farm
from tests.support.farm import promises
from tests.support.farm.log import Checker, Log
from tests.support.run.thinned import chosen

pytestmark = pytest.mark.promise(2, 3, 11, 12, 13, 18, 21)


@pytest.mark.parametrize("seeds", chosen([range(350), range(350, 700)], lambda seeds: 0 in seeds), ids=str)
def test_every_trial_ends_in_exactly_one_final_state(seeds: range) -> None:
    assert promises.one_final_state(seeds) == []


@pytest.mark.thorough
def test_a_farm_where_more_goes_wrong_than_right() -> None:
    assert promises.one_final_state(range(150), faults=15, kills=8, bad=0.5) == []


def test_a_hung_kernel_costs_its_board_its_limit_and_the_others_nothing() -> None:
    assert promises.hung_kernels() == []


def test_a_dead_board_is_noticed_and_its_candidate_measured_elsewhere() -> None:
    assert promises.dead_boards() == []
    assert promises.boards_gone_for_good() == []


def test_the_coordinator_may_die_at_any_step() -> None:
    assert promises.killed_coordinators(range(1, 320, 2)) == []


def test_what_could_not_be_measured_is_never_a_result() -> None:
    assert promises.infra_faults(range(10)) == []


def test_a_sick_board_is_found_before_its_results_count() -> None:
    assert promises.sick_boards(range(8)) == []


def test_what_a_board_said_before_it_was_started_anew_does_not_count() -> None:
    assert promises.restarted_boards(range(8)) == []


def test_the_guilty_one_is_found() -> None:
    counts, broken = promises.right_verdicts(range(3))
    assert broken == [], counts


def test_a_board_where_candidates_crash_is_taken_off() -> None:
    assert promises.flaky_boards_go_off(range(8)) == []
    assert promises.single_board_off_after_streak() == []


def test_campaigns_share_boards_fairly() -> None:
    assert promises.fairness() == []


def test_a_clock_that_is_set_back_changes_nothing() -> None:
    for seed in range(4):
        assert promises.jumping_clock(seed) == []


def test_a_journal_may_be_a_file() -> None:
    for seed in range(20):
        assert promises.journal_survives_json(seed) == []


def test_the_same_seed_gives_the_same_run() -> None:
    logs = []
    for _ in range(2):
        logs.append(Log())
        nemesis_farm(5, logs[-1])[0].run(promises.LONG_S)
    assert logs[0].lines == logs[1].lines


def test_the_checker_finds_what_was_tampered_with() -> None:
    """A lost conclusion, one too many, another verdict, and a lease that was given twice."""
    log = Log()
    nemesis_farm(3, log)[0].run(promises.LONG_S)
    assert Checker().read(log.lines) == []
    place = next(place for place, line in enumerate(log.lines) if line["kind"] == "Concluded")
    end, issued = log.lines[place], next(line for line in log.lines if line["kind"] == "Issued" and line["trial"])
    for lines in (
        [line for line in log.lines if line is not end],
        [*log.lines, end],
        [
            *log.lines[:place],
            end | {"verdict": "wrong" if end["verdict"] != "wrong" else "ok"},
            *log.lines[place + 1 :],
        ],
        [*log.lines, issued | {"t": log.lines[-1]["t"]}],
    ):
        assert Checker().read(lines)


@pytest.mark.alone
@pytest.mark.thorough
def test_it_keeps_up_with_64_boards() -> None:
    """Promise 21: the time of a decision, and memory that does not grow with the work done."""
    claims, resident = keep_up(trials=6000)
    assert np.quantile(claims, 0.99) <= 0.05
    # The rest of this process is of other tests.
    assert resident[-1] - resident[0] < 50e6
    assert resident[-1] < 1.15 * resident[len(resident) // 2]


def keep_up(trials: int, boards: int = 64) -> tuple[list[float], list[int]]:
    """Seconds of each decision, and resident bytes after each thousandth."""
    accounting = Accounting([f"b{n}" for n in range(boards)])
    work = promises.candidates("a", trials)
    farm = promises.farm_of(boards, work, accounting, keep_journal=False)
    scheduler = farm.scheduler
    assert scheduler is not None
    decide, process = scheduler.handle, psutil.Process()
    took: list[float] = []
    resident: list[int] = []

    def timed(now_s: float, event: object) -> object:
        began = time.perf_counter()
        decision = decide(now_s, event)  # type: ignore[arg-type]
        took.append(time.perf_counter() - began)
        if len(took) % 1000 == 0:
            resident.append(process.memory_info().rss)
        return decision

    scheduler.handle = timed  # type: ignore[method-assign,assignment]
    assert promises.finish(farm) == []
    return took, resident
