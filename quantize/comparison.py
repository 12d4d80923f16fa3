"""How far a quantized model is from its float model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.quantize.float_model import FloatModel
from int8tune.quantize.samples.base import Batch
from int8tune.quantize.session import run_session, start_session


@dataclass(frozen=True, slots=True)
class Distance:
    """The first output of both models, over all samples.

    Attributes:
        sqnr_db: signal to quantization noise: squares of the float output over those of the differences, in decibels;
            None where nothing differs.
        agreement: share of samples whose largest value is in the same place.
    """

    samples: int
    sqnr_db: float | None
    agreement: float


def distance(model: FloatModel, quantized: Any, batches: Iterable[Batch]) -> Distance:
    """Run both on the same samples.

    Raises:
        FloatModelError: ONNX Runtime can't run one of them.
    """
    sessions = [start_session(model.path, proto) for proto in (model.proto, quantized)]
    name = sessions[0].get_outputs()[0].name
    signal = noise = 0.0
    samples = same = 0
    for batch in batches:
        right, seen = (run_session(model.path, session, [name], batch)[0] for session in sessions)
        right, seen = (each.reshape(len(each), -1).astype(np.float64) for each in (right, seen))
        signal += float((right**2).sum())
        noise += float(((right - seen) ** 2).sum())
        samples += len(right)
        same += int((right.argmax(axis=1) == seen.argmax(axis=1)).sum())
    sqnr_db = 10 * float(np.log10(signal / noise)) if noise and signal else None
    return Distance(samples, sqnr_db, same / max(1, samples))
