"""What is believed by a template's own count of cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import int8tune.tuner.lab
from int8tune.tuner.cost_model.estimate import COLUMN, SPREAD, estimate_of, mean_of
from int8tune.tuner.lab.lessons import Classroom
from int8tune.tuner.lab.recording import read_recording


def test_fewer_cycles_have_the_higher_score() -> None:
    scores = estimate_of(("knob.a", COLUMN))
    assert scores is not None
    assert scores(np.array([[9.0, 3.0], [1.0, 2.0]])).tolist() == [-3.0, -2.0]


def test_without_an_estimate_nothing_is_believed() -> None:
    assert estimate_of(("knob.a", "bytes")) is None


def test_two_say_it_half_and_half() -> None:
    rows = np.array([[1.0], [2.0]])
    assert mean_of(lambda rows: rows[:, 0], lambda rows: 3 - 2 * rows[:, 0])(rows).tolist() == [1.0, 0.5]
    assert mean_of(lambda rows: rows[:, 0], None)(rows).tolist() == [1.0, 2.0]


@pytest.mark.thorough
def test_how_far_it_is_off_is_what_recordings_say() -> None:
    """Looks at the quarter of each layer's configs that the estimate expects to be the fastest."""
    folder = Path(int8tune.tuner.lab.__file__).parent
    layers = [layer for file in sorted(folder.glob("*.parquet")) for layer in read_recording(file)]
    classroom, deviations = Classroom(layers), []
    for index in range(len(layers)):
        for layer in classroom.experience(index):
            scores = estimate_of(layer.names)
            if scores:
                kept = layer.speeds > 0
                expected, found = scores(layer.rows[kept]), np.log2(layer.speeds[kept])
                first = np.argsort(-expected)[: max(8, len(expected) // 4)]
                deviations.append(np.std(found[first] - expected[first]))
    assert len(deviations) >= 20
    assert np.median(deviations) == pytest.approx(SPREAD, abs=0.01)
