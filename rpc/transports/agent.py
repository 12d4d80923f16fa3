"""Boards behind an agent as devices: over SSH, or by other ways to an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from int8tune.rpc.board.agent_route import AgentRoute, route_to_json
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.session.resident import ResidentTransport, ServerProcess

# What a request takes beyond its own limit where its link holds: to be sent, and to be ended on both sides.
_GRACE_S = 4.0


class AgentTransport(ResidentTransport):
    """Runs kernels on a board, with a process of this machine that speaks with the board and with nobody else.

    What a request may take is its own limit and, where they are needed, those to connect and to send its cases.
    """

    def __init__(self, board: Board, command: Sequence[str] = (), files: Path | None = None) -> None:
        """`command`: starts the agent on this machine, without SSH. `files`: as `AgentRoute` has them."""
        self.route = AgentRoute(board, tuple(command), files)
        super().__init__(f"board `{board.name}`", self.route.reach_limit_s + _GRACE_S, _GRACE_S)

    @property
    def patience_s(self) -> float:
        return self.route.reach_limit_s + self.route.board.limits.transfer_s

    def new_server(self) -> ServerProcess:
        return ServerProcess(
            self._device, "int8tune.rpc.board.server", introduction={"route": route_to_json(self.route)}
        )
