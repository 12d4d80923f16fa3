"""Ways to quantize one model beside it: what they answer, and how long they take. Values, as reports draw them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from int8tune.results.shares import PairedTest, Share
from int8tune.results.stats import MedianTime, Speedup


@dataclass(frozen=True, slots=True)
class Answers:
    """How right a model's answers are; None without labels, and `top5` where there are no more than five classes."""

    top1: Share | None
    top5: Share | None


NO_ANSWERS = Answers(None, None)


@dataclass(frozen=True, slots=True)
class FloatRow:
    """The float model in one runtime.

    Attributes:
        failure: why there is no time; empty where there is one.
    """

    runtime: str
    version: str
    time: MedianTime | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class SchemeRow:
    """One way to quantize the model.

    Attributes:
        scheme: such as `mse, per-tensor`, behind the name of a quantizer that is not this library's.
        runs_in: whose answers and times these are: this library's compiled model's, or a runtime's.
        paired: on which samples the float model alone is right, and on which this one alone; None without labels.
        agreement: samples for which the answer is the float model's.
        sqnr_db: the float model's outputs over what differs from them, in decibels; None where nothing does.
        calibration_s: seconds of making the quantized model, with its calibration.
        file_bytes: of the quantized model.
        library_bytes: of the compiled library.
        speedup: the fastest runtime's time with the float model over this one's, taken in turn.
        failure: why something of this is missing.
    """

    scheme: str
    runs_in: str
    answers: Answers = NO_ANSWERS
    paired: PairedTest | None = None
    agreement: Share | None = None
    sqnr_db: float | None = None
    calibration_s: float | None = None
    file_bytes: int | None = None
    library_bytes: int | None = None
    time: MedianTime | None = None
    speedup: Speedup | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A compiled model on a board, whose outputs were there those of the reference, bit for bit.

    Attributes:
        label: of a scheme, or of a choice of schedules.
        speedup: the first timed row's time there over this one's, taken in turn.
        failure: why it was not right, or could not be run.
    """

    label: str
    time: MedianTime | None
    speedup: Speedup | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class BoardTable:
    """Compiled models on a board.

    Attributes:
        is_measured: whether its times are measurements; if not, rows have none.
    """

    board: str
    cpu: str
    target: str
    threads: int
    is_measured: bool
    rows: tuple[BoardRow, ...]


@dataclass(frozen=True, slots=True)
class TensorHistogram:
    """How often a tensor has which values, and which part of them each scheme keeps.

    Attributes:
        low, high: the ends of the range.
        counts: of equal parts of it.
        kept: by scheme, the lowest and the highest value that is not clipped.
    """

    name: str
    producer: str
    low: float
    high: float
    counts: tuple[int, ...]
    kept: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Details:
    """What a report draws beside the table.

    Attributes:
        along_db: by scheme, for each tensor that a layer makes, in the order of the graph, what is left of its signal,
            in decibels; None where nothing differs or the tensor is no more.
        samples: of which `along_db` is.
    """

    histograms: tuple[TensorHistogram, ...] = ()
    tensors: tuple[str, ...] = ()
    along_db: Mapping[str, tuple[float | None, ...]] | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class SchemeSummary:
    """Ways to quantize a model.

    Attributes:
        float_bytes: of the float model's file.
        floats: the float model in each runtime, the fastest first.
        calibrated, tested: how many samples chose the ranges, and how many were compared.
        disturbance: what makes the times doubtful; empty where nothing does.
        boards: the same libraries on boards.
    """

    model: str
    cpu: str
    target: str
    threads: int
    calibrated: int
    tested: int
    float_bytes: int
    answers: Answers
    floats: tuple[FloatRow, ...]
    rows: tuple[SchemeRow, ...]
    disturbance: str = ""
    details: Details = Details()
    boards: tuple[BoardTable, ...] = ()

    @property
    def has_labels(self) -> bool:
        """Whether it is known which answers are right."""
        return self.answers.top1 is not None

    @property
    def front(self) -> tuple[SchemeRow, ...]:
        """Schemes that none is both at least as fast and at least as good as, the fastest first (Pareto front).

        Good is the top-1 where there are labels, and the SQNR elsewhere.
        """
        timed = sorted(
            (row for row in self.rows if row.time is not None), key=lambda row: (_ms(row), -self.quality(row))
        )
        found: list[SchemeRow] = []
        for row in timed:
            if not found or self.quality(row) > self.quality(found[-1]):
                found.append(row)
        return tuple(found)

    def quality(self, row: SchemeRow) -> float:
        """What is right of its answers, of 1; without labels the SQNR, in decibels."""
        if self.has_labels:
            return row.answers.top1.estimate if row.answers.top1 else 0.0
        return float("inf") if row.sqnr_db is None else row.sqnr_db


def _ms(row: SchemeRow) -> float:
    assert row.time is not None
    return row.time.estimate_s
