"""What a running campaign looks like."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from int8tune.results.memory import MemoryStore
from int8tune.results.record import Measurement, Outcome, Trial
from int8tune.schedules.generic.direct import DirectGeneric
from int8tune.schedules.target import target_for
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.campaign.events import Progress, Silence
from int8tune.tuner.campaign.loop import CampaignLoop
from int8tune.tuner.campaign.loop_context import LoopContext
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.campaign.search import make_search
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.cli import live
from int8tune.tuner.cli.live import LiveDisplay, PlainDisplay, clock
from int8tune.tuner.cli.stopping import STOPPING
from tests.support.program.campaigns import SMALL, network_of


def task() -> Task:
    template, target = DirectGeneric(), target_for({"avx2"}, "x", "x", "generic")
    workload = parse_workload(SMALL)
    return Task(0, "stem", 1, workload, target, template, template.space(workload, target))


def trial(outcome: Outcome = Outcome.OK) -> Trial:
    measured = Measurement((1e-6,) * 3, 1) if outcome is Outcome.OK else None
    return Trial("c", 0, task().default, outcome, measured, "local", {}, "2026-01-01T00:00:00+00:00")


def progress(**changes: object) -> Progress:
    usual = Progress(23, 4, 1000, 250, 50, 100.0, 375.0, (task(), trial()), {0: 1e11})
    return replace(usual, **changes)  # type: ignore[arg-type]


def drawn(display: LiveDisplay, width: int, **options: object) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, **options)  # type: ignore[arg-type]
    with console.capture() as capture:
        console.print(display._live.renderable)
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.fixture
def display() -> LiveDisplay:
    return LiveDisplay(lambda: False, None, Console(file=io.StringIO(), force_terminal=True))


def test_three_lines_say_how_it_goes(display: LiveDisplay) -> None:
    display.board.take(progress())
    assert drawn(display, 80) == [
        "\u2501" * 10 + "\u2500" * 30 + "   250/1,000 trials   4/23 layers",
        "2.0 trials/s   6:15 left",
        "conv2d 1x1 8x8x16->32   last 65.5   best 100 GOP/s",
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 100])
def test_no_line_is_wider_than_the_terminal(display: LiveDisplay, width: int) -> None:
    assert len(drawn(display, width)) <= 3
    display.board.take(progress(last=(task(), trial(Outcome.WRONG_ANSWER))))
    lines = drawn(display, width)
    assert len(lines) == 3
    assert max(map(len, lines)) <= width


def test_failures_are_counted_once(display: LiveDisplay) -> None:
    failed = (task(), trial(Outcome.RUN_FAILED))
    for last in (failed, failed, (task(), trial())):
        display.board.take(progress(last=last))
    assert "1 failed" in drawn(display, 80)[1]


def test_a_failure_is_named(display: LiveDisplay) -> None:
    display.board.take(progress(last=(task(), trial(Outcome.BUILD_TIMEOUT)), best_rates={}))
    assert drawn(display, 80)[2] == "conv2d 1x1 8x8x16->32   last build_timeout   best - GOP/s"


def test_before_the_first_trial_there_is_no_pace(display: LiveDisplay) -> None:
    display.board.take(progress(trials_done=50, elapsed_s=0.0, time_left_s=None, last=None))
    text = "\n".join(drawn(display, 80))
    assert "trials/s" not in text
    assert "left" not in text


def test_the_last_comparisons_have_a_name(display: LiveDisplay) -> None:
    display.board.take(progress(trials_done=1000))
    assert live.COMPARING in drawn(display, 80)[1]


def test_a_time_limit_ends_it_sooner() -> None:
    display = LiveDisplay(lambda: False, 130.0, Console(file=io.StringIO(), force_terminal=True))
    display.board.take(progress())
    assert drawn(display, 80)[1] == "2.0 trials/s   0:30 left"


def test_a_stop_is_acknowledged() -> None:
    display = LiveDisplay(lambda: True, None, Console(file=io.StringIO(), force_terminal=True))
    assert drawn(display, 80)[-1] == STOPPING
    display.board.take(progress())
    assert drawn(display, 80)[-1] == STOPPING


def test_a_terminal_without_unicode(display: LiveDisplay) -> None:
    display.board.take(progress())
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=file, width=80, force_terminal=True, color_system=None)
    console.print(display._live.renderable)
    file.seek(0)
    assert file.readline().startswith("#" * 10 + "-" * 30 + " ")


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = PlainDisplay(lambda: False, None)
    plain.progress(progress(trials_resumed=0))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(plain, "_next", 0.0)
    plain.progress(progress(trials_resumed=0))
    plain.progress(progress(trials_resumed=0))
    line = "250/1,000 trials, 4/23 layers, 2.5 trials/s, 6:15 left, conv2d 1x1 8x8x16->32, last 65.5, best 100 GOP/s\n"
    assert capsys.readouterr().err == line


def test_a_resumed_campaign_is_announced_once(capsys: pytest.CaptureFixture[str]) -> None:
    plain = PlainDisplay(lambda: False, None)
    plain.progress(progress())
    plain.progress(progress())
    plain.notice("lost \x1b[2J")
    assert capsys.readouterr().err == "going on: 50 trials were recorded before\nlost \\x1b[2J\n"


def test_durations() -> None:
    assert [clock(seconds) for seconds in (-3, 0.4, 59.6, 3599, 3661)] == ["0:00", "0:00", "1:00", "59:59", "1:01:01"]


def test_what_was_recorded_before_counts_as_done() -> None:
    spec, store = CampaignSpec("c", network_of(SMALL), trials_per_task=5), MemoryStore()
    store.append([spec.as_record("local", task().target), trial()])
    around = LoopContext(store, None, None, "local", {}, Silence(), lambda: False)  # type: ignore[arg-type]
    standing = CampaignLoop(spec, make_search(spec, [task()], store), around).progress()
    assert (standing.trials, standing.trials_done, standing.trials_resumed) == (5, 1, 1)
