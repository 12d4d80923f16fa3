"""What a board needs: the agent, compiled here, and TVM's runtime from its wheels. A few MB, made once and kept.

A bundle is named by everything it is made of: a board that has one of the same name has the same files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.agent.cuda_libraries import DRIVER, DRIVER_FOLDERS
from int8tune.rpc.agent.kept_folder import make_once
from int8tune.rpc.agent.runtime_files import WHEELS, names_of, package_folder, runtime_files, sha256_of
from int8tune.rpc.errors import ProvisionError

AGENT = "agent"
MARK = "INT8TUNE_AGENT"
"""In the environment of an agent and all that it starts."""

SOURCES = Path(__file__).resolve().parent
"""The agent's, in C++."""

_FLAGS = ("-std=c++17", "-O2", "-s", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN")
_OLDEST_GLIBC = "2.28"
_COMPILE_LIMIT_S = 300.0
_LONGEST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files that are ready for a board, by name with their sha256."""

    name: str
    folder: Path
    files: dict[str, str]

    @property
    def size_bytes(self) -> int:
        return sum((self.folder / name).stat().st_size for name in self.files)


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


def bundle_name(architecture: str, is_portable: bool = False, has_gpu: bool = False) -> str:
    """The name of the bundle that this version has for boards of an architecture."""
    digest = hashlib.sha256(repr((architecture, WHEELS, _FLAGS)).encode())
    for source in sorted([*SOURCES.glob("*.cc"), *SOURCES.glob("*.h")]):
        digest.update(source.name.encode() + source.read_bytes())
    return f"{architecture}-{digest.hexdigest()[:16]}{'-gpu' * has_gpu}{'-portable' * is_portable}"


def is_of_this_version(name: str, architecture: str, has_gpu: bool = False) -> bool:
    """Whether a board's bundle has the files of this version, whoever compiled them."""
    return name in (bundle_name(architecture, is_portable, has_gpu) for is_portable in (False, True))


def make_bundle(
    architecture: str, cache: Path, compiler: Sequence[str] | None = None, *, has_gpu: bool = False
) -> Bundle:
    """The bundle for boards of an architecture, from the cache if it is there; by the first compiler if None.

    Raises:
        ProvisionError: the runtime can't be downloaded, or no compiler for the architecture is here.
    """
    is_portable = compiler is not None and "ziglang" in compiler
    name = bundle_name(architecture, is_portable, has_gpu)
    folder = cache / "bundles" / name
    runtime = names_of(has_gpu)

    def compile_agent(made: Path) -> None:
        chosen = compiler or compilers(architecture)[0]
        libraries = [str(path) for path in runtime_files(architecture, cache, has_gpu=False).values()]
        compile_sources(chosen, sorted(SOURCES.glob("*.cc")), made / AGENT, libraries)

    def fill(made: Path) -> None:
        # Boards with a GPU and those without have the same agent.
        agents = cache / "agents" / bundle_name(architecture, is_portable)
        make_once(agents, compile_agent)
        shutil.copy(agents / AGENT, made / AGENT)
        for file, path in runtime_files(architecture, cache, has_gpu).items():
            shutil.copyfile(path, made / file)

    make_once(folder, fill)
    return Bundle(name, folder, {file: sha256_of(folder / file) for file in (AGENT, *runtime)})


def launcher(emulator: Sequence[str] = ()) -> str:
    """The script that starts an agent in its folder, with nothing of its caller's environment but where a driver is."""
    words = " ".join(shlex.quote(word) for word in emulator)
    places = " ".join(DRIVER_FOLDERS)
    return f"""#!/bin/sh
# Starts the agent of int8tune for one host, on standard input and output. Whatever is asked for, this is what runs.
umask 077
folder=$(cd "$(dirname "$0")" && pwd -P) || exit 1
libraries=$folder
set -f
IFS=:
for place in $LD_LIBRARY_PATH; do
  case $place in /*) if [ -e "$place/{DRIVER}" ]; then libraries=$libraries:$place; fi;; esac
done
unset IFS
for place in {places}; do
  if [ -e "$place/{DRIVER}" ]; then libraries=$libraries:$place; fi
done
exec env -i {MARK}="$folder" LD_LIBRARY_PATH="$libraries" PATH=/usr/local/bin:/usr/bin:/bin {words} \\
  "$folder/{AGENT}" "$folder"
"""


def compile_sources(compiler: Sequence[str], sources: Sequence[Path], made: Path, options: Sequence[str] = ()) -> None:
    """Compile C++ for a board, as one translation unit: their headers take more than half the time.

    Raises:
        ProvisionError: it does not compile.
    """
    includes = package_folder("tvm_ffi") / "include"
    unit = "".join(f'#include "{source}"\n' for source in sources).encode()
    one = ("-x", "c++", "-", "-x", "none")
    command = [*compiler, *_FLAGS, f"-I{includes}", f"-I{SOURCES}", "-o", str(made), *one, *options]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_COMPILE_LIMIT_S, input=unit)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProvisionError(f"the agent was not compiled: {command[0]}: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise ProvisionError(f"the agent does not compile with `{command[0]}`: {lines[0][:_LONGEST_WORDS]}")
