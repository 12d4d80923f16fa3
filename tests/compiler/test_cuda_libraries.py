"""Where CUDA's libraries are found, in folders laid out as wheels, toolkits and containers have them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from int8tune.rpc.agent import cuda_libraries
from int8tune.rpc.agent.cuda_libraries import CUDA_RUNTIME, DRIVER, find_library, library_path
from int8tune.rpc.agent.runtime_files import names_of, runtime_files
from int8tune.rpc.errors import DownloadError
from int8tune.tuner.bench.gpu.libraries import cuda_runtime
from int8tune.tuner.cli.failures import FAILURES
from tests.support.places import ROOT

OLDER = "libcudart.so.12"
# Any library of this machine does where it is not loaded.
LIBRARY = Path(sys.executable).resolve()
NO_NETWORK = ("unshare", "--net", "--map-root-user")
LAYOUTS = {
    "LD_LIBRARY_PATH": "chosen",
    "wheel of 13": "site/nvidia/cu13/lib",
    "wheel of 12": "site/nvidia/cuda_runtime/lib",
    "CUDA_HOME": "home/lib64",
    "CUDA_HOME of conda": "home/lib",
    "CUDA_HOME by architecture": "home/targets/x86_64-linux/lib",
    "toolkit": "local/cuda/lib64",
    "toolkit of a version": "local/cuda-13.0/lib64",
    "loader": "loaders",
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has nothing but what a test puts there."""
    ldconfig = tmp_path / "ldconfig"
    ldconfig.write_text(f'#!/bin/sh\necho "	{CUDA_RUNTIME} (libc6,x86-64) => {tmp_path}/loaders/{CUDA_RUNTIME}"\n')
    ldconfig.chmod(0o700)
    monkeypatch.setattr(cuda_libraries, "_TOOLKITS", tmp_path / "local")
    monkeypatch.setattr(cuda_libraries, "_LDCONFIG", (str(ldconfig),))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *(place for place in sys.path if not _has_cuda(place))])
    monkeypatch.setenv("LD_LIBRARY_PATH", f"relative::{tmp_path / 'chosen'}")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    return tmp_path


def _has_cuda(place: str) -> bool:
    return any(Path(place).glob("nvidia/*/lib/libcudart.so.*"))


def put(place: Path, name: str = CUDA_RUNTIME) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(LIBRARY, place / name)
    return place / name


