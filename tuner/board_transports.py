"""The way to each kind of board, as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from int8tune.results.entry_points import TRANSPORTS as GROUP
from int8tune.results.entry_points import parts
from int8tune.results.user_cache import default_cache
from int8tune.rpc.board.local_agent import agent_here
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.rpc.tracker.files import make_files
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.rpc.transports.tracker import TrackerTransport
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.errors import SpecError


def local_cores(board: Board) -> tuple[int, ...]:
    """The cores of this machine that a board with transport `local` measures on."""
    return board.cores or measuring_and_build_cores(board.threads)[0]


def _of_another_package(board: Board) -> Transport:
    made: Transport = parts(GROUP, tuple(kind.value for kind in TransportKind.own()))[board.extension].load()(board)
    return made


AGENTS: Mapping[TransportKind, Callable[[Board], AgentTransport]] = {
    TransportKind.SSH: AgentTransport,
    TransportKind.TRACKER: lambda board: TrackerTransport(board, make_files(board.architecture, default_cache())),
    TransportKind.MCA: lambda board: AgentTransport(board, agent_here(board)),
    TransportKind.GPU: lambda board: AgentTransport(board, agent_here(board)),
}
"""Boards with an agent."""

TRANSPORTS: Mapping[TransportKind, Callable[[Board], Transport]] = {
    TransportKind.LOCAL: lambda board: LocalTransport(local_cores(board)),
    **AGENTS,
    TransportKind.EXTENSION: _of_another_package,
}


def require_transport(board: Board) -> None:
    """Raises: SpecError: no campaign can use such a board."""
    if board.transport not in TRANSPORTS:
        known = ", ".join(kind.value for kind in TRANSPORTS if kind is not TransportKind.EXTENSION)
        this = f'board `{board.name}` has transport = "{board.transport.value}"'
        raise SpecError(f"campaigns use boards with transport {known}: {this}")
