"""A board's sshd, spoken with by paramiko: one known host key, one key of the user, a limit on every wait.

Nothing is ever asked of a person, no agent and no other key is tried, and nobody's configuration is read.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from int8tune.rpc.errors import DeviceLostError, HostKeyError, LateError, LoginError, NoSshError, UnreachableError
from int8tune.rpc.inventory.boards import Board, is_public_key, public_key_blob
from int8tune.rpc.wire.foreign_text import last_line, one_line

if TYPE_CHECKING:
    import paramiko

_CHUNK = 1 << 16
_LOOK_EVERY_S = 0.002
_LONGEST_OUTPUT = 1 << 20
_LONGEST_WORDS = 300
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
# Where paramiko counts what is left of a limit by the time of day, which may be set meanwhile.
_CLOCKED = ("auth_handler", "buffered_pipe", "channel", "packet", "transport")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command on a board ended."""

    status: int
    out: str
    errors: str


class SshConnection:
    """A connection to a board, logged in. Whatever waits longer than its limit closes it."""

    def __init__(self, board: Board, transport: paramiko.Transport) -> None:
        self._board = board
        self._transport = transport

    @classmethod
    def open(cls, board: Board, deadline: float) -> SshConnection:
        """Connect and log in.

        Raises:
            HostKeyError: the host key is not the known one.
            LoginError: the board does not take the user's key, or the key can't be used.
            UnreachableError: nobody answers there, or no sshd does.
            NoSshError: paramiko is not installed.
        """
        transport = _handshake(board, known_keys(board), deadline)
        try:
            _log_in(board, transport, deadline)
        except BaseException:
            transport.close()
            raise
        return cls(board, transport)

    def start(self, command: str, deadline: float) -> SshStream:
        """Run a command and give its streams.

        Raises:
            DeviceLostError: the board did not let it, or was silent.
        """
        return SshStream(self._channel(command, deadline), self)

    def run(self, command: str, deadline: float, given: bytes = b"") -> Ended:
        """Run a command to its end.

        Raises:
            LateError: it took too long.
            DeviceLostError: the connection broke.
        """
        began = time.monotonic()
        out, errors, rest = bytearray(), bytearray(), memoryview(given)
        with self._limited(deadline):
            channel = self._channel(command, deadline)
            channel.setblocking(False)
            while not channel.exit_status_ready() and not channel.closed and time.monotonic() < deadline:
                # What it is given may be more than anybody buffers: what it says must be read meanwhile.
                _drain(channel, out, errors)
                try:
                    if rest and channel.send_ready():
                        rest = rest[channel.send(rest[:_CHUNK]) :]
                    else:
                        time.sleep(_LOOK_EVERY_S)
                    if not rest and not channel.eof_sent:
                        channel.shutdown_write()
                except OSError:  # it was closed meanwhile
                    break
            _drain(channel, out, errors)
            # Whoever is first ends the wait: this loop, or the limit, which closes the connection.
            # A closed channel counts as ready, with -1.
            if channel.exit_status < 0 and time.monotonic() >= deadline:
                raise self._late(deadline - began)
            status = channel.exit_status if channel.exit_status_ready() else -1
            channel.close()
        return Ended(status, out.decode(errors="replace"), errors.decode(errors="replace"))

    def close(self) -> None:
        self._transport.close()

    def _late(self, limit_s: float) -> LateError:
        what = f"it lets `{self._board.user}` in, and a command there took over {limit_s:.3g} s"
        return LateError(f"`{self._board.name}` did not answer in time: {what}")

    def _channel(self, command: str, deadline: float) -> paramiko.Channel:
        import paramiko

        began = time.monotonic()
        with self._limited(deadline):
            try:
                channel = self._transport.open_session(timeout=max(0.1, deadline - time.monotonic()))
                channel.exec_command(command)
            except (paramiko.SSHException, EOFError, OSError) as error:
                if time.monotonic() >= deadline:
                    raise self._late(deadline - began) from error
                raise DeviceLostError(f"`{self._board.name}` ran no command: {_words(error)}") from error
        return channel

    @contextlib.contextmanager
    def _limited(self, deadline: float) -> Iterator[None]:
        """Some of paramiko's waits have no limit of their own; all of them end when the connection is closed."""
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._transport.close)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class SshStream:
    """The streams of a command, as `rpc.agent.link.Stream`."""

    def __init__(self, channel: paramiko.Channel, connection: SshConnection) -> None:
        self._channel = channel
        self._connection = connection

    def send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            self._limit(deadline)
            try:
                sent = self._channel.send(rest)
            except TimeoutError:
                raise
            except OSError as error:
                raise DeviceLostError(f"the connection broke: {_words(error)}") from error
            if sent == 0:
                raise DeviceLostError("the board's agent ended")
            rest = rest[sent:]

    def receive(self, deadline: float) -> bytes:
        self._limit(deadline)
        try:
            data = bytes(self._channel.recv(_CHUNK))
        except TimeoutError:
            raise
        except OSError as error:
            raise DeviceLostError(f"the connection broke: {_words(error)}") from error
        if not data:
            raise DeviceLostError("the board's agent ended")
        return data

    def close(self) -> None:
        self._connection.close()

    def last_words(self) -> str:
        if not self._channel.recv_stderr_ready():
            return ""
        return last_line(self._channel.recv_stderr(_CHUNK).decode(errors="replace"), _LONGEST_WORDS)

    def _limit(self, deadline: float) -> None:
        self._channel.settimeout(max(0.001, deadline - time.monotonic()))


