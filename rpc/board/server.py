"""The process that speaks with one board: `python -m int8tune.rpc.board.server`, started by a transport.

It holds the connection and the board's answers; if either misbehaves, it is killed, and nobody else has waited. It
loads no TVM, runs no kernel and opens no port.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import time

from int8tune.rpc.board.agent_route import AgentRoute, route_from_json
from int8tune.rpc.board.capabilities import boot_of, capabilities_of
from int8tune.rpc.board.cases import BoardCases
from int8tune.rpc.board.connection import connect
from int8tune.rpc.board.session import BoardBench, measure_on_board
from int8tune.rpc.errors import DeviceLostError, DeviceStartError
from int8tune.rpc.local.server import answer_request, guard_against_orphanhood
from int8tune.rpc.process import processes
from int8tune.rpc.protocol import VERSION, capabilities_to_json
from int8tune.rpc.request import Capabilities, Reply, Request
from int8tune.rpc.wire import framing
from int8tune.rpc.wire.fields import Fields

_SEND_LIMIT_S = 10.0
# The agent leaves where the host is silent for 20 s.
_PING_EVERY_S = 5.0
_END_LIMIT_S = 3.0
# A server that a tracker has handed out is others' again where nothing has been asked of it for so long.
_GIVE_BACK_AFTER_S = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Speak with a board for the process that started this one.")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    guard_against_orphanhood(options.parent)
    processes.adopt_orphans()
    sock = socket.socket(fileno=options.fd)
    server = None
    try:
        with contextlib.suppress(DeviceLostError):
            message = Fields("", framing.receive(sock, time.monotonic() + _SEND_LIMIT_S), ("route",))
            server = BoardServer(message.read("route", route_from_json), sock)
            server.serve()
    finally:
        if server is not None:
            server.close()
        processes.end_children(_END_LIMIT_S)


class BoardServer:
    """Answers requests until the other side closes the connection. A link that broke is made anew by the next one."""

    def __init__(self, route: AgentRoute, sock: socket.socket) -> None:
        self._route = route
        self._sock = sock
        self._cases = BoardCases()
        self._bench: BoardBench | None = None
        self._capabilities: Capabilities | None = None

    def serve(self) -> None:
        """Greet, then answer requests.

        Raises:
            DeviceLostError: the other side closed the connection.
        """
        try:
            self._connect()
        except DeviceStartError as error:
            self._send({"failed": {"kind": type(error).__name__, "error": str(error)}})
            return
        assert self._capabilities is not None
        self._send({"version": VERSION, "capabilities": capabilities_to_json(self._capabilities)})
        while True:
            self._wait_for_request()
            answer_request(self._sock, self._measure)

    def close(self) -> None:
        if self._bench is not None:
            self._bench.link.close()
            self._bench = None

    def _send(self, message: dict[str, object]) -> None:
        framing.send(self._sock, message, time.monotonic() + _SEND_LIMIT_S)

    def _wait_for_request(self) -> None:
        idle_since = time.monotonic()
        while not framing.wait_readable([self._sock.fileno()], time.monotonic() + _PING_EVERY_S):
            if self._route.files and time.monotonic() > idle_since + _GIVE_BACK_AFTER_S:
                self.close()
            if self._bench is not None:
                try:
                    self._bench.link.ping(time.monotonic() + _PING_EVERY_S)
                except DeviceLostError:
                    self.close()

    def _measure(self, request: Request, arrived_at: float) -> Reply:
        try:
            bench = self._connect()
            return measure_on_board(request, bench, arrived_at)
        except (DeviceLostError, DeviceStartError) as error:
            self.close()
            return Reply.lost(error, time.monotonic() - arrived_at)

    def _connect(self) -> BoardBench:
        """The link to the agent, made if there is none."""
        if self._bench is None:
            link, about = connect(self._route, time.monotonic() + self._route.reach_limit_s)
            self._bench = BoardBench(link, self._cases, self._route.board.limits.transfer_s, boot_of(about))
            self._know(capabilities_of(self._route.board, about))
        return self._bench

    def _know(self, found: Capabilities) -> None:
        """A tracker may hand out another board each time: kernels are built for the first one."""
        known = self._capabilities or found
        if (found.cpu, found.features) != (known.cpu, known.features):
            raise DeviceStartError(
                f"`{self._route.board.name}` is another CPU than before: {found.cpu}, not {known.cpu}"
            )
        self._capabilities = known


if __name__ == "__main__":
    main()
