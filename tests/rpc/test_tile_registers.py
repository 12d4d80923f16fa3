"""Leave to use AMX, and what a process does that does not get it. Filters can't be taken back: each has a process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from int8tune.rpc.local.capabilities import cpu_features
from int8tune.rpc.local.tile_registers import allow_tile_registers

needs_x86_linux = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="needs Linux on x86-64"
)
needs_amx = pytest.mark.skipif("amx_tile" not in cpu_features(), reason="needs a CPU with AMX")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@needs_x86_linux
@needs_amx
def test_leave_is_given_and_kept_by_children() -> None:
    assert allow_tile_registers()
    assert allow_tile_registers()


@needs_x86_linux
def test_without_leave_the_features_of_amx_are_not_usable() -> None:
    code = """
from int8tune.rpc.local.capabilities import usable_features
from int8tune.rpc.local.tile_registers import allow_tile_registers, deny_tile_registers
before = usable_features()
print(deny_tile_registers(), allow_tile_registers())
print(sorted(name for name in usable_features() if name.startswith("amx_")), len(usable_features()) > 10)
"""
    assert run(code).splitlines() == ["True False", "[] True"]


@needs_x86_linux
def test_children_are_denied_too() -> None:
    code = """
import subprocess, sys
from int8tune.rpc.local.tile_registers import deny_tile_registers
deny_tile_registers()
child = "from int8tune.rpc.local.tile_registers import allow_tile_registers; print(allow_tile_registers())"
print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout, end="")
"""
    assert run(code) == "False"
