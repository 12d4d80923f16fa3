"""Runtimes that run one model in turn, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from int8tune.compiler.program import Array
from int8tune.results.stats import MedianTime, Speedup, median, median_time, ratio_interval
from int8tune.rpc.request import Timing
from int8tune.rpc.session.timing import time_in_turn
from int8tune.tuner.bench.contestant import Contestant, Contestants
from int8tune.tuner.errors import BenchError
from int8tune.tuner.models.arrays import read_arrays, write_arrays
from int8tune.tuner.models.runtimes import Runtime

WORKER = "int8tune.tuner.models.worker"


@dataclass(frozen=True, slots=True)
class Entry:
    """A runtime and the file that it runs.

    Attributes:
        label: as tables have it; a runtime may take part with two files.
        takes_numbers: whether its model is the one before quantization, which takes numbers.
    """

    label: str
    runtime: Runtime
    model: Path
    takes_numbers: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """How a runtime did.

    Attributes:
        times_s: seconds per run of the model, one value per round; empty if it failed.
        ratio: its time over the first entry's; None if one of them failed, and for the first.
        failure: why there is nothing else.
    """

    entry: Entry
    version: str
    times_s: tuple[float, ...] = ()
    ratio: Speedup | None = None
    failure: str = ""

    @property
    def time_s(self) -> float | None:
        return median(self.times_s) if self.times_s else None

    @property
    def median_time(self) -> MedianTime | None:
        """Seconds per run with a 95 % interval."""
        return median_time(self.times_s) if self.times_s else None


@dataclass(frozen=True, slots=True)
class Seat:
    """An entry's process, and what its model gave for the samples, as `tuner.models.worker` has it."""

    entry: Entry
    contestant: Contestant
    outputs: tuple[Array, ...]


@contextmanager
def seats(
    entries: Sequence[Entry], cores: Sequence[int], samples: Callable[[Entry], Sequence[Array]], folder: Path
) -> Iterator[list[Seat]]:
    """Processes that have loaded and run their models; `folder` takes files."""
    with Contestants(WORKER) as contestants:
        taken = []
        for index, entry in enumerate(entries):
            contestant = contestants.add(cores, entry.runtime.name)
            given, made = folder / f"samples-{index}.npz", folder / f"outputs-{index}.npz"
            write_arrays(given, samples(entry))
            task = {"model": str(entry.model), "samples": str(given), "outputs": str(made)}
            outputs = tuple(read_arrays(made)) if contestant.load(task) is not None else ()
            taken.append(Seat(entry, contestant, outputs))
        yield taken


def race(taken: Sequence[Seat], timing: Timing) -> list[Result]:
    """Time the seats' models in turn, each on its first sample.

    Raises:
        BenchError: the first entry failed.
    """
    first = taken[0]
    if first.contestant.failure:
        raise BenchError(f"{first.entry.label} failed: {first.contestant.failure}")
    able = [seat for seat in taken if not seat.contestant.failure]
    times_s, _ = time_in_turn([seat.contestant for seat in able], timing)
    known = {id(seat): values for seat, values in zip(able, times_s, strict=True)}
    return [_result(seat, known.get(id(seat), ()), times_s[0], seat is first) for seat in taken]


def _result(seat: Seat, times_s: tuple[float, ...], own_s: tuple[float, ...], is_first: bool) -> Result:
    contestant = seat.contestant
    if contestant.failure:
        return Result(seat.entry, contestant.version, failure=contestant.failure)
    ratio = None if is_first else ratio_interval(times_s, own_s)
    return Result(seat.entry, contestant.version, times_s, ratio)
