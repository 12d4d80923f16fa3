"""Memory that a compilation lets go of before it needs more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from int8tune.compiler.compile import compile_models
from int8tune.compiler.free_memory import constant_bytes
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Schedules
from tests.support.models.onnx_models import quantized_layer
from tests.support.run.kept_kernels import kernel_cache
from tests.support.run.probes import host_target

pytest.importorskip("onnx", reason="needs the extra `models`")


def test_a_graph_that_is_used_up_has_no_constants_and_gives_the_same_library(tmp_path: Path) -> None:
    made, target = [], host_target()
    for is_last_use in (False, True):
        graph = read_onnx(quantized_layer().SerializeToString(), "layer")
        before, library = constant_bytes(graph.values), tmp_path / "layer.so"
        assert before > 0
        compile_models([graph], target, Schedules(target), library, cache=kernel_cache(), is_last_use=is_last_use)
        assert constant_bytes(graph.values) == (0 if is_last_use else before)
        made.append(library.read_bytes())
    assert made[0] == made[1]


KEPT = """
import os, sys
import numpy as np
from int8tune.compiler.free_memory import give_back_at_once

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

if sys.argv[1] == "at once":
    give_back_at_once()
np.ones(30 << 20, np.uint8)
large = np.ones(20 << 20, np.uint8)
behind = np.ones(100_000, np.uint8)
before = resident_mb()
del large
print(before - resident_mb())
"""


@pytest.mark.parametrize(("when", "least", "most"), [("at once", 19, 21), ("as usual", -1, 1)])
def test_a_large_array_behind_which_another_one_lies_is_given_back(when: str, least: float, most: float) -> None:
    command = [sys.executable, "-c", KEPT, when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert least < float(done.stdout) < most
