"""A device behind a resident process of its own, so that nothing that it does can take the tuner down."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import int8tune
from int8tune.rpc.errors import DeviceLostError, DeviceStartError, ProtocolError
from int8tune.rpc.process import processes
from int8tune.rpc.process.limits import require_limits
from int8tune.rpc.protocol import VERSION, capabilities_from_json, reply_from_json, request_to_json
from int8tune.rpc.request import Capabilities, Reply, Request
from int8tune.rpc.wire import framing
from int8tune.rpc.wire.fields import Fields, integer, text

_END_LIMIT_S = 2.0
_LONGEST_TAIL = 2000
_KEPT_ENVIRONMENT = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TMPDIR", "TVM_LIBRARY_PATH")
_MARK = "INT8TUNE_SERVER"


class ResidentTransport(ABC):
    """A transport whose requests go to a process, which it starts, and kills where it is late.

    A server that was lost is started again by the next `run`.
    """

    def __init__(self, device: str, start_limit_s: float, grace_s: float) -> None:
        """`grace_s`: a server that has not replied so long after a request's own limit is taken for lost."""
        self._device = device
        self._start_limit_s = start_limit_s
        self._grace_s = grace_s
        self._server: ServerProcess | None = None
        self._serving: ServerProcess | None = None
        self._started = False

    @property
    def patience_s(self) -> float:
        """What a request may take beside its own limit, before and after it."""
        return 0.0

    @abstractmethod
    def new_server(self) -> ServerProcess:
        """Start the process."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> Capabilities:
        """Start the server, if it does not run.

        Raises:
            DeviceStartError: it ended or did not greet in time, or may not use the cores.
            MachineLimitError: this process may have too few files open, or addresses.
        """
        if self._server is None:
            require_limits()
            if sys.platform != "linux":
                raise DeviceStartError(f"{self._device} needs Linux: {sys.platform}")
            self._server = self._start(time.monotonic() + self._start_limit_s)
            self._started = True
        return self._server.capabilities

    def run(self, request: Request) -> Reply:
        """Verify and time the programs of one request.

        Raises:
            ProtocolError: a value of the request is out of its range, or the request is too long.
            DeviceLostError: the transport was not started, or was closed.
        """
        if not self._started:
            raise DeviceLostError(f"{self._device} is not started")
        called_at = time.monotonic()
        deadline = called_at + request.run_limit_s + self._grace_s + self.patience_s
        try:
            if self._server is None:
                self._server = self._start(min(deadline, called_at + self._start_limit_s))
            return self._exchange(self._server, request, deadline)
        except (DeviceStartError, DeviceLostError) as error:
            return Reply.lost(error, time.monotonic() - called_at)

    def cancel(self) -> None:
        """End the request that is under way as `DEVICE_LOST`, or the server's start, from any thread."""
        if server := self._serving:
            server.strike()

    def close(self) -> None:
        """End the server and everything it started.

        Raises:
            LeftoverError: a process could not be ended.
        """
        server, self._server, self._started = self._server, None, False
        if server:
            server.close()

    def _start(self, deadline: float) -> ServerProcess:
        try:
            server = self.new_server()
        except OSError as error:
            raise DeviceStartError(f"{self._device}'s server did not start: {error}") from error
        self._serving = server
        try:
            server.greet(deadline)
        except BaseException:
            server.kill()
            raise
        finally:
            self._serving = None
        return server

    def _exchange(self, server: ServerProcess, request: Request, deadline: float) -> Reply:
        """Whatever interrupts it, Ctrl-C too, costs the server: its late answer must not meet the next request."""
        self._server, self._serving = None, server
        try:
            reply = server.exchange(request, deadline)
        except ProtocolError:
            self._server = server
            raise
        except BaseException:
            server.kill()
            raise
        finally:
            self._serving = None
        self._server = server
        return reply


