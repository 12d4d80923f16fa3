"""A TCP proxy in front of a board's sshd that does to its connections what networks do."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

_LOOK_EVERY_S = 0.02
_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)


class FaultyLink:
    """Passes bytes on, both ways, unless it is told otherwise.

    Attributes:
        port: where it listens, on loopback.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(_LOOK_EVERY_S)
        self.port = int(self._server.getsockname()[1])
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._stalled_until_s = self._refuses_until_s = 0.0
        self._flips = False
        self._ended = False
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        for thread in list(self._threads):
            thread.join(5)
        self._server.close()

    def cut(self) -> None:
        """Reset all connections."""
        with self._lock:
            for pair in self._pairs:
                for sock in pair:
                    with contextlib.suppress(OSError):
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        sock.shutdown(socket.SHUT_RDWR)

    def stall(self, seconds: float) -> None:
        """Take nothing from either side for so long; nobody is told."""
        self._stalled_until_s = time.monotonic() + seconds

    def refuse(self, seconds: float) -> None:
        """Reset all connections, and those that come within so long."""
        self._refuses_until_s = time.monotonic() + seconds
        self.cut()

    def flip(self) -> None:
        """Change a bit of what passes next."""
        self._flips = True

    def _listen(self) -> None:
        while not self._ended:
            with contextlib.suppress(OSError):
                near, _ = self._server.accept()
                if time.monotonic() < self._refuses_until_s:
                    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._target_port), timeout=5)
                thread = threading.Thread(target=self._pass_on, args=((near, far),), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._pairs.add(pair)
        for sock in pair:
            sock.settimeout(5)
        other = dict(zip(pair, reversed(pair), strict=True))
        with contextlib.suppress(OSError):
            while not self._ended:
                if time.monotonic() < self._stalled_until_s:
                    time.sleep(_LOOK_EVERY_S)
                    continue
                for sock in select.select(pair, [], [], _LOOK_EVERY_S)[0]:
                    data = sock.recv(_CHUNK)
                    if not data:
                        raise ConnectionError
                    other[sock].sendall(self._flipped(data))
        with self._lock:
            self._pairs.discard(pair)
        for sock in pair:
            sock.close()

    def _flipped(self, data: bytes) -> bytes:
        if not self._flips:
            return data
        self._flips = False
        place = len(data) // 2
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
