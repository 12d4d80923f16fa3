"""Kernels of islands stay inside their arrays, whatever the extents and the indices are."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from tests.support.places import TESTS
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in


@pytest.mark.parametrize(
    ("profile", "share"), one_in(6, itertools.product(["x86-avx2", "x86-avx512vnni", "generic"], (0, 1)))
)
def test_islands_stay_inside_their_arrays(profile: str, share: int) -> None:
    host_target(profile)
    command = [sys.executable, str(TESTS / "support" / "kernels" / "guarded_islands.py"), profile, str(share)]
    done = subprocess.run(command, check=False, timeout=300, capture_output=True, text=True)
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"signal or exit {done.returncode} in {last}: {done.stderr[-500:]}"
    assert len(done.stdout.splitlines()) > 20
