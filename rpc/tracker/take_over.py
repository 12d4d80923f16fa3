"""A stock TVM RPC server's session, taken over by an agent that is sent to it.

A stock server has no limits: a kernel that crashes there ends its service for good. So nothing runs in its session but
a library that puts the agent of boards that are reached by SSH in that session's place, on the same connection.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from int8tune.rpc.errors import DeviceLostError, ProtocolError, TrackerError
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.streams.socket import SocketStream
from int8tune.rpc.tracker.client import Server, Tracker, connected
from int8tune.rpc.wire import framing
from int8tune.rpc.wire.foreign_text import last_line
from int8tune.rpc.wire.tvm_packets import Answers, Argument, RemoteFailure, Result, begin_session, call, find_function

LIBRARY = "take_over.so"
"""The one of the files that are sent which is loaded there."""

_ORDER = "order"
_SERVER_ENVIRONMENT = "tvm.rpc.server."
_TAKE_OVER = "int8tune.take_over"
_MAGIC = 0xFF271
_NO_MATCH = _MAGIC + 2
_CODE = struct.Struct("<i")
_LONGEST_KEY = 1024
_CHUNK = 1 << 18
# A server that is free answers at once; one that does not is frozen, or its link is gone, and another is asked for.
_HANDSHAKE_S = 4.0
_LEAVE_S = 2.0
_LONGEST_SHOWN = 200


def agent_by_tracker(board: Board, files: Path, deadline: float) -> SocketStream:
    """An agent on a server that the tracker hands out within the board's limit to connect.

    Args:
        files: the folder of what is sent.

    Raises:
        TrackerError: there is no tracker, no server of the key is free, or the server does not do what servers do.
    """
    sock, server = _free_server(board, min(deadline, time.monotonic() + board.limits.connect_s))
    session = _ServerSession(f"the server {server} of key `{board.tracker_key}`", sock, deadline)
    try:
        session.take_over({path.name: path.read_bytes() for path in sorted(files.iterdir())})
    except BaseException:
        _leave(sock)
        raise
    return SocketStream(sock)


def _leave(sock: socket.socket) -> None:
    """Close a connection when the other side has. One that is reset ends a stock server's service for good."""
    deadline = time.monotonic() + _LEAVE_S
    with sock, contextlib.suppress(OSError, DeviceLostError):  # a TimeoutError is an OSError
        sock.shutdown(socket.SHUT_WR)
        while True:
            framing.receive_some(sock, _CHUNK, deadline)


def _free_server(board: Board, deadline: float) -> tuple[socket.socket, Server]:
    """A connection to a server of the board's key that has greeted."""
    key, last = board.tracker_key, ""
    while True:
        with contextlib.closing(Tracker.connect(board.address, board.port, deadline)) as tracker:
            servers = tracker.require(key, deadline)
            try:
                server = tracker.request(key, deadline)
            except TimeoutError as error:
                raise TrackerError(
                    f"no server with key `{key}` was free within {board.limits.connect_s:g} s, of {servers} that the "
                    f"tracker at {board.address}:{board.port} has{last}"
                ) from error
        try:
            return _greeted(server, min(deadline, time.monotonic() + _HANDSHAKE_S)), server
        except TrackerError as error:
            last = f"; of one that was, {error}"
            if time.monotonic() >= deadline:
                raise


def _greeted(server: Server, deadline: float) -> socket.socket:
    what = f"the server at {server}"
    sock = connected(what, server.host, server.port, deadline)
    try:
        key = f"client:{server.match}".encode()
        framing.send_bytes(sock, _CODE.pack(_MAGIC) + _CODE.pack(len(key)) + key, deadline)
        (code,) = _CODE.unpack(framing.receive_bytes(sock, _CODE.size, deadline))
        if code != _MAGIC:
            why = "no longer waits for this host" if code == _NO_MATCH else "is no TVM RPC server"
            raise TrackerError(f"{what} {why}")
        (length,) = _CODE.unpack(framing.receive_bytes(sock, _CODE.size, deadline))
        if not 0 <= length <= _LONGEST_KEY:
            raise TrackerError(f"{what} is no TVM RPC server: a key of {length} bytes")
        framing.receive_bytes(sock, length, deadline)
    except (DeviceLostError, TimeoutError) as error:
        sock.close()
        raise TrackerError(f"{what} does not answer: {error}") from error
    except BaseException:
        sock.close()
        raise
    return sock


class _ServerSession:
    """TVM's session protocol with a server, until the connection is the agent's."""

    def __init__(self, name: str, sock: socket.socket, deadline: float) -> None:
        self._name = name
        self._sock = sock
        self._deadline = deadline
        self._answers = Answers()

    def take_over(self, files: Mapping[str, bytes]) -> None:
        """Raises: TrackerError."""
        self._ask("begin a session", begin_session())
        upload = self._function(f"{_SERVER_ENVIRONMENT}upload")
        sign = secrets.token_hex(32).encode()
        order = sign + "".join(f"\n{hashlib.sha256(files[name]).hexdigest()} {name}" for name in files).encode()
        for name, content in {**files, _ORDER: order}.items():
            self._call(f"take the file `{name}`", upload, name, content)
        # The library looks at the other files, before that this host looks at it.
        if self._call("show a file", self._function(f"{_SERVER_ENVIRONMENT}download"), LIBRARY) != files[LIBRARY]:
            raise TrackerError(f"{self._name} has another file than was sent: is its disk full?")
        load = self._function(f"{_SERVER_ENVIRONMENT}load_module")
        self._call("load a library, is the board's `architecture` right?", load, LIBRARY)
        self._hand_over(self._function(_TAKE_OVER), sign)

    def _hand_over(self, function: int, sign: bytes) -> None:
        self._send(call(function) + sign)
        answer = b""
        while len(answer) < len(sign) and sign.startswith(answer):  # what follows the sign is the agent's
            answer += self._receive(len(sign) - len(answer))
        if answer != sign:
            self._answers.feed(answer)
            said = self._answer("hand its session over")
            words = said.decode(errors="replace") if isinstance(said, bytes) else "it answers nonsense"
            raise self._refused("hand its session over", words)

    def _function(self, name: str) -> int:
        handle = self._ask(f"find `{name}`", find_function(name))
        if not isinstance(handle, int) or not handle:
            raise self._refused(f"find `{name}`", "it has no such function")
        return handle

    def _call(self, what: str, function: int, *arguments: Argument) -> Result:
        return self._ask(what, call(function, *arguments))

    def _ask(self, what: str, packet: bytes) -> Result:
        self._send(packet)
        return self._answer(what)

    def _answer(self, what: str) -> Result:
        try:
            while (answer := self._answers.next()) is ...:
                self._answers.feed(self._receive())
        except ProtocolError as error:
            raise self._refused(what, str(error)) from error
        if isinstance(answer, RemoteFailure):
            raise self._refused(what, answer.text)
        return answer

    def _send(self, data: bytes) -> None:
        with self._answering():
            framing.send_bytes(self._sock, data, self._deadline)

    def _receive(self, most: int = _CHUNK) -> bytes:
        with self._answering():
            return framing.receive_some(self._sock, most, self._deadline)

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (DeviceLostError, TimeoutError) as error:
            raise TrackerError(f"{self._name} does not answer: {error}") from error

    def _refused(self, what: str, why: str) -> TrackerError:
        words = last_line(why, len(why)) or "no message"
        if len(words) > _LONGEST_SHOWN:  # what matters comes last
            words = f"... {words[-_LONGEST_SHOWN:].partition(' ')[2]}"
        return TrackerError(f"{self._name} does not {what}: {words}")
