"""Quantized forms of one model, run beside it on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from int8tune.quantize.along import along
from int8tune.quantize.calibrated import Calibrated
from int8tune.quantize.comparison import Apart, Distance
from int8tune.quantize.forms import Form
from int8tune.quantize.options import Options
from int8tune.quantize.qdq import quantized, weight_scales
from int8tune.quantize.samples.base import Batch, Samples
from int8tune.quantize.session import run_session, start_session

Array = npt.NDArray[Any]

# What the float model makes of the samples is kept where it is small, and computed again for each layer elsewhere.
MOST_KEPT_BYTES = 64 << 20
NO_FORMS: Mapping[str, Form] = {}


class Trial:
    """Quantized forms of one model beside it, on the same samples, whose `labels` are known or not."""

    def __init__(self, ready: Calibrated, samples: Samples, options: Options, labels: Array | None = None) -> None:
        self._labels = labels
        self._ready, self._samples, self._options = ready, samples, options
        self._model = ready.model
        self._scales = weight_scales(self._model.proto, options)
        self._session = start_session(self._model.path, self._model.proto)
        self._output = self._session.get_outputs()[0].name
        self._kept: list[Array] | None = None

    def quantized(self, skip: Sequence[str], forms: Mapping[str, Form] = NO_FORMS) -> Any:
        """The model with all operators quantized but those of these names; `forms` are those of some layers."""
        options = replace(self._options, skip=(*self._options.skip, *skip), forms=forms)
        scales = weight_scales(self._model.proto, options) if forms else self._scales
        return quantized(self._model.proto, self._ready.thresholds, options, scales, self._ready.extremes)

    def distance(self, proto: Any) -> Distance:
        """How far a quantized form is from the float model."""
        apart = Apart(self._labels)
        session = start_session(self._model.path, proto)
        name = session.get_outputs()[0].name
        for batch, right in zip(self._batches(), self._right(), strict=True):
            apart.add(right, run_session(self._model.path, session, [name], batch)[0])
        return apart.distance

    def along(self, proto: Any, tensors: Sequence[str]) -> Mapping[str, float | None]:
        """The signal to quantization noise of tensors, in decibels; those that are no more in the form have None."""
        return along(self._model, proto, tensors, self._batches())

    def _batches(self) -> Iterator[Batch]:
        return self._samples.batches(self._model.inputs)

    def _right(self) -> Iterator[Array]:
        """The float model's outputs, batch by batch."""
        if self._kept is not None:
            yield from self._kept
            return
        kept, size = list[Array](), 0
        for batch in self._batches():
            right = run_session(self._model.path, self._session, [self._output], batch)[0]
            size += right.nbytes
            if size <= MOST_KEPT_BYTES:
                kept.append(right)
            yield right
        self._kept = kept if size <= MOST_KEPT_BYTES else None
