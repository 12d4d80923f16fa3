"""The boards of a farm, as their owner describes them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from int8tune.rpc.errors import UnknownBoardError

ARCHITECTURES = ("aarch64", "x86_64")
"""As `uname -m` prints them."""

LOCALHOST = "localhost"
FIRST_GPU = 0
CANARY_TOLERANCES = (0.01, 100.0)
"""The least and the greatest share."""

GPU_MEMORY_BYTES = 16 << 30
"""What sessions on a GPU may use of the machine's own memory: CUDA takes much of it for itself."""


class TransportKind(StrEnum):
    """The way to a board."""

    LOCAL = "local"
    SSH = "ssh"
    TRACKER = "tracker"
    MCA = "mca"
    GPU = "gpu"
    SIMULATED = "simulated"
    EXTENSION = "extension"
    """That of another package, which has a name of its own."""

    @classmethod
    def own(cls) -> tuple[TransportKind, ...]:
        """Those of this package, by the names that an inventory has for them."""
        return tuple(kind for kind in cls if kind is not cls.EXTENSION)


class TimingKind(StrEnum):
    """Whether a board's times are measurements: those of an emulator or of a model of a CPU never are."""

    MEASURED = "measured"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much a board may take, each with a limit of its own.

    Attributes:
        connect_s: from the first packet until the board's agent has greeted.
        transfer_s: to send what a session needs.
        run_s: the longest that a session may be given to run.
        total_s: a trial from its assignment to its end, tries again included.
        memory_bytes: what a session may use.
        disk_bytes: what the cases that are kept on the board may take.
    """

    connect_s: float = 15.0
    transfer_s: float = 60.0
    run_s: float = 60.0
    total_s: float = 300.0
    memory_bytes: int = 512 << 20
    disk_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Board:
    """One board as its owner describes it.

    Attributes:
        target: the profile that its kernels are built for; the best of its CPU if empty.
        cpu: LLVM's name of its CPU, for boards that are not asked (`mca`): kernels are estimated for it; of others,
            what is taken instead of what the board says.
        address, port, user: where sshd listens, or a tracker.
        key_file: the private key, which nobody but its owner can read.
        host_key: a public key, `ssh-ed25519 AAAA...`, or the path of a `known_hosts` file.
        folder: what provisioning fills, in the user's home if it is no absolute path.
        emulator: the command that runs the agent on the board's own machine, or on this one (`mca`), as arguments;
            empty without one.
        architecture: what the agent is built for; what `uname -m` prints if empty.
        tracker_key: the device key at a tracker.
        extension: of a transport of another package, its name; `options` is what that is told.
        cores: those that kernels run on; all of them if empty.
        threads: cores that one kernel uses.
        gpu: the number of the GPU that kernels run on, as CUDA counts; None: they run on the CPU.
        cooldown_s: the rest between two sessions.
        power_cycle: a command of the host that turns the board off and on, as arguments; empty without one.
        canary_every: trials between two canaries.
        canary_tolerance: by which share a canary may be slower or faster than it was; None: the usual one.
        simulation: how a simulated board behaves.
    """

    name: str
    transport: TransportKind
    target: str = ""
    cpu: str = ""
    address: str = ""
    port: int = 22
    user: str = ""
    key_file: Path | None = None
    host_key: str = ""
    folder: str = ".int8tune"
    emulator: tuple[str, ...] = ()
    architecture: str = ""
    tracker_key: str = ""
    tags: frozenset[str] = frozenset()
    cores: tuple[int, ...] = ()
    threads: int = 1
    gpu: int | None = None
    timing: TimingKind = TimingKind.MEASURED
    limits: Limits = Limits()
    cooldown_s: float = 0.0
    power_cycle: tuple[str, ...] = ()
    canary_every: int = 50
    canary_tolerance: float | None = None
    simulation: Mapping[str, float] = field(default_factory=dict, hash=False)
    extension: str = ""
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict, hash=False)

    @property
    def is_measured(self) -> bool:
        """Whether its times are measurements."""
        return self.timing is TimingKind.MEASURED

    @property
    def transport_name(self) -> str:
        """What the inventory calls the way to it."""
        return self.extension or self.transport.value


@dataclass(frozen=True, slots=True)
class Inventory:
    """The boards of one file, in its order."""

    source: Path
    boards: tuple[Board, ...]

    def board(self, name: str) -> Board:
        """The board of this name.

        Raises:
            UnknownBoardError: there is none.
        """
        for board in self.boards:
            if board.name == name:
                return board
        known = ", ".join(board.name for board in self.boards[:20])
        raise UnknownBoardError(f"unknown board `{name[:80]}` in {self.source}, known: {known}")


def is_public_key(host_key: str) -> bool:
    """Whether this is a key and not the path of a file."""
    return host_key.startswith(("ssh-", "ecdsa-")) and " " in host_key


def public_key_blob(host_key: str) -> bytes | None:
    """The key's binary form; None where it is damaged."""
    kind, _, rest = host_key.partition(" ")
    try:
        blob = base64.b64decode((rest.split() or [""])[0], validate=True)
    except (binascii.Error, ValueError):
        return None
    name = kind.encode()
    return blob if blob[:4] == len(name).to_bytes(4, "big") and blob[4 : 4 + len(name)] == name else None
