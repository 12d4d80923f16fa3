"""Compiled libraries answer as ONNX Runtime does, and are timed in turn with float models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import onnxruntime

import int8tune as it
from int8tune.quantize.errors import CalibrationError
from int8tune.quantize.samples.given import samples_of
from int8tune.rpc.request import Timing
from int8tune.tuner.errors import BenchError
from int8tune.tuner.models.race import Entry
from int8tune.tuner.models.runtimes import OWN
from int8tune.tuner.schemes import library as module
from int8tune.tuner.schemes.library import compiled_library, first_sample, outputs_of
from int8tune.tuner.schemes.place import open_place
from int8tune.tuner.schemes.timing import time_in_turn
from tests.support.models.float_models import pictures, saved, small


def test_a_library_answers_and_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are run in several pieces, and none of them is lost."""
    path, quantized = saved(small(), tmp_path), tmp_path / "q.onnx"
    it.quantize(path, pictures(20), quantized)
    inputs = pictures(23, seed=1) * 3
    samples = samples_of(inputs)
    monkeypatch.setattr(module, "PIECE_BYTES", 5 * inputs[0].nbytes)
    with open_place(tmp_path / "results") as place:
        library = compiled_library(place, quantized, "mse")
        (seen,) = outputs_of(place, library.entry, library.graph, samples)
        (expected,) = onnxruntime.InferenceSession(quantized).run(None, {"x": inputs})
        assert (seen == expected).all()
        assert library.size_bytes == library.entry.model.stat().st_size
        first = first_sample(library.graph, samples)
        entries = [library.entry, library.entry]
        found = time_in_turn(place, entries, first, Timing(5, 0.001))
        assert [each.failure for each in found.results] == [""] * len(entries)
        assert all(
            time.low_s <= time.estimate_s <= time.high_s for time in (each.median_time for each in found.results)
        )
        with pytest.raises(CalibrationError, match="can't take samples of shape"):
            outputs_of(place, library.entry, library.graph, samples_of(inputs[:, :2]))
        damaged = place.folder / "damaged.so"
        damaged.write_bytes(library.entry.model.read_bytes()[:2000])
        with pytest.raises(BenchError, match="damaged failed: "):
            outputs_of(place, Entry("damaged", OWN, damaged), library.graph, samples)
    assert not list((tmp_path / "results").rglob("*.so"))


def test_several_samples_at_once_are_told_apart() -> None:
    runs = np.arange(24).reshape(3, 2, 4)
    assert module._by_samples(runs, 2).tolist() == runs.reshape(6, 4).tolist()
    assert module._by_samples(runs, 3) is runs