def known_keys(board: Board) -> dict[str, bytes]:
    """The board's host keys by their kinds, from the inventory or the file that it names.

    Raises:
        HostKeyError: the file has no key of this board.
    """
    if is_public_key(board.host_key):
        return {board.host_key.partition(" ")[0]: public_key_blob(board.host_key) or b""}
    import paramiko

    name = board.address if board.port == 22 else f"[{board.address}]:{board.port}"
    try:
        entries = paramiko.HostKeys(board.host_key).lookup(name)
    except OSError as error:
        raise HostKeyError(f"the known host keys can't be read: {board.host_key}: {error.strerror}") from error
    if not entries:
        raise HostKeyError(f"no host key of `{name}` is known: {board.host_key}")
    return {str(kind): bytes(entries[kind].asbytes()) for kind in entries}


def shown_key_with(board: Board, wanted: str) -> str:
    """The host key that a board shows, as a line of text, if it has this fingerprint; nobody logs in.

    Raises:
        HostKeyError: it has another one.
        UnreachableError: nobody answers there, or no sshd does.
    """
    transport = _handshake(board, None, time.monotonic() + board.limits.connect_s)
    try:
        key = transport.get_remote_server_key()
    finally:
        transport.close()
    if (shown := fingerprint(key.asbytes())) != wanted:
        raise HostKeyError(f"`{board.name}` shows a host key with another fingerprint than {wanted[:80]}: {shown}")
    return f"{key.get_name()} {base64.b64encode(key.asbytes()).decode()}"


def fingerprint(blob: bytes) -> str:
    """As OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _handshake(board: Board, known: dict[str, bytes] | None, deadline: float) -> paramiko.Transport:
    """A transport to the board that has shown the known key; to any if None."""
    paramiko = _paramiko()
    place = f"`{board.name}` ({board.address}:{board.port})"
    left_s = max(0.1, deadline - time.monotonic())
    try:
        sock = socket.create_connection((board.address, board.port), timeout=left_s)
    except OSError as error:
        raise UnreachableError(f"{place} can't be reached: {_words(error)}") from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = paramiko.Transport(sock)
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = left_s
        if known:
            options = transport.get_security_options()
            kinds = [other for kind in known for other in (_RSA_SIGNATURES if kind == "ssh-rsa" else (kind,))]
            options.key_types = tuple(kind for kind in kinds if kind in options.key_types) or options.key_types
        transport.start_client(timeout=left_s)
        if not transport.initial_kex_done:  # it gives up without a word
            transport.close()
            raise TimeoutError(f"silent for {left_s:.3g} s")
    except (paramiko.SSHException, EOFError, OSError) as error:
        sock.close()
        raise UnreachableError(f"{place} does not speak SSH as it should: {_words(error)}") from error
    shown = transport.get_remote_server_key()
    if known is not None and known.get(shown.get_name()) != shown.asbytes():
        transport.close()
        wanted = ", ".join(fingerprint(blob) for blob in known.values())
        seen = fingerprint(shown.asbytes())
        raise HostKeyError(
            f"{place} shows another host key than the known one, known: {wanted}, shown: {seen}; "
            f"if you know why, accept it: int8tune devices trust {board.name} {seen}"
        )
    return transport


def public_key_of(board: Board) -> str:
    """The public half of the user's key, as a line of text.

    Raises:
        LoginError: the key can't be used.
    """
    key = _user_key(board)
    return f"{key.get_name()} {key.get_base64()}"


def _log_in(board: Board, transport: paramiko.Transport, deadline: float) -> None:
    paramiko = _paramiko()
    key = _user_key(board)
    transport.auth_timeout = max(0.1, deadline - time.monotonic())
    where = f"{board.user}@{board.address}:{board.port}"
    try:
        transport.auth_publickey(board.user, key)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise LoginError(f"{where} does not take the key {board.key_file}: {_words(error)}") from error
    if not transport.is_authenticated():
        raise LoginError(f"{where} wants more than the key {board.key_file}")


def _user_key(board: Board) -> Any:
    paramiko = _paramiko()
    try:
        return paramiko.PKey.from_path(board.key_file)
    except (paramiko.SSHException, paramiko.UnknownKeyType, OSError, ValueError, TypeError) as error:
        # That a key has a passphrase is told by several libraries, each in its own way.
        if isinstance(error, paramiko.PasswordRequiredException) or "assword" in str(error):
            raise LoginError(f"the key has a passphrase, and nobody is asked for it: {board.key_file}") from error
        raise LoginError(f"not a private key: {board.key_file}") from error


def _paramiko() -> Any:
    try:
        import paramiko
    except ImportError as error:
        raise NoSshError("paramiko is not installed, boards are reached by it") from error
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    for name in _CLOCKED:
        importlib.import_module(f"paramiko.{name}").time = _MONOTONIC  # type: ignore[attr-defined]
    return paramiko


class _MonotonicTime:
    """The module `time`, with a clock that nobody sets."""

    def time(self) -> float:
        return time.monotonic()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


_MONOTONIC = _MonotonicTime()


def _drain(channel: paramiko.Channel, out: bytearray, errors: bytearray) -> None:
    while channel.recv_ready():
        out += channel.recv(_CHUNK)
    while channel.recv_stderr_ready():
        errors += channel.recv_stderr(_CHUNK)
    del out[_LONGEST_OUTPUT:], errors[_LONGEST_OUTPUT:]


def _words(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return one_line(str(text), _LONGEST_WORDS).rstrip(".")
