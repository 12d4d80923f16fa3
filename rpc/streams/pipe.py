"""An agent on this machine, started without SSH, as `rpc.agent.link.Stream`."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO

from int8tune.rpc.errors import DeviceLostError, DeviceStartError
from int8tune.rpc.process import processes
from int8tune.rpc.wire import framing
from int8tune.rpc.wire.foreign_text import last_line

_CHUNK = 1 << 16
_END_LIMIT_S = 2.0
_LONGEST_TAIL = 300


class PipeStream:
    """A process and the socket that is its standard input and output."""

    def __init__(self, command: Sequence[str]) -> None:
        """Raises: DeviceStartError."""
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._sock, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=self._stderr, start_new_session=True
                )
            except OSError as error:
                raise DeviceStartError(f"an agent can't be started: {command[0]}: {error.strerror}") from error

    def send(self, data: bytes, deadline: float) -> None:
        framing.send_bytes(self._sock, data, deadline)

    def receive(self, deadline: float) -> bytes:
        if not framing.wait_readable([self._sock.fileno()], deadline):
            raise TimeoutError
        try:
            data = self._sock.recv(_CHUNK)
        except OSError as error:
            raise framing.lost(error) from error
        if not data:
            raise DeviceLostError("the board's agent ended")
        return data

    def close(self) -> None:
        """Let it end by itself, as it does where its host is gone, and kill it if it does not."""
        self._sock.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_LIMIT_S)
        if self._process.poll() is None:
            processes.kill(self._process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_LIMIT_S)
        self._stderr.close()

    def last_words(self) -> str:
        return last_line(processes.tail(self._stderr.fileno(), _LONGEST_TAIL), _LONGEST_TAIL)
