"""Compiled models beside their own runtimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.quantize.samples.base import Normalization
from int8tune.quantize.samples.given import DataLike, samples_of
from int8tune.results.schemes import NO_ANSWERS, Answers
from int8tune.results.shares import PairedTest
from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.errors import SamplesError
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.models.accuracy import Difference
from int8tune.tuner.models.checks import Check, Comparison, compare_layers, compare_outputs
from int8tune.tuner.models.drawn_samples import statistics_of
from int8tune.tuner.models.given import BindLike, ShapeLike, given_of
from int8tune.tuner.schemes.judged import labels_of
from int8tune.tuner.schemes.labelled import Labelled, labelled
from int8tune.tuner.schemes.place import open_place

if TYPE_CHECKING:
    import pandas

MOST_SAMPLES = 10_000


@dataclass(frozen=True, slots=True, repr=False)
class Accuracy:
    """How a compiled model's outputs differ from another runtime's, in quantization steps.

    Attributes:
        against: the runtime and its version.
        seed: of drawn samples; None where a file had them.
        drawn: how many samples of each kind were drawn.
        outputs: one of each output, or of each layer.
        exact: how many operators of the model are integers, bit for bit.
        floats: how many of each operator are computed in float; where there are any, outputs may differ by rounding.
        int8_share: of the multiply-adds, that of int8 layers.
        theirs_in_float: layers that ONNX Runtime computes in float and this library in integers, by kind, where outputs
            differ: their sums are rounded.
        ours, theirs: how right the answers of the compiled model and of the other runtime are; where there are labels.
        paired: on which samples the other runtime alone is right, and on which the compiled model alone.
    """

    model: str
    against: str
    seed: int | None
    drawn: Mapping[str, int]
    outputs: tuple[Difference, ...]
    exact: int
    floats: Mapping[str, int]
    int8_share: float | None
    theirs_in_float: Mapping[str, int] = field(default_factory=dict)
    ours: Answers = NO_ANSWERS
    theirs: Answers = NO_ANSWERS
    paired: PairedTest | None = None

    @property
    def differing(self) -> int:
        """How many of the outputs differ at all."""
        return sum(each.differing > 0 for each in self.outputs)

    @property
    def is_exact(self) -> bool:
        """Whether every value of every output is equal."""
        return not self.differing

    @property
    def broken(self) -> int:
        """How many outputs differ although nothing is rounded on either side, so that all values should be equal."""
        return 0 if self.floats or self.theirs_in_float else self.differing

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each output."""
        about = {"model": self.model, "against": self.against, "seed": self.seed}
        return frame_of([about | asdict(each) for each in self.outputs])

    def __repr__(self) -> str:
        count = listed(len(self.outputs), "output")
        found = f"{self.differing:,} of {count} differ from" if self.differing else f"{count} equal to"
        return f"<Accuracy of {self.model}: {found} {self.against}>"


def accuracy(
    model: str | Path,
    *,
    samples: str | Path | None = None,
    test: DataLike | None = None,
    labels: str | Path | Sequence[int] | None = None,
    count: int | None = None,
    seed: int = 0,
    layers: bool = False,
    divide: float = 1.0,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    results: str | Path = DEFAULT_RESULTS,
    log: str | Path | None = None,
    target: str | None = None,
    threads: int = 1,
    bind: BindLike | None = None,
    shape: ShapeLike | None = None,
    until: Sequence[str] | None = None,
) -> Accuracy:
    """Compare a compiled model with its own runtime: LiteRT with its reference kernels, or ONNX Runtime.

    Args:
        model: a quantized model (.tflite, .onnx).
        samples: inputs, .npy or .npz, whose first axis counts samples; drawn if None.
        test: samples in place of these, as `compare_schemes` takes them. For an input that stores numbers in 8 bits,
            samples of its own type are what is stored; all others are numbers, which are rounded to these.
        labels: the classes of the test samples, or a file of them (.npy, .npz).
        count: samples to draw, 10 to 1,000 if None, the more the smaller the model; or to take of the test, and of its
            labels, all if None.
        seed: of drawn samples.
        layers: compare every layer's output with this library's own reference.
        divide: values of test samples are divided by it.
        mean: what is then taken from each channel; one number is for all.
        std: what each channel is then divided by.
        results: the folder of the records, whose schedules are taken.
        log: a best log with schedules, in place of the records.
        target: a profile; the best of this CPU if None.
        threads: cores that the model uses.
        bind: values of inputs that become constants, by name: numbers, arrays, or names of `.npy` files.
        shape: shapes of inputs, by name, where the file leaves extents open.
        until: values at which a model ends, in place of its own outputs.

    Raises:
        ModelError: the model can't be compiled.
        NoPeersError: the model's own runtime is not installed.
        SamplesError: samples or labels can't be read, or don't fit the model, or too many samples are to be drawn.
        CalibrationError: the test samples can't be read, or don't fit the model.
        QuantizeSpecError: how these are normalized can't be used.
    """
    require_tuning()
    if test is not None:
        if layers or samples is not None:
            raise SamplesError("test samples are for the whole model, in place of other samples")
        tests = samples_of(test, count, Normalization(divide, tuple(mean), tuple(std)), is_test=True)
        classes = None if labels is None else labels_of(labels, count)
        with open_place(Path(results), target, threads, None if log is None else Path(log)) as place:
            judged = labelled(Path(model), tests, classes, place, given_of(bind, shape, until))
        return _accuracy(model, None, {}, judged.comparison, judged)
    if labels is not None:
        raise SamplesError("labels need the samples that they are of: --test FILE")
    if count is not None and not 1 <= count <= MOST_SAMPLES:
        raise SamplesError(f"count must be 1 to {MOST_SAMPLES}: {count}")
    check = Check(
        Path(model),
        Path(results),
        None if log is None else Path(log),
        target,
        threads,
        None if samples is None else Path(samples),
        count,
        seed,
        given_of(bind, shape, until),
    )
    found = compare_layers(check) if layers else compare_outputs(check)
    drawn = {} if samples else statistics_of(found.outputs[0].samples)
    return _accuracy(model, None if samples else seed, drawn, found)


def _accuracy(
    model: str | Path, seed: int | None, drawn: Mapping[str, int], found: Comparison, judged: Labelled | None = None
) -> Accuracy:
    answers = (NO_ANSWERS, NO_ANSWERS, None) if judged is None else (judged.ours, judged.theirs, judged.paired)
    outputs = tuple(found.outputs)
    parts = (found.exact, found.floats, found.int8_share, found.theirs_in_float)
    return Accuracy(str(model), found.against, seed, drawn, outputs, *parts, *answers)
