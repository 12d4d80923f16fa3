"""Models compiled in a process of their own, which may abort, hang or be stopped."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from int8tune.compiler.about import About, read_about
from int8tune.compiler.errors import CompilerDiedError, ModelError, NoLinkerError, ObstacleError
from int8tune.compiler.graph import Graph
from int8tune.compiler.program import Array
from int8tune.compiler.replacing import replaced
from int8tune.compiler.report import Report, ignore
from int8tune.compiler.schedule_choice import Chooser
from int8tune.compiler.toolchain.kernel_cache import KernelCounts, users_cache
from int8tune.results.errors import ExportError
from int8tune.rpc.errors import DeviceLostError
from int8tune.rpc.process import processes
from int8tune.rpc.protocol import program_from_json
from int8tune.rpc.request import Program
from int8tune.rpc.wire import framing
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.target import Target

LIMIT_S = 1800.0
END_LIMIT_S = 2.0
SEND_LIMIT_S = 10.0
REPORT_EVERY_S = 0.25
STACK_BYTES = 1 << 28
_LONGEST_TAIL = 300
_EXPECTED = {kind.__name__: kind for kind in (ModelError, ObstacleError, NoLinkerError, ExportError, WorkloadError)}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled model that was written: what it says of itself, and where its kernels came from."""

    about: About
    kernels: KernelCounts


def compile_apart(
    graphs: Graph | Sequence[Graph],
    target: Target,
    schedules: Chooser,
    library: Path,
    limit_s: float = LIMIT_S,
    report: Report = ignore,
) -> Compiled:
    """Write the compiled model of a graph, or of one for each shape of its inputs, some kernels from the user's cache.

    Raises:
        ObstacleError: operators that nothing computes; the message names all.
        ModelError: the model has something else that is not supported.
        NoLinkerError: nothing is there to link with.
        ExportError: the file can't be written.
        CompilerDiedError: the compiler ended before it was done, or took longer than `limit_s`.

    Args:
        report: told how far it is, every `REPORT_EVERY_S` at least, in this process.
    """

    def compile_to(made: Path, tell: Report) -> dict[str, object]:
        from int8tune.compiler.compile import compile_models
        from int8tune.compiler.free_memory import give_back_at_once

        several = [graphs] if isinstance(graphs, Graph) else graphs
        # This process ends with the library.
        give_back_at_once()
        done = compile_models(several, target, schedules, made, tell, users_cache(), is_last_use=True)
        return {"about": done.about, "compiled": done.kernels.compiled, "reused": done.kernels.reused}

    with replaced(library) as made:
        answer = answer_apart(lambda tell: compile_to(made, tell), limit_s, report, {str(made): str(library)})
    compiled, reused = answer["compiled"], answer["reused"]
    assert isinstance(compiled, int)
    assert isinstance(reused, int)
    return Compiled(read_about(str(answer["about"])), KernelCounts(compiled, reused))


def kernel_apart(
    graph: Graph,
    inputs: Sequence[Array],
    target: Target,
    schedules: Chooser,
    folder: Path,
    limit_s: float = LIMIT_S,
    report: Report = ignore,
) -> Program:
    """Write a model as one kernel with one case, into a folder.

    Raises:
        ObstacleError, ModelError, NoLinkerError, CompilerDiedError: as `compile_apart`; or the model can't be compared
            bit for bit.

    Args:
        inputs, report: as `compiler.model_kernel.write_model_kernel` and `compile_apart` have them.
    """

    def write(tell: Report) -> dict[str, object]:
        from int8tune.compiler.model_kernel import write_model_kernel

        return {"program": asdict(write_model_kernel(graph, inputs, target, schedules, folder, tell, users_cache()))}

    return program_from_json("program", answer_apart(write, limit_s, report)["program"])


def answer_apart(
    work: Callable[[Report], dict[str, object]],
    limit_s: float,
    report: Report = ignore,
    names: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, object]:
    """The answer of a forked process. What it raised is raised here, with other names of files.

    Raises:
        CompilerDiedError: it ended before it was done, or took longer than `limit_s`.
    """
    answer = _ask_child(work, limit_s, report)
    if "error" in answer:
        text = str(answer["text"])
        for inner, outer in names.items():
            text = text.replace(inner, outer)
        raise _EXPECTED[str(answer["error"])](text)
    return answer


def _ask_child(work: Callable[[Report], dict[str, object]], limit_s: float, report: Report) -> dict[str, object]:
    """The answer of a forked process, which is gone at the end with everything it started."""
    ours, theirs = socket.socketpair()
    stderr, parent = os.memfd_create("stderr"), os.getpid()
    pid = os.fork()
    if pid == 0:
        _live(work, theirs, stderr, parent)
    theirs.close()
    try:
        return _answer_of(ours, time.monotonic() + limit_s, report)
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


def _answer_of(sock: socket.socket, deadline: float, report: Report) -> dict[str, object]:
    """The child's last message; those before say how far it is, which is reported again and again until the next."""
    state: tuple[str, int, int] = ("starting", 0, 1)
    while True:
        report(*state)
        until = min(deadline, time.monotonic() + REPORT_EVERY_S)
        if not framing.wait_readable([sock.fileno()], until) and until < deadline:
            continue
        message = framing.receive(sock, deadline)
        if "doing" not in message:
            return message
        done, total = message["done"], message["total"]
        assert isinstance(done, int)
        assert isinstance(total, int)
        state = str(message["doing"]), done, total


def _live(work: Callable[[Report], dict[str, object]], sock: socket.socket, stderr: int, parent: int) -> NoReturn:
    """The child's whole life: out of reach of the terminal's signals, and gone when its parent is."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        processes.signal_when_parent_ends(signal.SIGKILL)
        if os.getppid() == parent:
            os.dup2(stderr, 2)
            framing.send(sock, _answer(work, sock), time.monotonic() + SEND_LIMIT_S)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)


def _on_deep_stack(work: Callable[[], dict[str, object]]) -> dict[str, object]:
    """What it makes in a thread: TVM goes down a model's operators by recursion, thousands deep."""
    threading.stack_size(STACK_BYTES)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def _answer(work: Callable[[Report], dict[str, object]], sock: socket.socket) -> dict[str, object]:
    def tell(doing: str, done: int, total: int) -> None:
        message = {"doing": doing, "done": done, "total": total}
        framing.send(sock, message, time.monotonic() + SEND_LIMIT_S)

    try:
        return _on_deep_stack(lambda: work(tell))
    except tuple(_EXPECTED.values()) as error:
        named = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _EXPECTED)
        return {"error": named, "text": str(error)}