@pytest.fixture
def no_downloads(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose pip would say so."""

    def started(*command: object, **_: object) -> None:
        raise AssertionError(f"nothing is to be downloaded: {command}")

    monkeypatch.setattr("int8tune.rpc.agent.runtime_files._download_wheels", started)
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine / "cache"))
    return machine


@pytest.mark.parametrize("place", LAYOUTS.values(), ids=LAYOUTS)
def test_a_runtime_that_is_installed_is_taken(no_downloads: Path, place: str) -> None:
    runtime = put(no_downloads / place)
    found = runtime_files(platform.machine(), no_downloads / "cache", has_gpu=True)
    assert found[CUDA_RUNTIME] == runtime
    assert set(found) == set(names_of(has_gpu=True))
    assert cuda_runtime(for_tvm=True) == runtime


def test_places_are_searched_in_the_order_of_their_table(machine: Path) -> None:
    places = [put(machine / place) for place in LAYOUTS.values()]
    for path in places:
        assert find_library([CUDA_RUNTIME]) == path
        path.unlink()
    assert find_library([CUDA_RUNTIME]) is None


def test_the_newest_of_several_toolkits_is_taken(machine: Path) -> None:
    paths = [put(machine / "local" / f"cuda-13.{minor}" / "lib64") for minor in (0, 2, 1)]
    assert find_library([CUDA_RUNTIME]) == paths[1]


def test_files_that_are_no_library_of_this_machine_are_passed_over(machine: Path) -> None:
    """Scripts of the linker, libraries of other machines, links that lead nowhere, folders, files nobody may read."""
    script = put(machine / LAYOUTS["LD_LIBRARY_PATH"])
    script.write_text("/* GNU ld script */\n")
    foreign = put(machine / LAYOUTS["wheel of 13"])
    header = bytearray(foreign.read_bytes())
    header[18] ^= 0xFF
    foreign.write_bytes(header)
    (machine / "home/lib64" / CUDA_RUNTIME).mkdir(parents=True)
    (machine / "home/lib").mkdir()
    (machine / "home/lib" / CUDA_RUNTIME).symlink_to("nowhere")
    own = put(machine / LAYOUTS["toolkit"])
    assert find_library([CUDA_RUNTIME]) == own


def test_cuda_12_does_for_libraries_that_are_not_tvm(no_downloads: Path) -> None:
    older = put(no_downloads / LAYOUTS["wheel of 12"], OLDER)
    assert cuda_runtime(for_tvm=False) == older
    with pytest.raises(AssertionError, match="nothing is to be downloaded"):
        cuda_runtime(for_tvm=True)
    newer = put(no_downloads / LAYOUTS["loader"])
    assert cuda_runtime(for_tvm=False) == newer


def test_a_board_of_another_architecture_has_no_library_of_this_machine(no_downloads: Path) -> None:
    put(no_downloads / LAYOUTS["toolkit"])
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    with pytest.raises(AssertionError, match="nothing is to be downloaded"):
        runtime_files(other, no_downloads / "cache", has_gpu=True)


def test_a_driver_that_the_loader_misses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_libraries, "DRIVER_FOLDERS", (str(tmp_path / "lib64"), str(tmp_path / "lib")))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own")
    assert library_path() == "/own"
    put(tmp_path / "lib64", DRIVER)
    assert library_path() == f"/own:{tmp_path / 'lib64'}"
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert library_path() == str(tmp_path / "lib64")


def no_namespaces() -> str | None:
    """Why no process without a network can be made here, or None."""
    if not shutil.which(NO_NETWORK[0]):
        return "needs unshare"
    done = subprocess.run([*NO_NETWORK, "true"], capture_output=True, text=True, timeout=10)
    return done.stderr.strip() or None


WITHOUT_A_NETWORK = """
import sys, platform
from pathlib import Path
from int8tune.rpc.agent import cuda_libraries
from int8tune.rpc.errors import DownloadError
from int8tune.rpc.agent.runtime_files import runtime_files
if sys.argv[2] == "bare":
    cuda_libraries.PLACES = ()
try:
    print(runtime_files(platform.machine(), Path(sys.argv[1]), has_gpu=True)["libcudart.so.13"])
except DownloadError as error:
    print(error)
"""


def without_a_network(folder: Path, kind: str, **environment: str) -> str:
    """What the program above prints where there is no network, not even a loopback, and pip has its own settings.

    On a `bare` machine nothing is installed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "CUDA_"))}
    kept |= {"PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": "", "PIP_CONFIG_FILE": os.devnull}
    command = [*NO_NETWORK, sys.executable, "-c", WITHOUT_A_NETWORK, str(folder / "cache"), kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**kept, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(no_namespaces() is not None, reason=str(no_namespaces()))
def test_what_is_installed_needs_no_network(tmp_path: Path) -> None:
    runtime = put(tmp_path / "toolkit" / "lib64")
    assert without_a_network(tmp_path, "usual", CUDA_HOME=str(tmp_path / "toolkit")) == str(runtime)


@pytest.mark.alone
@pytest.mark.skipif(no_namespaces() is not None, reason=str(no_namespaces()))
def test_without_a_network_a_download_ends_within_seconds(tmp_path: Path) -> None:
    """pip's own six tries take 33 s."""
    began = time.monotonic()
    said = without_a_network(tmp_path, "bare")
    missing = rf"nvidia-cuda-runtime==13.0.96 for {platform.machine()} is not here and was not downloaded"
    assert said == f"{missing}: no package index can be reached"
    assert time.monotonic() - began < 15
    assert "pip install nvidia-cuda-runtime" in FAILURES[DownloadError].hint
    assert not list((tmp_path / "cache" / "libraries").iterdir())
