"""How far a quantized model is from its float model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.samples.base import Batch
from int8tune.quantize.session import run_session, start_session

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Distance:
    """The first output of both models, over all samples.

    Attributes:
        sqnr_db: signal to quantization noise: squares of the float output over those of the differences, in decibels;
            None where nothing differs.
        agreement: share of samples whose largest value is in the same place.
        top1: share of samples whose largest value is that of their label; None where nobody knows labels.
    """

    samples: int
    sqnr_db: float | None
    agreement: float
    top1: float | None = None


class Apart:
    """Outputs of a float model and those of a quantized one, counted batch by batch."""

    def __init__(self, labels: Array | None = None) -> None:
        self._labels = labels
        self._signal = self._noise = 0.0
        self._samples = self._same = self._right = 0

    def add(self, right: Array, seen: Array) -> None:
        """Take the outputs of the same samples: [samples, ...]."""
        right, seen = (each.reshape(len(each), -1).astype(np.float64) for each in (right, seen))
        self._signal += float((right**2).sum())
        self._noise += float(((right - seen) ** 2).sum())
        answers = seen.argmax(axis=1)
        if self._labels is not None:
            self._right += int((answers == self._labels[self._samples : self._samples + len(answers)]).sum())
        self._samples += len(right)
        self._same += int((right.argmax(axis=1) == answers).sum())

    @property
    def distance(self) -> Distance:
        is_apart = self._noise and self._signal
        sqnr_db = 10 * float(np.log10(self._signal / self._noise)) if is_apart else None
        count = max(1, self._samples)
        return Distance(
            self._samples, sqnr_db, self._same / count, None if self._labels is None else self._right / count
        )


def distance(model: FloatModel, quantized: Any, batches: Iterable[Batch]) -> Distance:
    """Run both on the same samples.

    Raises:
        FloatModelError: ONNX Runtime can't run one of them.
    """
    sessions = [start_session(model.path, proto) for proto in (model.proto, quantized)]
    name = sessions[0].get_outputs()[0].name
    apart = Apart()
    for batch in batches:
        apart.add(*(run_session(model.path, session, [name], batch)[0] for session in sessions))
    return apart.distance
