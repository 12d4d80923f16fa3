"""Kernels touch nothing outside their arrays: run between pages whose access ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from layers import ODD
from probes import host_target

# Sizes that are multiples of 64 bytes end exactly at the guard.
EXACT = (
    "conv2d-u8s8-1x8x8x3-k3x3x32-s1-p1-float.c-u8",
    "conv2d-u8s8-1x8x8x3-k1x1x16-s1-p0-float.c-u8",
    "conv2d-u8s8-1x8x8x19-k3x3x16-s1-p0-float.c-u8",
    "conv2d-s8s8-1x8x8x5-k3x3x32-s1-p1-fixed.c-s8",
    "conv2d-u8u8-1x8x8x7-k3x3x16-s2-p1-d2-wz-float.c-u8",
    "conv2d-u8s8-1x8x8x6-k3x3x32-s1-p1-g2-float.c-u8",
    "dwconv2d-u8s8-1x8x8x17-k3x3x1-s1-p0-float.c-u8",
    "dwconv2d-u8s8-1x8x8x19-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-u8u8-1x8x8x16-k5x5x1-s1-p2-wz-fixed.c-u8",
    "dwconv2d-s8s8-1x8x8x9-k3x3x2-s2-p0.0.1.1-float.c-s8",
    "dense-u8s8-64x13-o17-float.c-u8",
    "dense-s8u8-8x24-o48-wz-s32",
    "conv2d-u8s8-1x8x8x16-k1x1x35-s1-p0-float.c-addu8-u8",
    "dwconv2d-s8s8-1x8x8x23-k3x3x1-s1-p1-fixed.c-adds8-s8",
)


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=False, timeout=100, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("profile", ["x86-avx512vnni", "generic"])
@pytest.mark.parametrize("keys", [EXACT, pytest.param(ODD, marks=pytest.mark.slow)], ids=["exact", "odd"])
def test_kernels_stay_inside_their_arrays(profile: str, keys: tuple[str, ...]) -> None:
    host_target(profile)
    done = run([str(Path(__file__).with_name("guarded_memory.py")), profile, *keys])
    assert done.returncode == 0, f"signal or exit {done.returncode} in {done.stdout.split()[-1:]}: {done.stderr[-500:]}"
    assert done.stdout.split() == [*keys]


@pytest.mark.parametrize(("place", "offset"), [("before_a_guard", 1), ("behind_a_guard", -1)])
def test_a_step_outside_ends_the_process(place: str, offset: int) -> None:
    code = f"""
import ctypes
import numpy as np
import guarded_memory

def read(source):
    ctypes.string_at(source.__array_interface__['data'][0] + ({offset} if {offset} < 0 else source.nbytes), 1)

array = guarded_memory.{place}(np.zeros((8, 8, 3), np.uint8))
assert array.sum() == 0
print("inside", flush=True)
read(array)
"""
    done = run(["-c", code])
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "inside\n")
