"""TVM's session protocol as the host speaks it: with the real server of TVM's runtime, and with nonsense."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

import pytest

from int8tune.rpc.errors import ProtocolError
from int8tune.rpc.wire.tvm_packets import Answers, RemoteFailure, Result, begin_session, call, find_function

ECHO = "tests.rpc_tvm_packets.echo"


@pytest.fixture(scope="module")
def server() -> Iterator[socket.socket]:
    """One session of TVM's own server, in a process of its own."""
    from tvm import register_global_func
    from tvm.rpc import _ffi_api

    @register_global_func(ECHO)
    def echo(*arguments: object) -> bytes:
        if not arguments:
            raise ValueError("nothing to say")
        return repr(arguments).encode()

    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _ffi_api.ServerLoop(theirs.detach())
        finally:
            os._exit(0)
    theirs.close()
    ours.settimeout(20)
    yield ours
    ours.close()
    os.waitpid(pid, 0)


def ask(sock: socket.socket, *packets: bytes) -> list[Result | RemoteFailure]:
    sock.sendall(b"".join(packets))
    answers, found = Answers(), []
    while len(found) < len(packets):
        while (answer := answers.next()) is ...:
            answers.feed(sock.recv(7))
        found.append(answer)
    return found


def test_functions_are_found_and_called(server: socket.socket) -> None:
    begun, handle, nothing = ask(server, begin_session(), find_function(ECHO), find_function("no.such.function"))
    assert begun is None
    assert isinstance(handle, int)
    assert nothing in (None, 0)
    echoed, failed, again = ask(
        server, call(handle, -3, 0.5, "text", b"\0bytes"), call(handle), call(handle, "after a failure" * 1000)
    )
    assert isinstance(echoed, bytes)
    assert echoed.startswith(b"(-3, 0.5, 'text', ")
    assert isinstance(failed, RemoteFailure)
    assert "nothing to say" in failed.text
    assert again == repr(("after a failure" * 1000,)).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack("<Q", 0) + b"\0" * 8, "must have 8 to"),
        (struct.pack("<Q", 1 << 62), "must have 8 to"),
        (struct.pack("<Qii", 8, 3, 0), "must be a result or a failure: code 3"),
        (struct.pack("<Qii", 8, 4, 17), "at most 16 values: 17"),
        (struct.pack("<Qii", 8, 4, -1), "at most 16 values: -1"),
        (struct.pack("<Qii", 8, 4, 1), "ends 4 bytes too early"),
        (struct.pack("<Qiii", 12, 4, 1, 70), "unknown type: 70"),
        (struct.pack("<QiiiQ", 20, 4, 1, 9, 1 << 60), "too early"),
    ],
    ids=str,
)
def test_nonsense_is_refused(data: bytes, words: str) -> None:
    answers = Answers()
    answers.feed(data)
    with pytest.raises(ProtocolError, match=words):
        answers.next()


def test_answers_come_in_pieces() -> None:
    whole = struct.pack("<Qiiiq", 20, 4, 1, 1, -7)
    answers = Answers()
    for place in range(len(whole)):
        assert answers.next() is ...
        answers.feed(whole[place : place + 1])
    assert answers.next() == -7
    assert answers.next() is ...
