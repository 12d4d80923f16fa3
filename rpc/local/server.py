"""The resident process that measures kernels: `python -m int8tune.rpc.local.server`, started by a transport.

It loads the TVM runtime once, and forks a child for each request. It speaks over an inherited socket and opens no port.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from types import FrameType

from int8tune.rpc.errors import DeviceLostError, ProtocolError
from int8tune.rpc.process import processes
from int8tune.rpc.protocol import VERSION, capabilities_to_json, reply_to_json, request_from_json
from int8tune.rpc.request import Reply, Request
from int8tune.rpc.wire import framing
from int8tune.rpc.wire.fields import Fields, integer

_IDLE_CHECK_S = 60.0
_SEND_LIMIT_S = 10.0
_END_LIMIT_S = 3.0


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What a server is started with.

    Attributes:
        fd: the inherited socket.
        parent: the process that started this one; when it ends, so does this one.
        core: the cores that this process and its children may use; None for all.
        memory_limit_bytes: what a session may use on top of what the server does.
    """

    fd: int
    parent: int
    core: list[int] | None
    memory_limit_bytes: int


def main() -> None:
    options = _parse()
    guard_against_orphanhood(options.parent)
    if options.core is not None:
        _bind(options.core)
    processes.adopt_orphans()
    sock = socket.socket(fileno=options.fd)
    try:
        with contextlib.suppress(DeviceLostError):
            _serve(sock, options)
    finally:
        processes.end_children(_END_LIMIT_S)


def _parse() -> Options:
    parser = argparse.ArgumentParser(description="Measure kernels for the process that started this one.")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--core", type=int, action="append")
    parser.add_argument("--memory-limit-bytes", type=int, required=True)
    return Options(**vars(parser.parse_args()))


def _bind(cores: Sequence[int]) -> None:
    try:
        for core in cores:  # a set of cores is taken if one of them exists
            os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise SystemExit(f"core can't be used here: {core}") from error


def _serve(sock: socket.socket, options: Options) -> None:
    """Greet, then answer requests until the other side closes the connection."""
    # TVM takes a while to load: only after the signals and the core are set, and once for all children.
    from int8tune.rpc.local.capabilities import read_capabilities
    from int8tune.rpc.local.session import Bench, measure

    bench = Bench(sock.fileno(), options.core[0] if options.core else None, options.memory_limit_bytes)
    hello = {"version": VERSION, "capabilities": capabilities_to_json(read_capabilities())}
    gc.collect()
    gc.freeze()  # children share what they do not touch, and a collection touches everything
    framing.send(sock, hello, time.monotonic() + _SEND_LIMIT_S)
    while True:
        _wait_for_request(sock, options.parent)
        answer_request(sock, lambda request, arrived_at: measure(request, bench, arrived_at))


def answer_request(sock: socket.socket, measure: Callable[[Request, float], Reply]) -> None:
    """Receive a request, which `measure` gets with the time of its arrival, and send its reply.

    Raises:
        DeviceLostError: the other side closed the connection.
    """
    arrived_at = time.monotonic()
    envelope = Fields("", framing.receive(sock, arrived_at + _SEND_LIMIT_S), ("serial", "request"))
    answer: dict[str, object] = {"serial": envelope.read("serial", integer(0, 1 << 62))}
    try:
        request = envelope.read("request", lambda _, value: request_from_json(value))
        answer |= {"reply": reply_to_json(measure(request, arrived_at))}
    except ProtocolError as error:
        answer |= {"refused": str(error)}
    framing.send(sock, answer, time.monotonic() + _SEND_LIMIT_S)


def _wait_for_request(sock: socket.socket, parent: int) -> None:
    while not framing.wait_readable([sock.fileno()], time.monotonic() + _IDLE_CHECK_S):
        if os.getppid() != parent:
            raise DeviceLostError("the process that started this one ended")


def guard_against_orphanhood(parent: int) -> None:
    """End when the parent ends, even where others hold the socket open.

    The signal is SIGCONT, so that it reaches a stopped server too; it also comes when only a thread of the parent ends.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    def end_if_orphan(_number: int, _frame: FrameType | None) -> None:
        if os.getppid() != parent:
            raise SystemExit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGCONT, end_if_orphan)
    processes.signal_when_parent_ends(signal.SIGCONT)
    if os.getppid() != parent:
        raise SystemExit(0)


if __name__ == "__main__":
    main()
