"""A TVM tracker as one who wants a server sees it: which keys it knows, and a free server of a key.

Messages are four bytes of length and JSON (tvm/rpc/tracker.py of TVM 0.27). TVM's own client waits for ever where a
key has no server, a typo's key too; here every wait has a limit, and a key is looked up before it is asked for.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from int8tune.results.bounded_json import parse_json
from int8tune.rpc.errors import DeviceLostError, ProtocolError, TrackerError
from int8tune.rpc.wire import framing
from int8tune.rpc.wire.fields import integer, text
from int8tune.rpc.wire.foreign_text import one_line

_MAGIC = struct.pack("<i", 0x2F271)
_LENGTH = struct.Struct("<i")
_SUCCESS, _REQUEST, _SUMMARY = 0, 4, 6
_PRIORITY = 1
_LONGEST_ANSWER = 1 << 20
_MOST_SHOWN, _LONGEST_SHOWN = 20, 64
_HOST = re.compile(r"(?!-)[A-Za-z0-9._:\-]{1,253}")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that the tracker has handed out. It serves who shows the key of this match."""

    host: str
    port: int
    match: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Tracker:
    """A connection to a tracker."""

    def __init__(self, where: str, sock: socket.socket) -> None:
        self._where = where
        self._sock = sock

    @classmethod
    def connect(cls, address: str, port: int, deadline: float) -> Self:
        """Raises: TrackerError."""
        where = f"{address}:{port}"
        sock = connected(f"the tracker at {where}", address, port, deadline)
        tracker = cls(where, sock)
        try:
            framing.send_bytes(sock, _MAGIC, deadline)
            if framing.receive_bytes(sock, len(_MAGIC), deadline) != _MAGIC:
                raise TrackerError(f"what answers at {where} is no TVM tracker")
        except (DeviceLostError, TimeoutError) as error:
            sock.close()
            raise TrackerError(f"what listens at {where} does not answer as a TVM tracker: {error}") from error
        except BaseException:
            sock.close()
            raise
        return tracker

    def close(self) -> None:
        self._sock.close()

    def servers(self, deadline: float) -> Mapping[str, int]:
        """How many servers, free or not, each key has.

        Raises:
            TrackerError: it did not answer in time, or nonsense.
        """
        try:
            self._say([_SUMMARY], deadline)
            return _count(self._answer(deadline))
        except (DeviceLostError, TimeoutError) as error:
            raise TrackerError(f"the tracker at {self._where} does not say which servers it has: {error}") from error

    def require(self, key: str, deadline: float) -> int:
        """How many servers a key has: at least one.

        Raises:
            TrackerError: it has none, or the tracker did not answer.
        """
        servers = self.servers(deadline)
        if not servers.get(key):
            known = ", ".join(f"`{one_line(name, _LONGEST_SHOWN)}`" for name in sorted(servers)[:_MOST_SHOWN]) or "none"
            raise TrackerError(f"the tracker at {self._where} has no server with key `{key}`, its keys: {known}")
        return servers[key]

    def request(self, key: str, deadline: float) -> Server:
        """The next server of a key that is free.

        Raises:
            TrackerError: the tracker is gone, or answers nonsense.
            TimeoutError: there was none before the deadline.
        """
        try:
            self._say([_REQUEST, key, "", _PRIORITY], deadline)
            return _server(self._answer(deadline))
        except DeviceLostError as error:
            raise TrackerError(f"the tracker at {self._where} hands out no server: {error}") from error

    def _say(self, message: list[object], deadline: float) -> None:
        body = json.dumps(message).encode()
        framing.send_bytes(self._sock, _LENGTH.pack(len(body)) + body, deadline)

    def _answer(self, deadline: float) -> object:
        """What came with the word that all is well."""
        (length,) = _LENGTH.unpack(framing.receive_bytes(self._sock, _LENGTH.size, deadline))
        if not 0 < length <= _LONGEST_ANSWER:
            raise TrackerError(f"the tracker at {self._where} answers nonsense: {length} bytes")
        body = framing.receive_bytes(self._sock, length, deadline)
        try:
            match parse_json(body):
                case [int(code), answer] if code == _SUCCESS:
                    return answer
        except ValueError:
            pass
        raise TrackerError(f"the tracker at {self._where} answers nonsense: {one_line(repr(body), _LONGEST_SHOWN)}")


def connected(what: str, host: str, port: int, deadline: float) -> socket.socket:
    """A connection to somebody.

    Raises:
        TrackerError: nobody answers there.
    """
    try:
        sock = socket.create_connection((host, port), timeout=max(0.1, deadline - time.monotonic()))
    except OSError as error:
        why = "it did not answer in time" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()
        raise TrackerError(f"{what} can't be reached: {why}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _count(summary: object) -> Mapping[str, int]:
    match summary:
        case {"server_info": list(servers)}:
            keys = [server.get("key") for server in servers if isinstance(server, dict)]
            # A server calls itself `server:KEY`.
            return Counter(key.partition(":")[2] for key in keys if isinstance(key, str))
    raise TrackerError("the tracker answers nonsense: a summary without servers")


def _server(handed_out: object) -> Server:
    try:
        match handed_out:
            case [str(host), port, match_key] if _HOST.fullmatch(host):
                return Server(host, integer(1, 65_535)("port", port), text("key", match_key))
    except ProtocolError as error:
        raise TrackerError(f"the tracker answers nonsense: {error}") from error
    raise TrackerError(f"the tracker answers nonsense: {one_line(repr(handed_out), _LONGEST_SHOWN)}")
