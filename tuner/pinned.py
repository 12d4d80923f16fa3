"""One layer or model in two forms, timed in turn: by a best log, and by default or by another best log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from int8tune.compiler.best_log import schedule_faults
from int8tune.compiler.network_file import is_model
from int8tune.compiler.schedule_choice import Schedules, Source
from int8tune.results.best_log import read_best_log
from int8tune.results.comparison.again import compare_again
from int8tune.results.comparison.side import Conditions, LayerTime, Side
from int8tune.results.label import layer_label
from int8tune.results.record import Candidate
from int8tune.results.stats import Speedup
from int8tune.rpc.request import Timing
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bench.again import time_again
from int8tune.tuner.cores import bound_to, measuring_and_build_cores
from int8tune.tuner.errors import BenchError, NoScheduleError
from int8tune.tuner.models.checks import model_of
from int8tune.tuner.models.compiling import compile_apart
from int8tune.tuner.models.drawn_samples import drawn_samples
from int8tune.tuner.models.race import Entry, race, seats
from int8tune.tuner.models.runtimes import OWN
from int8tune.tuner.models.schedules import device_target

MODEL_TIMING = Timing(repeats=20, min_repeat_s=0.02)
DEFAULT = "its default"


@dataclass(frozen=True, slots=True)
class Pin:
    """What is to be timed.

    Attributes:
        what: a workload key, or the file of a model.
        best_log: whose schedules are timed.
        baseline: the best log whose schedules they are compared with; None for the templates' defaults.
        profile: of the target; the best of this CPU if None.
    """

    what: str
    best_log: Path
    baseline: Path | None = None
    profile: str | None = None
    threads: int = 1

    @property
    def is_model(self) -> bool:
        return is_model(self.what)

    @property
    def label(self) -> str:
        return Path(self.what).name if self.is_model else layer_label(self.what)

    @property
    def other(self) -> str:
        """What it is compared with."""
        return DEFAULT if self.baseline is None else f"that of {self.baseline.name}"


@dataclass(frozen=True, slots=True)
class Pinned:
    """What came of timing.

    Attributes:
        times_s, other_times_s: seconds per call, of the best log's and of what it is compared with.
        ratio: the other's time over its own: over 1 the best log's is faster.
    """

    times_s: tuple[float, ...]
    other_times_s: tuple[float, ...]
    ratio: Speedup


def require_pin(pin: Pin) -> None:
    """See that everything is there to be timed, without timing it.

    Raises:
        BestLogError: a best log can't be read.
        NoScheduleError: it has no schedule of the layer for this CPU.
        ModelError, WorkloadError: the model or key can't be read.
    """
    target = device_target(pin.profile, pin.threads)
    if pin.is_model:
        model_of(Path(pin.what))
        for log in _logs(pin):
            _schedules(target, log)
    else:
        _candidates(pin, target)


def time_pin(pin: Pin) -> Pinned:
    """Time both in turn, each verified before.

    Raises:
        as `require_pin`, and
        BenchError: one of them can't be built or run, or is not exact.
        DeviceStartError, BuildPoolError: nothing can be built or timed here.
    """
    return _time_model(pin) if pin.is_model else _time_layer(pin)


def _logs(pin: Pin) -> tuple[Path | None, Path | None]:
    return pin.best_log, pin.baseline


def _schedules(target: Target, log: Path | None) -> Schedules:
    return Schedules(target, [] if log is None else read_best_log(log, schedule_faults))


def _candidates(pin: Pin, target: Target) -> list[Candidate]:
    """The layer's schedule in the best log, and the one that it is compared with."""
    workload, found = parse_workload(pin.what), []
    for log in _logs(pin):
        choice = _schedules(target, log).choose(workload)
        if log is not None and choice.source is not Source.LOG:
            raise NoScheduleError(f"no schedule of {pin.what} for {target.name} in the best log: {log}")
        template = choice.template
        written = template.space(workload, target).written(choice.config)
        found.append(Candidate(workload.key, target.name, template.name, template.version, written))
    return found


def _time_layer(pin: Pin) -> Pinned:
    ours, other = _candidates(pin, device_target(pin.profile, pin.threads))
    a, b = _side(pin, other), _side(pin, ours)
    found, cpu = time_again(a, b, lambda *_: None, lambda: False)
    timed = found[ours.workload]
    if timed.error:
        raise BenchError(f"{pin.label} can't be timed: {timed.error}")
    (layer,) = compare_again(a, b, {ours.workload: timed.sessions}, cpu, {}).layers
    assert layer.ratio is not None
    other_s, ours_s = (tuple(time_s for session in timed.sessions for time_s in session[place]) for place in (0, 1))
    return Pinned(ours_s, other_s, layer.ratio)


def _side(pin: Pin, candidate: Candidate) -> Side:
    """A side of one layer, whose recorded time nobody asks for."""
    layer = LayerTime(candidate.workload, pin.label, 1.0, candidate=candidate)
    return Side("", "", "", Conditions(threads=str(pin.threads)), {candidate.workload: layer})


def _time_model(pin: Pin) -> Pinned:
    graph, target = model_of(Path(pin.what)), device_target(pin.profile, pin.threads)
    measuring, building = measuring_and_build_cores(pin.threads)
    arrays = drawn_samples(graph, 1, 0)
    with TemporaryDirectory(prefix="int8tune-") as name, bound_to(building):
        folder = Path(name)
        libraries = [folder / f"{place}.so" for place in ("ours", "other")]
        for library, log in zip(libraries, _logs(pin), strict=True):
            compile_apart(graph, target, _schedules(target, log), library)
        entries = [Entry(library.stem, OWN, library) for library in libraries]
        with seats(entries, measuring, lambda _: arrays, folder) as taken:
            ours, other = race(taken, MODEL_TIMING)
    if other.ratio is None:
        raise BenchError(f"{pin.label} can't be timed: {other.failure or 'no times'}")
    return Pinned(ours.times_s, other.times_s, other.ratio)
