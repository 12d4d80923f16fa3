"""Whether a board is ready, before a campaign: what it is, how it is, and a kernel with a known answer run there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from int8tune.compiler.toolchain.linker import find_linker
from int8tune.results.record import DeviceCheck, Outcome
from int8tune.rpc.board.agent_route import AgentRoute
from int8tune.rpc.board.connection import connect
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.request import Capabilities, Program, Request, Timing
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.schedules.target import target_for
from int8tune.tuner.board_transports import AGENTS
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.device_check import build_probes, check_device, read_sizes
from int8tune.tuner.errors import CampaignError
from int8tune.tuner.installed import require_tuning

_CANARY_LIMIT_S = 60.0
_BRIEF = Timing(repeats=1, min_repeat_s=0.0001)
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class BoardCheck:
    """What was found on a board whose canary was exact.

    Attributes:
        state: governor, frequency, temperature, free disk and memory, as far as the board tells.
        measured: none where the board's times are no measurements.
    """

    board: str
    device: Capabilities
    target: str
    state: Mapping[str, str]
    measured: DeviceCheck | None


def check_board(board: Board, profile: str | None = None) -> BoardCheck:
    """Run the canary on a board, and measure what one of its cores can do if its times are measurements.

    Raises:
        DeviceStartError: the board can't be reached, or has no agent of this version.
        ProvisionError: the agent that a server is sent can't be made.
        UnknownTargetError: there is no such profile, or the board can't run it.
        NoLinkerError: nothing here links for its architecture.
        CampaignError: a probe does not build for the board, or is not exact there.
    """
    require_tuning()
    transport = AGENTS[board.transport](board)
    state = _state(transport.route)
    measuring, building = measuring_and_build_cores()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="int8tune-")))
        device = stack.enter_context(transport).start()
        find_linker(device.architecture)
        target = target_for(device.features, device.llvm_cpu, device.llvm_triple, profile, board.threads)
        pool = stack.enter_context(BuildPool(building, measuring[-1], folder / "build-server.log"))
        probes = build_probes(
            pool, target, folder, read_sizes(device, board.limits.memory_bytes) if board.is_measured else {}
        )
        _run_canary(transport, probes.peak_program, board.name)
        about = (board.name, target, device.environment, device.cache_bytes)
        measured = check_device(transport, probes, *about) if board.is_measured else None
        return BoardCheck(board.name, device, target.name, state, measured)


def _run_canary(transport: AgentTransport, canary: Program, board: str) -> None:
    reply = transport.run(Request((canary,), _BRIEF, _CANARY_LIMIT_S))
    if reply.outcome is not Outcome.OK:
        raise CampaignError(f"the canary on `{board}` ended with {reply.outcome.value}: {reply.error}")


def _state(route: AgentRoute) -> dict[str, str]:
    link, _ = connect(route, time.monotonic() + route.reach_limit_s)
    try:
        said = link.state(time.monotonic() + route.board.limits.connect_s)
    finally:
        link.close()
    return {
        "frequency": _scaled(said.get("frequency_khz", ""), 1e-3, "MHz"),
        "temperature": _scaled(said.get("temperature_mc", ""), 1e-3, "C"),
        "load": said.get("load", "").partition(" ")[0][:10],
        "free memory": _scaled(said.get("memory_free_bytes", ""), 1 / _MIB, "MiB"),
        "free disk": _scaled(said.get("disk_free_bytes", ""), 1 / _MIB, "MiB"),
    }


def _scaled(written: str, factor: float, unit: str) -> str:
    """A number that a board wrote, in another unit; empty where it wrote none."""
    return f"{int(written) * factor:,.0f} {unit}" if written.isdigit() and len(written) < 20 else ""
