"""TVM's and CUDA's runtime libraries for a board: this machine's own, else those of the wheels, downloaded once."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.agent.cuda_libraries import CUDA_RUNTIME, find_library
from int8tune.rpc.agent.kept_folder import make_once
from int8tune.rpc.errors import DownloadError, ProvisionError

_RUNTIME, _FFI, _GPU_RUNTIME = "libtvm_runtime.so", "libtvm_ffi.so", "libtvm_runtime_cuda.so"


@dataclass(frozen=True, slots=True)
class _Source:
    """Wheels, and what is kept of them."""

    wheels: tuple[str, ...]
    names: tuple[str, ...]


_TVM = _Source(("apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post1"), (_RUNTIME, _FFI, _GPU_RUNTIME))
_CUDA = _Source(("nvidia-cuda-runtime==13.0.96",), (CUDA_RUNTIME,))
WHEELS = (*_TVM.wheels, *_CUDA.wheels)

_SHA256 = {
    "aarch64": {
        _RUNTIME: "ba06950fac134b8d71549111fad2c6605cd6f738061fe0482f217c37ccbdff05",
        _FFI: "673d816bd962daddb55d8b0f8ae137e797500307951d0f721227731df0c13e24",
        _GPU_RUNTIME: "c277ef1b0b4afef83d0fa99f50b7ea72632c64a7020ce7ce887d225de13266e6",
        CUDA_RUNTIME: "7bdba2b5b08cbdc85203c41cc94598adedb1bcfea7cb574ca693ac73599e4e63",
    },
    "x86_64": {
        _RUNTIME: "43544bbeaea3cd3ffa919f7eac77244753aff28d1440c42f1ba8df03fa6e3948",
        _FFI: "e44372c658f0b5b6833f29402edfdd49d14a1e8ca50999d7e099f7c1f0822baa",
        _GPU_RUNTIME: "38782fe727adf51a82fa93de2a003044e16cd421564864a340dbd7f341215ffe",
        CUDA_RUNTIME: "96c42e418cec19054186b9429c321603cc190bf26a18104e19408117a2a817b0",
    },
}
_PLATFORMS = ("manylinux_2_28", "manylinux2014")
_DOWNLOAD_LIMIT_S = 600.0
# Where there is no network, pip would try six times, in half a minute. What its user has set is as it was.
_PIP = {"PIP_RETRIES": "1", "PIP_DEFAULT_TIMEOUT": "5", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
_LONGEST_WORDS = 300


def names_of(has_gpu: bool) -> tuple[str, ...]:
    """The libraries that a board needs; a GPU's driver is its own."""
    return (_RUNTIME, _FFI, *((_GPU_RUNTIME, CUDA_RUNTIME) if has_gpu else ()))


def runtime_files(architecture: str, cache: Path, has_gpu: bool) -> dict[str, Path]:
    """Where these libraries are.

    Raises:
        DownloadError: they are not here, and can't be downloaded.
        ProvisionError: they are other files than those of the wheels.
    """
    is_own = architecture == platform.machine()
    found = _own() if is_own else _kept(architecture, cache, _TVM)
    if has_gpu:
        runtime = find_library([CUDA_RUNTIME]) if is_own else None
        found |= {CUDA_RUNTIME: runtime} if runtime else _kept(architecture, cache, _CUDA)
    return {name: found[name] for name in names_of(has_gpu)}


def is_kept(architecture: str, cache: Path) -> bool:
    """Whether CUDA's runtime has been downloaded."""
    return _folder(architecture, cache, _CUDA).is_dir()


def package_folder(name: str) -> Path:
    """Where an installed package is.

    Raises:
        ProvisionError: it is not installed.
    """
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ProvisionError(f"the package `{name}` is not installed here")
    return Path(next(iter(found.submodule_search_locations)))


def sha256_of(path: Path) -> str:
    """Raises: ProvisionError: the file can't be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ProvisionError(f"a part of the bundle is missing: {path}") from error


def _own() -> dict[str, Path]:
    packages = {_FFI: "tvm_ffi"}
    return {name: package_folder(packages.get(name, "tvm")) / "lib" / name for name in _TVM.names}


def _kept(architecture: str, cache: Path, source: _Source) -> dict[str, Path]:
    """Libraries of wheels, from the cache if they are there."""
    folder = _folder(architecture, cache, source)
    make_once(folder, lambda made: _download(architecture, source, made))
    for name in source.names:
        if (found := sha256_of(folder / name)) != _SHA256[architecture][name]:
            raise ProvisionError(f"{folder / name} is not the file of its wheel: sha256 {found}")
    return {name: folder / name for name in source.names}


def _folder(architecture: str, cache: Path, source: _Source) -> Path:
    versions = "-".join(wheel.partition("==")[2] for wheel in source.wheels)
    return cache / "libraries" / f"{architecture}-{versions}"


def _download(architecture: str, source: _Source, folder: Path) -> None:
    """Wheels of 100 MB, of which some files are kept."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _download_wheels(architecture, source.wheels, Path(scratch))
        for wheel in Path(scratch).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    if Path(member).name in source.names:
                        with archive.open(member) as read, (folder / Path(member).name).open("wb") as written:
                            shutil.copyfileobj(read, written)


def _download_wheels(architecture: str, wheels: Sequence[str], scratch: Path) -> None:
    platforms = [word for name in _PLATFORMS for word in ("--platform", f"{name}_{architecture}")]
    options = ["--python-version", "3.11", "--only-binary=:all:", "--no-deps", "--no-input", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *platforms, *options, "--dest", str(scratch), *wheels]
    missing = f"{' and '.join(wheels)} for {architecture} is not here and was not downloaded"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=_DOWNLOAD_LIMIT_S,
            stdin=subprocess.DEVNULL,
            env={**_PIP, **os.environ},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadError(f"{missing}: {error}") from error
    if done.returncode != 0:
        raise DownloadError(f"{missing}: {_why(done.stderr.decode(errors='replace'))}")


def _why(said: str) -> str:
    """What pip said: its last line names the wheel alone where no index could be reached."""
    lines = said.strip().splitlines() or ["no message"]
    broken = next((line for line in lines if "connection broken by" in line), None)
    return "no package index can be reached" if broken else lines[-1][:_LONGEST_WORDS]
