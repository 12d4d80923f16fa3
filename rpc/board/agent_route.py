"""The way to a board, as the process that goes it is told: plain values, sent as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.errors import ProtocolError
from int8tune.rpc.inventory.boards import Board, Limits, TimingKind, TransportKind
from int8tune.rpc.wire.fields import Fields, integer, many, number, text

LAUNCHER = "run"
"""The file in a board's folder that starts its agent."""

_LARGEST = 1 << 62
_LONGEST_S = 1e6
_NO_GPU = -1
_NAMES = (
    "name",
    "cpu",
    "address",
    "port",
    "user",
    "key_file",
    "host_key",
    "folder",
    "emulator",
    "cores",
    "threads",
    "gpu",
    "timing",
    "limits",
    "tracker_key",
    "command",
    "files",
)


@dataclass(frozen=True, slots=True)
class AgentRoute:
    """How an agent is reached.

    Attributes:
        command: what starts it on this machine; empty where it is on a board.
        files: the folder of what is sent to a server that a tracker hands out; None where it is reached by SSH.
    """

    board: Board
    command: tuple[str, ...] = ()
    files: Path | None = None

    @property
    def reach_limit_s(self) -> float:
        """Until an agent has greeted. One that has to be sent first has the time of a transfer, too."""
        limits = self.board.limits
        return limits.connect_s + (limits.transfer_s if self.files else 0.0)

    @property
    def agent_command(self) -> str:
        """What starts it on the board. A key that is restricted to this command starts it whatever is asked for."""
        folder = self.board.folder
        return f"exec {folder if folder.startswith('/') else f'./{folder}'}/{LAUNCHER}"


def route_to_json(route: AgentRoute) -> dict[str, object]:
    board = route.board
    fields: dict[str, object] = {name: getattr(board, name) for name in _NAMES if hasattr(board, name)}
    return fields | {
        "key_file": str(board.key_file or ""),
        "timing": board.timing.value,
        "gpu": _NO_GPU if board.gpu is None else board.gpu,
        "limits": dataclasses.asdict(board.limits),
        "command": route.command,
        "files": str(route.files or ""),
    }


def route_from_json(place: str, value: object) -> AgentRoute:
    """Raises: ProtocolError."""
    fields = Fields(place, value, _NAMES)
    try:
        timing = TimingKind(fields.read("timing", text))
    except ValueError as error:
        raise ProtocolError(str(error)) from error
    board = Board(
        name=fields.read("name", text),
        transport=TransportKind.SSH,
        cpu=fields.read("cpu", text),
        address=fields.read("address", text),
        port=fields.read("port", integer(0, 65_535)),
        user=fields.read("user", text),
        key_file=Path(fields.read("key_file", text)),
        host_key=fields.read("host_key", text),
        folder=fields.read("folder", text),
        emulator=fields.read("emulator", many(text)),
        cores=fields.read("cores", many(integer(0, 1 << 16))),
        threads=fields.read("threads", integer(1, 1 << 16)),
        gpu=None if (gpu := fields.read("gpu", integer(_NO_GPU, 1 << 16))) == _NO_GPU else gpu,
        timing=timing,
        limits=fields.read("limits", _limits),
        tracker_key=fields.read("tracker_key", text),
    )
    files = fields.read("files", text)
    return AgentRoute(board, fields.read("command", many(text)), Path(files) if files else None)


def _limits(place: str, value: object) -> Limits:
    fields = Fields(place, value, tuple(field.name for field in dataclasses.fields(Limits)))
    seconds = number(0, _LONGEST_S)
    return Limits(
        connect_s=fields.read("connect_s", seconds),
        transfer_s=fields.read("transfer_s", seconds),
        run_s=fields.read("run_s", seconds),
        total_s=fields.read("total_s", seconds),
        memory_bytes=fields.read("memory_bytes", integer(0, _LARGEST)),
        disk_bytes=fields.read("disk_bytes", integer(0, _LARGEST)),
    )
