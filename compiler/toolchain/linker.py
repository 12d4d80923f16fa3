"""The linker, called without a compiler's driver around it: one process, which dies with the build that started it."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from int8tune.compiler.errors import NoLinkerError
from int8tune.compiler.toolchain.object_file import MACHINES
from int8tune.rpc.process import processes

LINKERS = ("ld", "ld.lld", "ld.bfd", "ld.gold")
ANY_LINKER = "ld.lld"
"""Links for every architecture."""

BLOB = "__tvm_ffi__library_bin"
"""The symbol by which TVM's loader finds the modules that a library brings."""

_ARCHITECTURES = {number: name for name, number in MACHINES.items()}
# Without symbols, and without a page of padding for each segment: half the size.
OPTIONS = ("-shared", "-s", "-z", "max-page-size=4096")
LIMIT_S = 20.0


def find_linker(architecture: str = "") -> str:
    """Path of the first linker that is installed, for this machine's objects or those of another architecture.

    Raises:
        NoLinkerError: there is none.
    """
    is_foreign = architecture not in ("", platform.machine())
    names = (f"{architecture}-linux-gnu-ld", ANY_LINKER) if is_foreign else LINKERS
    for name in names:
        if path := shutil.which(name):
            return path
    if is_foreign:
        raise NoLinkerError(f"no linker for kernels of {architecture}, looked for: {', '.join(names)}")
    raise NoLinkerError(f"no C compiler to link kernels with, looked for its linker: {', '.join(names)}")


def architecture_of(compiled: Path) -> str:
    """What machine an object file is for; empty where that is not known here."""
    with compiled.open("rb") as file:
        head = file.read(20)  # `e_machine` is at byte 18
    return _ARCHITECTURES.get(int.from_bytes(head[18:20], "little"), "") if head[:4] == b"\x7fELF" else ""


def link_module(module: Any, library: Path) -> None:
    """Link a compiled module of TVM into a shared library.

    One object is all there is: `export_library` would import half of TVM's tools to find that out.

    Raises:
        RuntimeError: as `link_objects`.
    """
    compiled = library.with_suffix(".o")
    module.write_to_file(str(compiled))
    link_objects(library, [compiled])
    compiled.unlink()


def link_objects(output: Path, objects: Sequence[Path]) -> None:
    """Link object files into a shared library.

    Raises:
        RuntimeError: the linker failed; the message is its last line.
    """
    done = _run([find_linker(architecture_of(objects[0])), *OPTIONS, "-o", str(output), *map(str, objects)])
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [processes.how_it_ended(done.returncode)]
        raise RuntimeError(f"the linker failed: {words[-1]}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command that the kernel kills when this process ends.

    `setpriv` has the kernel do so. Without it this process is forked, which takes longer than to link, as a process
    with TVM in it has many pages.
    """
    parent = os.getpid()

    def arm() -> None:
        processes.signal_when_parent_ends(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    words = _setpriv()
    return subprocess.run(
        [*words, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        preexec_fn=None if words else arm,
    )


@functools.cache
def _setpriv() -> tuple[str, ...]:
    """The words before a command that is to end with the process that starts it; none where `setpriv` can't do that."""
    words = ("setpriv", "--pdeathsig", "KILL")
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        tried = subprocess.run([*words, "true"], capture_output=True, timeout=LIMIT_S, check=False)
        return words if tried.returncode == 0 else ()
    return ()
