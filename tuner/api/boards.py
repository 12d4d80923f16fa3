"""Boards of an inventory: which there are and how they are, whether one is ready, what a farm of them would do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from int8tune.compiler.toolchain.linker import find_linker
from int8tune.results.record import DeviceCheck
from int8tune.rpc.errors import ProvisionError
from int8tune.rpc.farm.simulation.accounting import FarmReport
from int8tune.rpc.farm.simulation.scenario import Work
from int8tune.rpc.farm.simulation.scenario import simulate as simulate_farm
from int8tune.rpc.farm.status_file import status_folder
from int8tune.rpc.inventory.boards import Board, Inventory, TransportKind
from int8tune.rpc.inventory.file import read_inventory
from int8tune.rpc.request import Capabilities
from int8tune.schedules.target import PROFILE_NAMES
from int8tune.tuner.api.checks import require_share, require_whole
from int8tune.tuner.api.defaults import DEFAULT_INVENTORY
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.board_check import BoardCheck, check_board
from int8tune.tuner.board_states import BoardState, read_states, state_fields
from int8tune.tuner.board_transports import AGENTS
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.device_check import measure_device
from int8tune.tuner.errors import SpecError
from int8tune.tuner.installed import require_tuning

if TYPE_CHECKING:
    import pandas

MOST_BOARDS, MOST_TRIALS, MOST_CAMPAIGNS = 10_000, 1_000_000, 1000
MOST_SEEDS = 1 << 63
LEAST_SESSION_S, MOST_SESSION_S = 0.001, 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class Boards:
    """The boards of an inventory, and what their campaigns said of them last."""

    boards: tuple[Board, ...]
    states: tuple[BoardState, ...]

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each board."""
        both = zip(self.boards, self.states, strict=True)
        return frame_of([board_fields(board) | state_fields(state) for board, state in both])

    def __repr__(self) -> str:
        return f"<{listed(len(self.boards), 'board')}: {', '.join(board.name for board in self.boards)}>"


@dataclass(frozen=True, slots=True)
class HostCheck:
    """What a core of this machine can do."""

    device: Capabilities
    measured: DeviceCheck
    measuring_cores: tuple[int, ...]
    building_cores: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Simulation:
    """What a farm would do, without its boards."""

    report: FarmReport

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each board: its trials, and shares of the whole time."""
        return frame_of([asdict(use) for use in self.report.boards])

    def __repr__(self) -> str:
        report = self.report
        return f"<Simulation of {listed(len(report.boards), 'board')}: {report.trials_per_s:.2f} trials/s>"


def devices(inventory: str | Path = DEFAULT_INVENTORY) -> Boards:
    """The boards of an inventory, and how they are in the campaigns that use them. None of them is touched.

    Raises:
        InventoryError: the file can't be read, or has faults.
    """
    boards = inventory_of(inventory).boards
    states = read_states(status_folder(Path(inventory)), [board.name for board in boards])
    return Boards(tuple(boards), tuple(states))


def check_device(
    board: str | None = None, *, inventory: str | Path = DEFAULT_INVENTORY, target: str | None = None
) -> HostCheck | BoardCheck:
    """Measure what one core can do, on a board or, without one, of this machine: int8 peak, bandwidths, noise.

    Args:
        board: its name; this machine if None.
        inventory: the file with the boards.
        target: a profile; the best of the CPU if None.

    Raises:
        InventoryError, ProvisionError: there is no such board, or none that has an agent.
        DeviceStartError: it can't be reached, or has no agent of this version.
        UnknownTargetError: nobody registered the profile, or the device can't run it.
        NoLinkerError, CampaignError: a probe does not build or is not exact there.
    """
    if board is None:
        return check_host(target)
    chosen = agent_board(inventory, board)
    return check_board(chosen, target or chosen.target or None)


def check_host(target: str | None = None) -> HostCheck:
    """Measure what one core of this machine can do.

    Raises:
        DeviceStartError, UnknownTargetError, NoLinkerError, CampaignError: as `check_device`.
    """
    require_tuning()
    find_linker()
    measuring, building = measuring_and_build_cores()
    device, measured = measure_device(measuring, building, target)
    return HostCheck(device, measured, measuring, building)


def simulate(
    inventory: str | Path = DEFAULT_INVENTORY,
    *,
    boards: int | None = None,
    trials: int = 1000,
    campaigns: int = 1,
    session_s: float = 0.2,
    bad: float = 0.05,
    seed: int = 0,
) -> Simulation:
    """Show what a farm would do: its own scheduler runs simulated boards on a clock that does not wait.

    Args:
        inventory: how a board behaves, and what goes wrong with it, is in its `simulation` table.
        boards: as many of these kinds; those of the inventory if None.
        trials: of all campaigns.
        campaigns: that share the boards.
        session_s: what a candidate takes on a board, in seconds.
        bad: the share of candidates that crash, hang or are wrong.
        seed: of all that is random.

    Raises:
        SpecError: a number is out of its range.
        InventoryError: the file can't be read, or has faults.
    """
    require_whole("boards", 1 if boards is None else boards, MOST_BOARDS)
    require_whole("trials", trials, MOST_TRIALS)
    require_whole("campaigns", campaigns, MOST_CAMPAIGNS)
    require_whole("seed", seed, MOST_SEEDS - 1, least=0)
    require_share("bad", bad)
    if not LEAST_SESSION_S <= session_s <= MOST_SESSION_S:
        raise SpecError(f"a session must take {LEAST_SESSION_S} to {MOST_SESSION_S:g} s: {session_s:g}")
    work = Work(trials, campaigns, session_s, bad)
    return Simulation(simulate_farm(read_inventory(Path(inventory)), work, boards=boards, seed=seed))


def inventory_of(path: str | Path) -> Inventory:
    """An inventory whose targets are known.

    Raises:
        InventoryError: the file can't be read, or has faults.
    """
    return read_inventory(Path(path), PROFILE_NAMES)


def board_named(inventory: str | Path, name: str, *kinds: TransportKind) -> Board:
    """A board that is reached in one of these ways.

    Raises:
        InventoryError: the file can't be read, or has no such board.
        ProvisionError: it is reached in another way.
    """
    board = inventory_of(inventory).board(name)
    if board.transport not in kinds:
        allowed = " or ".join(f"`{kind.value}`" for kind in kinds)
        raise ProvisionError(f"`{name}` must be a board with transport {allowed}: {board.transport_name}")
    return board


def agent_board(inventory: str | Path, name: str) -> Board:
    """A board that has an agent.

    Raises:
        InventoryError, ProvisionError: as `board_named`.
    """
    return board_named(inventory, name, *AGENTS)


def board_fields(board: Board) -> dict[str, Any]:
    """What an inventory says of a board, in words."""
    before = f"{board.user or board.tracker_key}@"
    address = f"{before}{board.address}:{board.port}" if before != "@" else board.address or "-"
    return {
        "board": board.name,
        "transport": board.transport_name,
        "address": address,
        "target": board.target or "best",
        "cores": ",".join(map(str, board.cores)) or "all",
        "timing": board.timing.value,
        "tags": ",".join(sorted(board.tags)) or "-",
    }
