"""Boards behind a stock TVM RPC tracker as devices."""

from __future__ import annotations

from pathlib import Path

from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.transports.agent import AgentTransport


class TrackerTransport(AgentTransport):
    """Runs kernels on a server that the tracker hands out, by the agent that is sent there.

    The server is held from `start` to `close`, and given back where nothing is asked of it for a while. What a request
    may take is its own limit and, where they are needed, those to get a server, to send the agent, to send its cases.
    """

    def __init__(self, board: Board, files: Path) -> None:
        """`files`: what `rpc.tracker.files` has made for the board's architecture."""
        super().__init__(board, files=files)
