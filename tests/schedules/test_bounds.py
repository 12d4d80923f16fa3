"""Kernels touch nothing outside their arrays: run between pages whose access ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from int8tune.schedules.target import PROFILES
from tests.support.kernels.layers import ODD
from tests.support.places import TESTS
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

# Sizes that are multiples of 64 bytes end exactly at the guard. Images with borders that are skipped, copied or
# gathered; channels that fill no register or no dot product.
EXACT = (
    "conv2d-u8s8-1x8x8x4-k3x3x24-s1-p1-float.c-u8",
    "conv2d-u8s8-1x8x8x8-k3x3x40-s2-p1-wz-float.c-u8",
    "conv2d-u8s8-1x8x8x3-k3x3x32-s1-p1-float.c-u8",
    "conv2d-u8s8-1x8x8x3-k1x1x16-s1-p0-float.c-u8",
    "conv2d-u8s8-1x8x8x19-k3x3x16-s1-p0-float.c-u8",
    "conv2d-s8s8-1x8x8x5-k3x3x32-s1-p1-fixed.c-s8",
    "conv2d-u8u8-1x8x8x7-k3x3x16-s2-p1-d2-wz-float.c-u8",
    "conv2d-u8s8-1x8x8x6-k3x3x32-s1-p1-g2-float.c-u8",
    "dwconv2d-u8s8-1x8x8x17-k3x3x1-s1-p0-float.c-u8",
    "dwconv2d-u8s8-1x8x8x19-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-s8s8-1x8x8x9-k3x3x2-s2-p0.0.1.1-float.c-s8",
    "dense-u8s8-64x13-o17-float.c-u8",
    "dense-s8u8-8x24-o48-wz-s32",
    "conv2d-u8s8-1x8x8x16-k1x1x35-s1-p0-float.c-addu8-u8",
)
# The same, but their code is long and takes seconds to build.
LONG = (
    "dwconv2d-u8u8-1x8x8x16-k5x5x1-s1-p2-wz-fixed.c-u8",
    "dwconv2d-s8s8-1x8x8x23-k3x3x1-s1-p1-fixed.c-adds8-s8",
)


def run(arguments: list[str], limit_s: float = 100) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=False, timeout=limit_s, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("profile", one_in(4, [profile.name for profile in PROFILES]))
@pytest.mark.parametrize(
    ("keys", "samples"),
    [
        (EXACT[::4], 0),
        pytest.param([key for key in EXACT if key not in EXACT[::4]], 0, marks=pytest.mark.thorough),
        pytest.param((*EXACT, *LONG, *ODD), 8, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
    ids=["exact", "more", "odd"],
)
def test_kernels_stay_inside_their_arrays(profile: str, keys: tuple[str, ...], samples: int) -> None:
    host_target(profile)
    done = run(
        [str(TESTS / "support" / "kernels" / "guarded_memory.py"), profile, str(samples), *keys],
        limit_s=100 + 200 * samples,
    )
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"signal or exit {done.returncode} in {last}: {done.stderr[-500:]}"
    assert {line.split()[0] for line in done.stdout.splitlines()} == {*keys}


@pytest.mark.parametrize(("place", "offset"), [("before_a_guard", 1), ("behind_a_guard", -1)])
def test_a_step_outside_ends_the_process(place: str, offset: int) -> None:
    code = f"""
import ctypes
import numpy as np
from tests.support.kernels import guarded_memory

def read(source):
    ctypes.string_at(source.__array_interface__['data'][0] + ({offset} if {offset} < 0 else source.nbytes), 1)

array = guarded_memory.{place}(np.zeros((8, 8, 3), np.uint8))
assert array.sum() == 0
print("inside", flush=True)
read(array)
"""
    done = run(["-c", code])
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "inside\n")
