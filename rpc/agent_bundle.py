"""What a board needs: the agent, compiled here, and TVM's runtime from its wheels. A few MB, made once and kept.

A bundle is named by everything it is made of: a board that has one of the same name has the same files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rpc.errors import ProvisionError
from rpc.kept_folder import make_once

AGENT = "agent"
MARK = "INT8TUNE_AGENT"
"""In the environment of an agent and all that it starts."""

SOURCES = Path(__file__).resolve().parent / "agent"
"""The agent's, in C++."""

RUNTIME_FILES = ("libtvm_runtime.so", "libtvm_ffi.so")
WHEELS = ("apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post1")

_FLAGS = ("-std=c++17", "-O2", "-s", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN")
_OLDEST_GLIBC = "2.28"
_DOWNLOAD_LIMIT_S = 600.0
_COMPILE_LIMIT_S = 300.0
_LONGEST_WORDS = 300
# Of the runtime files in the wheels for another machine than this one.
_SHA256 = {
    "aarch64": {
        "libtvm_runtime.so": "ba06950fac134b8d71549111fad2c6605cd6f738061fe0482f217c37ccbdff05",
        "libtvm_ffi.so": "673d816bd962daddb55d8b0f8ae137e797500307951d0f721227731df0c13e24",
    },
    "x86_64": {
        "libtvm_runtime.so": "43544bbeaea3cd3ffa919f7eac77244753aff28d1440c42f1ba8df03fa6e3948",
        "libtvm_ffi.so": "e44372c658f0b5b6833f29402edfdd49d14a1e8ca50999d7e099f7c1f0822baa",
    },
}


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files that are ready for a board, by name with their sha256."""

    name: str
    folder: Path
    files: dict[str, str]

    @property
    def size_bytes(self) -> int:
        return sum((self.folder / name).stat().st_size for name in self.files)


def default_cache() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "int8tune"


def compilers(architecture: str) -> tuple[tuple[str, ...], ...]:
    """The C++ compilers for an architecture that are here, in the order in which they are tried.

    Code of this machine's own needs as new a C library as this machine has. Zig's does not; but it compiles a C++
    library first, once, which takes a minute.

    Raises:
        ProvisionError: there is none.
    """
    names = [f"{architecture}-linux-gnu-g++", *(["g++"] if architecture == platform.machine() else [])]
    found: list[tuple[str, ...]] = []
    if name := next(filter(shutil.which, names), None):
        found.append((name, "-static-libstdc++", "-static-libgcc"))
    if importlib.util.find_spec("ziglang"):
        zig = (sys.executable, "-m", "ziglang", "c++")
        found.append((*zig, "-target", f"{architecture}-linux-gnu.{_OLDEST_GLIBC}"))
    if not found:
        wanted = " or ".join(f"`{name}`" for name in names)
        raise ProvisionError(f"no C++ compiler for {architecture} is here: neither {wanted} nor pip's `ziglang`")
    return tuple(found)


def bundle_name(architecture: str, is_portable: bool = False) -> str:
    """The name of the bundle that this version has for boards of an architecture."""
    digest = hashlib.sha256(repr((architecture, WHEELS, _FLAGS)).encode())
    for source in sorted(SOURCES.glob("*.*")):
        digest.update(source.name.encode() + source.read_bytes())
    return f"{architecture}-{digest.hexdigest()[:16]}{'-portable' if is_portable else ''}"


def is_of_this_version(name: str, architecture: str) -> bool:
    """Whether a board's bundle has the files of this version, whoever compiled them."""
    return name in (bundle_name(architecture), bundle_name(architecture, is_portable=True))


def make_bundle(architecture: str, cache: Path, compiler: Sequence[str] | None = None) -> Bundle:
    """The bundle for boards of an architecture, from the cache if it is there; by the first compiler if None.

    Raises:
        ProvisionError: the runtime can't be downloaded, or no compiler for the architecture is here.
    """
    is_portable = compiler is not None and "ziglang" in compiler
    name = bundle_name(architecture, is_portable)
    folder = cache / "bundles" / name

    def fill(made: Path) -> None:
        chosen = compiler or compilers(architecture)[0]
        for file, path in _runtime(architecture, cache).items():
            shutil.copyfile(path, made / file)
        libraries = [str(made / file) for file in RUNTIME_FILES]
        compile_sources(chosen, sorted(SOURCES.glob("*.cc")), made / AGENT, libraries)

    make_once(folder, fill)
    return Bundle(name, folder, {file: sha256_of(folder / file) for file in (AGENT, *RUNTIME_FILES)})


def launcher(emulator: Sequence[str] = ()) -> str:
    """The script that starts an agent in its folder, with nothing of its caller's environment."""
    words = " ".join(shlex.quote(word) for word in emulator)
    return f"""#!/bin/sh
# Starts the agent of int8tune for one host, on standard input and output. Whatever is asked for, this is what runs.
umask 077
folder=$(cd "$(dirname "$0")" && pwd -P) || exit 1
exec env -i {MARK}="$folder" LD_LIBRARY_PATH="$folder" PATH=/usr/local/bin:/usr/bin:/bin {words} \\
  "$folder/{AGENT}" "$folder"
"""


def compile_sources(compiler: Sequence[str], sources: Sequence[Path], made: Path, options: Sequence[str] = ()) -> None:
    """Compile C++ for a board.

    Raises:
        ProvisionError: it does not compile.
    """
    includes = Path(_package("tvm_ffi")) / "include"
    command = [*compiler, *_FLAGS, f"-I{includes}", f"-I{SOURCES}", "-o", str(made), *map(str, sources), *options]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_COMPILE_LIMIT_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProvisionError(f"the agent was not compiled: {command[0]}: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise ProvisionError(f"the agent does not compile with `{command[0]}`: {lines[0][:_LONGEST_WORDS]}")


def _runtime(architecture: str, cache: Path) -> dict[str, Path]:
    """The runtime's files: this environment's own for this machine's architecture, else those of the wheels."""
    if architecture == platform.machine():
        return {
            "libtvm_runtime.so": Path(_package("tvm")) / "lib" / "libtvm_runtime.so",
            "libtvm_ffi.so": Path(_package("tvm_ffi")) / "lib" / "libtvm_ffi.so",
        }
    folder = cache / "runtime" / f"{architecture}-{'-'.join(wheel.partition('==')[2] for wheel in WHEELS)}"
    make_once(folder, lambda made: _download(architecture, made))
    for file, expected in _SHA256[architecture].items():
        if (found := sha256_of(folder / file)) != expected:
            raise ProvisionError(f"{folder / file} is not the file of TVM's wheel: sha256 {found}")
    return {file: folder / file for file in RUNTIME_FILES}


def _download(architecture: str, folder: Path) -> None:
    """TVM's wheels for another machine; of their 100 MB, two files are kept."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _download_wheels(architecture, Path(scratch))
        for wheel in Path(scratch).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    if Path(member).name in RUNTIME_FILES:
                        with archive.open(member) as source, (folder / Path(member).name).open("wb") as target:
                            shutil.copyfileobj(source, target)


def _download_wheels(architecture: str, scratch: Path) -> None:
    machine = ["--platform", f"manylinux_2_28_{architecture}", "--python-version", "3.11", "--only-binary=:all:"]
    options = [*machine, "--no-deps", "--no-input", "--quiet", "--dest", str(scratch)]
    command = [sys.executable, "-m", "pip", "download", *options, *WHEELS]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_DOWNLOAD_LIMIT_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProvisionError(f"TVM's runtime for {architecture} was not downloaded: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise ProvisionError(f"TVM's runtime for {architecture} was not downloaded: {lines[-1][:_LONGEST_WORDS]}")


def _package(name: str) -> str:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ProvisionError(f"the package `{name}` is not installed here")
    return next(iter(found.submodule_search_locations))


def sha256_of(path: Path) -> str:
    """Raises: ProvisionError: the file can't be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ProvisionError(f"a part of the bundle is missing: {path}") from error
