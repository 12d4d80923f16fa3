"""What a build leaves, made in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.results.bounded_json import read_json
from int8tune.results.record import Outcome
from int8tune.schedules.probes import bandwidth_probe, peak_probe
from int8tune.schedules.target import Target
from int8tune.tuner.builder.compile import build
from int8tune.tuner.builder.job import RESULT_FILE, Job, built_from_json

BYTES = 1 << 12


@pytest.mark.parametrize("probe", ["peak", BYTES])
def test_a_probe_comes_with_its_inputs_and_what_it_gives(probe: str | int, generic: Target, tmp_path: Path) -> None:
    build(Job("1", generic, str(tmp_path), 60.0, probe=probe))
    built = built_from_json(read_json(tmp_path / RESULT_FILE))
    wanted = peak_probe(generic) if isinstance(probe, str) else bandwidth_probe(generic, probe)
    assert built.outcome is Outcome.OK, built.error
    assert built.program is not None
    assert Path(built.program.library).exists()
    (case,) = built.program.cases
    for file, array in zip((*case.inputs, case.expected), (*wanted.inputs, wanted.expected), strict=True):
        np.testing.assert_array_equal(np.load(file), array)
