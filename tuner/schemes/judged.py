"""What is said of a model's answers: how right they are, and how near to the float model's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.program import Array
from int8tune.quantize.comparison import Apart
from int8tune.quantize.float_model import FloatModel, shown
from int8tune.quantize.samples.base import Samples
from int8tune.quantize.session import run_session, start_session
from int8tune.results.schemes import Answers
from int8tune.results.shares import PairedTest, Share, in_top, paired_test, share_of
from int8tune.results.text import printable
from int8tune.tuner.errors import SamplesError
from int8tune.tuner.models.arrays import read_first

LABEL_NAMES = ("labels", "label", "y", "y_test", "targets", "arr_0")
_TOP = 5


@dataclass(frozen=True, slots=True)
class Judge:
    """What is right: a float model's outputs, and labels where they are known.

    Attributes:
        outputs: [samples, values].
        labels: [samples]; None: nobody knows.
    """

    outputs: Array
    labels: Array | None

    def answers(self, outputs: Array) -> Answers:
        """How often a label is the largest of a model's outputs, and among the five largest."""
        if self.labels is None:
            return Answers(None, None)
        top1, top5 = (share_of(in_top(_flat(outputs), self.labels, count)) for count in (1, _TOP))
        return Answers(top1, top5 if self.outputs.shape[1] > _TOP else None)

    def paired(self, outputs: Array) -> PairedTest | None:
        """Which samples the float model alone gets right, and which these outputs alone."""
        if self.labels is None:
            return None
        return paired_test(*(in_top(_flat(each), self.labels, 1) for each in (self.outputs, outputs)))

    def nearness(self, outputs: Array) -> tuple[Share, float | None]:
        """The samples with the same answer as the float model, and signal over noise in decibels."""
        apart = Apart()
        apart.add(self.outputs, outputs)
        found = apart.distance
        return Share(round(found.agreement * found.samples), found.samples), found.sqnr_db


def judge_of(model: FloatModel, samples: Samples, labels: Array | None) -> Judge:
    """Run a float model on the samples, in ONNX Runtime.

    Raises:
        FloatModelError: it can't be run.
        CalibrationError: the samples can't be read, or don't fit the model.
        SamplesError: the labels don't fit the samples or the model.
    """
    session = start_session(model.path, model.proto)
    name = session.get_outputs()[0].name
    outputs = [run_session(model.path, session, [name], batch)[0] for batch in samples.batches(model.inputs)]
    stacked = _flat(np.concatenate(outputs))
    if labels is not None:
        require_fit(labels, stacked)
    return Judge(stacked, labels)


def require_fit(labels: Array, outputs: Array) -> None:
    """Refuse labels of another number of samples, or which are no classes.

    Raises:
        SamplesError: they are.
    """
    samples, classes = len(outputs), outputs[0].size
    if len(labels) != samples:
        raise SamplesError(f"a label is needed for each sample: {len(labels):,} labels, {samples:,} samples")
    if labels.min() < 0 or labels.max() >= classes:
        what = f"labels must be 0 to {classes - 1}, the outputs of the model"
        raise SamplesError(f"{what}: {labels.min()} to {labels.max()}")


def labels_of(given: str | Path | Array | Any, count: int | None = None) -> Array:
    """Labels of a caller, whole numbers [samples]: an array, a file of one (`.npy`), or of several (`.npz`).

    Args:
        count: how many are taken, the first ones; all if None.

    Raises:
        SamplesError: they can't be read, or are no labels.
    """
    name = shown(given) if isinstance(given, str | Path) else "labels"
    array = read_first(Path(given), LABEL_NAMES) if isinstance(given, str | Path) else np.asarray(given)
    if array.ndim == 2 and array.shape[1] == 1:  # as some data sets have them
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise SamplesError(printable(f"{name}: labels must be whole numbers [samples]: {array.dtype} {array.shape}"))
    return array[:count].astype(np.int64)


def _flat(outputs: Array) -> Array:
    return outputs.reshape(len(outputs), -1)
