"""Compiled models beside their own runtimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.errors import SamplesError
from int8tune.tuner.models.accuracy import Difference
from int8tune.tuner.models.checks import Check, compare_layers, compare_outputs
from int8tune.tuner.models.drawn_samples import statistics_of
from int8tune.tuner.models.given import BindLike, ShapeLike, given_of

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
    """

    model: str
    against: str
    seed: int | None
    drawn: Mapping[str, int]
    outputs: tuple[Difference, ...]
    exact: int
    floats: Mapping[str, int]
    int8_share: float | None

    @property
    def differing(self) -> int:
        """How many of the outputs differ at all."""
        return sum(each.differing > 0 for each in self.outputs)

    @property
    def is_exact(self) -> bool:
        """Whether every value of every output is equal."""
        return not self.differing

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
    count: int | None = None,
    seed: int = 0,
    layers: bool = False,
    results: str | Path = DEFAULT_RESULTS,
    log: str | Path | None = None,
    target: str | None = None,
    threads: int = 1,
    bind: BindLike | None = None,
    shape: ShapeLike | None = None,
) -> Accuracy:
    """Compare a compiled model with its own runtime: LiteRT with its reference kernels, or ONNX Runtime.

    Args:
        model: a quantized model (.tflite, .onnx).
        samples: inputs, .npy or .npz, whose first axis counts samples; drawn if None.
        count: samples to draw; 10 to 1,000 if None, the more the smaller the model.
        seed: of drawn samples.
        layers: compare every layer's output with this library's own reference.
        results: the folder of the records, whose schedules are taken.
        log: a best log with schedules, in place of the records.
        target: a profile; the best of this CPU if None.
        threads: cores that the model uses.
        bind: values of inputs that become constants, by name: numbers, arrays, or names of `.npy` files.
        shape: shapes of inputs, by name, where the file leaves extents open.

    Raises:
        ModelError: the model can't be compiled.
        NoPeersError: the model's own runtime is not installed.
        SamplesError: the samples can't be read, or don't fit the model, or too many are to be drawn.
    """
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
        given_of(bind, shape),
    )
    found = compare_layers(check) if layers else compare_outputs(check)
    drawn = {} if samples else statistics_of(found.outputs[0].samples)
    return Accuracy(
        str(model),
        found.against,
        None if samples else seed,
        drawn,
        tuple(found.outputs),
        found.exact,
        found.floats,
        found.int8_share,
    )
