"""Models compiled in a process of their own, which may abort, hang or be stopped."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from compiler.about import About, read_about
from compiler.errors import CompilerDiedError, ModelError, NoLinkerError
from compiler.graph import Graph
from compiler.replacing import replaced
from compiler.schedule_choice import Chooser
from results.errors import ExportError
from rpc import framing, processes
from rpc.errors import DeviceLostError
from schedules.errors import WorkloadError
from schedules.target import Target

LIMIT_S = 1800.0
END_LIMIT_S = 2.0
SEND_LIMIT_S = 10.0
_LONGEST_TAIL = 300
_EXPECTED = {kind.__name__: kind for kind in (ModelError, NoLinkerError, ExportError, WorkloadError)}


def compile_apart(graph: Graph, target: Target, schedules: Chooser, library: Path, limit_s: float = LIMIT_S) -> About:
    """Write the compiled model of a graph; what it says of itself.

    Raises:
        ModelError: operators that nothing computes; the message names all.
        NoLinkerError: nothing is there to link with.
        ExportError: the file can't be written.
        CompilerDiedError: the compiler ended before it was done, or took longer than `limit_s`.
    """

    def compile_to(made: Path) -> str:
        from compiler.compile import compile_model

        return compile_model(graph, target, schedules, made)

    with replaced(library) as made:
        answer = _ask_child(lambda: compile_to(made), limit_s)
        if "error" in answer:
            text = str(answer["text"]).replace(str(made), str(library))
            raise _EXPECTED[str(answer["error"])](text)
    return read_about(str(answer["about"]))


def _ask_child(work: Callable[[], str], limit_s: float) -> dict[str, object]:
    """The answer of a forked process, which is gone at the end with everything it started."""
    ours, theirs = socket.socketpair()
    stderr, parent = os.memfd_create("stderr"), os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(work, theirs, stderr, parent)
    theirs.close()
    try:
        return framing.receive(ours, time.monotonic() + limit_s)
    except TimeoutError:
        raise CompilerDiedError(f"the compiler was not done after {limit_s:g} s") from None
    except DeviceLostError:
        code = processes.reap(pid, END_LIMIT_S)
        pid = pid if code is None else 0
        how = processes.how_it_ended(code)
        words = " ".join(processes.tail(stderr, _LONGEST_TAIL).split()) or "it said nothing"
        raise CompilerDiedError(f"the compiler ended, {how}: {words}") from None
    finally:
        if pid:
            processes.kill(pid)
            processes.reap(pid, END_LIMIT_S)  # None where it is stuck in the kernel
        ours.close()
        os.close(stderr)


def _live(work: Callable[[], str], sock: socket.socket, stderr: int, parent: int) -> NoReturn:
    """The child's whole life: out of reach of the terminal's signals, and gone when its parent is."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        processes.signal_when_parent_ends(signal.SIGKILL)
        if os.getppid() == parent:
            os.dup2(stderr, 2)
            framing.send(sock, _answer(work), time.monotonic() + SEND_LIMIT_S)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)


def _answer(work: Callable[[], str]) -> dict[str, object]:
    try:
        return {"about": work()}
    except tuple(_EXPECTED.values()) as error:
        return {"error": type(error).__name__, "text": str(error)}
