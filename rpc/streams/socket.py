"""A TCP connection to an agent, as `rpc.agent.link.Stream`."""

from __future__ import annotations

import socket

from int8tune.rpc.wire import framing

_CHUNK = 1 << 18


class SocketStream:
    """A socket whose other side is an agent's."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, data: bytes, deadline: float) -> None:
        framing.send_bytes(self._sock, data, deadline)

    def receive(self, deadline: float) -> bytes:
        return framing.receive_some(self._sock, _CHUNK, deadline)

    def close(self) -> None:
        self._sock.close()

    def last_words(self) -> str:
        return ""
