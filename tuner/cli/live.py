"""How a campaign looks while it runs: three lines that change on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from int8tune.results.label import layer_label
from int8tune.results.progress import rate_of
from int8tune.results.record import Duel, Outcome, Trial
from int8tune.results.report.format import factor, giga
from int8tune.tuner.campaign.events import Progress
from int8tune.tuner.campaign.plan import Task
from int8tune.tuner.cli.output import safe, say
from int8tune.tuner.cli.stopping import STOPPING

PREPARING = "starting the device, measuring its peak"
COMPARING = "timing the best of each layer against its default"
REFRESH_PER_S = 4
PLAIN_EVERY_S = 10.0
WIDEST_BAR = 40
GAP = "   "


class Scoreboard:
    """What is known of a running campaign, in the words of a display."""

    def __init__(self, time_limit_s: float | None) -> None:
        self._time_limit_s = math.inf if time_limit_s is None else time_limit_s
        self._progress: Progress | None = None
        self._at = self._started = time.monotonic()
        self._failed = 0
        self._last: Trial | None = None

    def take(self, progress: Progress) -> None:
        self._progress, self._at = progress, time.monotonic()
        if progress.last and progress.last[1] is not self._last:
            self._last = progress.last[1]
            self._failed += self._last.outcome is not Outcome.OK

    @property
    def share(self) -> float:
        """The share of the trials that are done."""
        return self._progress.trials_done / max(self._progress.trials, 1) if self._progress else 0.0

    @property
    def counts(self) -> list[str]:
        if self._progress is None:
            return []
        done = self._progress
        return [f"{done.trials_done:,}/{done.trials:,} trials", f"{done.tasks_done}/{done.tasks} layers"]

    @property
    def pace(self) -> list[str]:
        """Trials per second, failures, and the time that is left."""
        if self._progress is None:
            return [PREPARING, clock(time.monotonic() - self._started)]
        failed = [f"{self._failed} failed"] if self._failed else []
        new = self._progress.trials_done - self._progress.trials_resumed
        rate = [f"{new / self._progress.elapsed_s:.1f} trials/s"] if new > 0 else []
        if self._progress.trials_done == self._progress.trials:
            return [*rate, *failed, COMPARING]
        return [*rate, *failed, *self._time_left()]

    @property
    def current(self) -> list[str]:
        """The layer that was measured last, its last rate and its best."""
        if self._progress is None or self._progress.last is None:
            return []
        task, trial = self._progress.last
        in_words, unit = (factor, "operations per cycle") if trial.estimate else (giga, "GOP/s")
        rate = rate_of(trial, task.workload.macs)
        last = trial.outcome.value if rate is None else in_words(rate)
        best = in_words(self._progress.best_rates.get(task.index))
        return [layer_label(task.workload.key), f"last {last}", f"best {best} {unit}"]

    def _time_left(self) -> list[str]:
        assert self._progress is not None
        if self._progress.time_left_s is None:
            return []
        left_s = min(self._progress.time_left_s, self._time_limit_s - self._progress.elapsed_s)
        return [f"{clock(left_s - (time.monotonic() - self._at))} left"]


class Display:
    """A `Listener` that keeps the scoreboard; its heirs show it while they are entered."""

    def __init__(self, stop_requested: Callable[[], bool], time_limit_s: float | None) -> None:
        self.board = Scoreboard(time_limit_s)
        self.stop_requested = stop_requested
        self._begun = False

    def progress(self, progress: Progress) -> None:
        if not self._begun and progress.trials_resumed:
            self.notice(f"going on: {progress.trials_resumed:,} trials were recorded before")
        self._begun = True
        self.board.take(progress)

    def duels(self, task: Task, duels: Sequence[Duel]) -> None:
        pass

    def notice(self, text: str) -> None:
        say(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class PlainDisplay(Display):
    """One line every `PLAIN_EVERY_S`, for logs."""

    def __init__(self, stop_requested: Callable[[], bool], time_limit_s: float | None) -> None:
        super().__init__(stop_requested, time_limit_s)
        self._next = time.monotonic() + PLAIN_EVERY_S

    def progress(self, progress: Progress) -> None:
        super().progress(progress)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_EVERY_S
            say(", ".join([*self.board.counts, *self.board.pace, *self.board.current]))


class LiveDisplay(Display):
    """Lines that are drawn over, and are gone at the end. What is written to stderr meanwhile goes above them."""

    def __init__(self, stop_requested: Callable[[], bool], time_limit_s: float | None, console: Console) -> None:
        super().__init__(stop_requested, time_limit_s)
        self._live = Live(
            _Drawing(self),
            console=console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


class _Drawing:
    """The lines as they are at the moment they are drawn."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        board = self._display.board
        lines = [_line(board.pace), _line(board.current, "dim")]
        if board.counts:
            lines.insert(0, _bar(board, options))
        if self._display.stop_requested():
            lines[-1] = _line([STOPPING], "yellow")
        yield Group(*lines)


def make_display(stop_requested: Callable[[], bool], time_limit_s: float | None) -> Display:
    """The display that suits stderr."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveDisplay(stop_requested, time_limit_s, console)
    return PlainDisplay(stop_requested, time_limit_s)


def clock(seconds: float) -> str:
    """`4:05`, or `1:04:05` from an hour on."""
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _line(parts: Sequence[str], style: str = "") -> Text:
    return Text(safe(GAP.join(parts)), style=style, no_wrap=True, overflow="crop")


def _bar(board: Scoreboard, options: ConsoleOptions) -> Text:
    counts = GAP.join(board.counts)
    width = max(min(WIDEST_BAR, options.max_width - len(counts) - len(GAP)), 0)
    done = int(width * board.share)
    full, rest = ("#", "-") if options.ascii_only else ("\u2501", "\u2500")
    return Text.assemble(
        (full * done, "green"), (rest * (width - done), "dim"), f"{GAP}{counts}", no_wrap=True, overflow="crop"
    )