class ServerProcess:
    """A server process and the socket to it."""

    capabilities: Capabilities

    def __init__(
        self,
        device: str,
        module: str,
        options: Sequence[str] = (),
        threads: int = 1,
        introduction: Mapping[str, object] | None = None,
    ) -> None:
        """Start `module` with its options, and with the first message that it is sent, if there is one."""
        self._device = device
        self._mark = f"{_MARK}={secrets.token_hex(16)}"
        self._serial = 0
        self._introduction = introduction
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._sock, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    module,
                    "--fd",
                    str(theirs.fileno()),
                    "--parent",
                    str(os.getpid()),
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[theirs.fileno()],
                env=_environment(self._mark, threads),
                start_new_session=True,
            )

    def greet(self, deadline: float) -> None:
        """Wait until it is ready.

        Raises:
            DeviceStartError: it ended, greeted with nonsense, or was not ready at the deadline.
        """
        try:
            if self._introduction is not None:
                framing.send(self._sock, self._introduction, deadline)
            message = framing.receive(self._sock, deadline)
            if "failed" in message:
                raise _start_failure(message)
            hello = Fields("", message, ("version", "capabilities"))
            hello.read("version", integer(VERSION, VERSION))
            self.capabilities = hello.read("capabilities", lambda _, value: capabilities_from_json(value))
        except TimeoutError as error:
            raise DeviceStartError(f"{self._device}'s server was not ready in time") from error
        except DeviceLostError as error:
            raise DeviceStartError(f"{self._device}'s server did not start: {self._last_words()}") from error
        except ProtocolError as error:
            raise DeviceStartError(f"{self._device}'s server greeted with nonsense: {error}") from error

    def exchange(self, request: Request, deadline: float) -> Reply:
        """Send a request and wait for its reply.

        Raises:
            DeviceLostError: there was none before the deadline, or one that can't be understood.
            ProtocolError: the request was refused.
        """
        self._serial += 1
        envelope = {"serial": self._serial, "request": request_to_json(request)}
        with self._expected_to_live():
            framing.send(self._sock, envelope, deadline)
        try:
            with self._expected_to_live():
                answer = framing.receive(self._sock, deadline)
            kind = "refused" if "refused" in answer else "reply"
            fields = Fields("", answer, ("serial", kind))
            fields.read("serial", integer(self._serial, self._serial))
            if kind == "reply":
                return fields.read("reply", lambda _, value: reply_from_json(value, request))
            refusal = fields.read("refused", text)
        except ProtocolError as error:
            raise DeviceLostError(f"{self._device}'s server answered nonsense: {error}") from error
        raise ProtocolError(refusal)

    @contextlib.contextmanager
    def _expected_to_live(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise DeviceLostError(f"{self._device}'s server did not answer in time") from error
        except DeviceLostError as error:
            raise DeviceLostError(f"{self._device}'s server ended: {self._last_words()}") from error

    def close(self) -> None:
        """Let it end by itself, and kill it if it does not."""
        self._sock.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_LIMIT_S)
        self.kill()

    def strike(self) -> None:
        """Kill the server; whoever waits for its answer sees that it is gone, and clears up."""
        if self._process.returncode is None:
            processes.kill(self._process.pid)

    def kill(self) -> None:
        """Kill it and what its sessions started; children of a session die with it, the rest is known by its mark."""
        self._sock.close()
        if self._process.poll() is None:
            processes.kill(self._process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):  # it can be stuck in the kernel
                self._process.wait(_END_LIMIT_S)
        with self._stderr:
            processes.end_marked(self._mark, _END_LIMIT_S)

    def _last_words(self) -> str:
        """How it ended, and the last line it wrote."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_LIMIT_S)
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _LONGEST_TAIL))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return " ".join([processes.how_it_ended(self._process.returncode), *lines[-1:]])


def _start_failure(message: Mapping[str, object]) -> DeviceStartError:
    """What a server says that could not start."""
    failed = Fields("failed", message["failed"], ("kind", "error"))
    kinds = {kind.__name__: kind for kind in DeviceStartError.__subclasses__()}
    return kinds.get(failed.read("kind", text), DeviceStartError)(failed.read("error", text))


def _environment(mark: str, threads: int) -> dict[str, str]:
    """Little of this process's own environment: kernels must not read its secrets. Threads are for kernels alone."""
    package_root = str(Path(int8tune.__file__).parents[1])
    kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    path = os.pathsep.join(filter(None, [package_root, kept.get("PYTHONPATH")]))
    name, _, token = mark.partition("=")
    pools = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TVM_NUM_THREADS": str(threads)}
    # TVM would bind its threads to cores of its own choice, whatever this process may use.
    return kept | pools | {"TVM_BIND_THREADS": "0", "PYTHONPATH": path, name: token}
