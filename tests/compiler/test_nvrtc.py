"""NVRTC as NVIDIA's wheels lay it out: that of CUDA 12 beside its builtins, that of CUDA 13 unable to find them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from int8tune.rpc.agent.cuda_libraries import libraries
from int8tune.rpc.agent.kept_folder import make_once
from tests.support.farm.boards import CACHE
from tests.support.places import ROOT

WHEEL = "nvidia-cuda-nvrtc==13.0.88"
KEPT = CACHE / "libraries" / "nvrtc-13.0.88"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
KERNEL = 'extern "C" __global__ void f(int* x) { *x = __dp4a(x[1], x[2], x[3]); }'
# As NVRTC does: it opens its builtins when it compiles, by name.
OPENING = """
#include <dlfcn.h>
int nvrtcVersion(void) { return dlopen("libnvrtc-builtins.so.13.0", RTLD_NOW) ? 13 : 0; }
"""
COMPILE = """
import json, sys
from int8tune.compiler.toolchain import nvrtc
nvrtc._NAMES = (sys.argv[1],)
print(json.dumps([nvrtc.compile_cubin(sys.argv[2], arch)[:4].hex() for arch in sys.argv[3:]]))
"""


def run(program: str, *arguments: str, folder: Path | None = None) -> str:
    """What a new process prints: a library that one process has loaded is found by all that look in it later."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    path = os.pathsep.join(map(str, filter(None, [folder, ROOT])))
    command = [sys.executable, "-P", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**kept, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr[-600:]
    return done.stdout


def compiled(name: str, folder: Path | None = None) -> list[str]:
    found: list[str] = json.loads(run(COMPILE, name, KERNEL, *ARCHITECTURES, folder=folder))
    return found


def test_builtins_are_loaded_from_the_folder_of_their_compiler(tmp_path: Path) -> None:
    place = tmp_path / "nvidia" / "cu13" / "lib"
    place.mkdir(parents=True)
    for name, source in (("libnvrtc-builtins.so.13.0", ""), ("libnvrtc.so.13", OPENING)):
        command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(place / name), "-xc", "-"]
        subprocess.run(command, input=source, text=True, check=True, timeout=60)
    setting = "from int8tune.compiler.toolchain import nvrtc; nvrtc._NAMES = ('libnvrtc.so.13',); "
    found = "path = next(nvrtc._paths()); print(path, nvrtc._loaded(path).nvrtcVersion())"
    assert run(setting + found, folder=tmp_path) == f"{place / 'libnvrtc.so.13'} 13\n"


@pytest.mark.parametrize("name", ["libnvrtc.so.12", "libnvrtc.so.13"])
def test_what_is_installed_compiles_for_every_architecture(name: str) -> None:
    if next(libraries(name), None) is None:
        pytest.skip(f"not installed: {name}")
    assert compiled(name) == ["7f454c46"] * len(ARCHITECTURES)


@pytest.mark.slow
def test_the_wheel_of_cuda_13_compiles_for_every_architecture() -> None:
    """90 MB, downloaded once."""
    make_once(KEPT, _unpack)
    assert compiled("libnvrtc.so.13", KEPT) == ["7f454c46"] * len(ARCHITECTURES)


def _unpack(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if done.returncode:
        pytest.skip(f"{WHEEL} can't be downloaded: {done.stderr.strip().splitlines()[-1:]}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if "/lib/" in name and ".alt." not in name]
        archive.extractall(folder, names)
    wheel.unlink()
