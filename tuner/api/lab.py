"""Races of strategies on recorded layers, without a device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.tuner.api.checks import require_whole
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.errors import SpecError, UnknownStrategyError
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.lab.leaderboard import Standing, leaderboard
from int8tune.tuner.lab.lessons import Classroom
from int8tune.tuner.lab.losses import replayable
from int8tune.tuner.lab.metaschedule import read_database
from int8tune.tuner.lab.race import TOGETHER, WITH_OTHERS, default_share, race, zero_trial_share
from int8tune.tuner.lab.recorded_layer import RecordedLayer
from int8tune.tuner.lab.recording import bundled, read_recording
from int8tune.tuner.search.registry import strategy_names

if TYPE_CHECKING:
    import pandas

MAX_SEEDS, MAX_TRIALS = 1000, 10_000


@dataclass(frozen=True, slots=True)
class UntriedLayer:
    """What a layer's configs reach that nobody measured: shares of the recorded best.

    Attributes:
        default: what the template's own config reaches.
        others: what the config reaches that a model of the other layers ranks first; None where there are none.
    """

    layer: RecordedLayer
    default: float
    others: float | None


@dataclass(frozen=True, slots=True, repr=False)
class RaceResult:
    """What strategies reached on recorded layers.

    Attributes:
        notices: recordings that are left out, and why, a line each.
        standings: the best strategy first.
    """

    notices: tuple[str, ...]
    standings: tuple[Standing, ...]
    untried: tuple[UntriedLayer, ...]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each strategy and each number of trials."""
        return frame_of(
            [
                {
                    "strategy": standing.strategy,
                    "trials": trials,
                    "share_of_best": share,
                    "good_layers": standing.good_layers[trials],
                    "trials_to_good": standing.trials_to_good,
                }
                for standing in self.standings
                for trials, share in standing.shares.items()
            ]
        )

    def __repr__(self) -> str:
        names = ", ".join(standing.strategy for standing in self.standings)
        return f"<Race on {listed(len(self.untried), 'layer')}, the best first: {names}>"


def lab(
    data: str | Path | None = None,
    *,
    strategies: Sequence[str] = (),
    seeds: int = 5,
    trials: int = 64,
    only: str = "",
) -> RaceResult:
    """Let strategies race on layers whose whole spaces were measured before.

    Args:
        data: a recording, or a folder of MetaSchedule's; those that come with int8tune if None.
        strategies: names, of which `+others` are taught by other layers and `+campaign` have all at once; all if empty.
        seeds: runs of each layer.
        trials: the budget of each run.
        only: a regular expression that a layer's target and key must match.

    Raises:
        SpecError: a number is out of its range, or no layer matches.
        UnknownStrategyError: nobody registered a strategy.
        RecordingError: the recording can't be read, or none of its layers be replayed.
    """
    layers, notices = recorded_layers(data, only)
    return race_on(layers, chosen_strategies(strategies), seeds, trials, notices)


def race_on(
    layers: Sequence[RecordedLayer], strategies: Sequence[str], seeds: int, trials: int, notices: Sequence[str] = ()
) -> RaceResult:
    """Let strategies race on recorded layers.

    Raises:
        SpecError: a number is out of its range.
    """
    require_tuning()
    require_runs(seeds, trials)
    classroom = Classroom(layers)
    standings = leaderboard(race(classroom, strategies, seeds, trials), trials)
    untried = (
        UntriedLayer(each, default_share(each), zero_trial_share(classroom, at)) for at, each in enumerate(layers)
    )
    return RaceResult(tuple(notices), tuple(standings), tuple(untried))


def require_runs(seeds: int, trials: int) -> None:
    """Raises: SpecError: a number is out of its range."""
    require_whole("seeds", seeds, MAX_SEEDS)
    require_whole("trials", trials, MAX_TRIALS)


def recorded_layers(data: str | Path | None, only: str) -> tuple[list[RecordedLayer], list[str]]:
    """The layers that are asked for and can be replayed, and a line for each kind that can't.

    Raises:
        SpecError, RecordingError: as `lab`.
    """
    path = None if data is None else Path(data)
    layers = bundled() if path is None else read_database(path) if path.is_dir() else read_recording(path)
    try:
        wanted = re.compile(only)
    except re.error as error:
        raise SpecError(f"`only` is not a regular expression: {only[:60]}: {error}") from error
    chosen = [layer for layer in layers if wanted.search(layer.name)]
    if not chosen:
        raise SpecError(f"none of the {len(layers)} layers matches `only`: {only}")
    return replayable(chosen)


def chosen_strategies(names: Sequence[str]) -> list[str]:
    """The names, or all there are.

    Raises:
        UnknownStrategyError: there is no such strategy.
    """
    guided = strategy_names()[0]
    known = [f"{guided}{WITH_OTHERS}", f"{guided}{TOGETHER}", *strategy_names()]
    if unknown := next((name for name in names if name not in known), None):
        raise UnknownStrategyError(f"unknown search strategy `{unknown[:60]}`, known: {', '.join(known)}")
    return list(names) or known
