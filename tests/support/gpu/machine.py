"""A machine with a GPU: an emulated one for `int8tune bench --device`, or this one."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path

import pytest

import int8tune.tuner.bench.gpu.site
from int8tune.rpc.agent.build import compilers, make_bundle
from int8tune.rpc.board.local_agent import install_agent
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.tuner.board_transports import TRANSPORTS
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cli.program import run
from tests.support.farm.boards import AT_ANY_SPEED, CACHE
from tests.support.gpu import emulated as emulated_gpus
from tests.support.gpu.kernels import install_emulated_cublaslt

FARM = f'[[boards]]\nname = "h100"\ntransport = "gpu"\n{AT_ANY_SPEED}\n[[boards]]\nname = "here"\ntransport = "local"\n'


def no_gpu() -> str | None:
    """Why this machine has no GPU of NVIDIA's, or None. Drivers are not asked: the emulated one would answer."""
    return None if list(Path("/dev").glob("nvidia[0-9]*")) else "needs a GPU of NVIDIA's: there is no /dev/nvidia0"


class Machine:
    """A machine with a GPU: what has the tuner find it, and an inventory."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **settings: int) -> None:
        bundle = make_bundle(platform.machine(), CACHE, compilers(platform.machine())[0], has_gpu=True)
        launcher = install_agent(folder / "agent", bundle)
        emulated_gpus.install(launcher.parent, **settings)
        install_emulated_cublaslt(launcher.parent)
        patch.setenv("LD_LIBRARY_PATH", str(launcher.parent))
        patch.setitem(TRANSPORTS, TransportKind.GPU, lambda board: _transport(board, launcher))
        patch.setattr(
            int8tune.tuner.bench.gpu.site,
            "BuildPool",
            partial(BuildPool, server="tests.support.gpu.emulated_build_server"),
        )
        self.inventory = folder / "farm.toml"
        self.inventory.write_text(FARM)
        self.results = folder / "results"

    def bench(self, *arguments: str, device: str = "h100") -> int:
        where = ["--device", device, "--inventory", str(self.inventory), "--results", str(self.results)]
        return run(["bench", *arguments, *where])


def _transport(board: Board, launcher: Path) -> AgentTransport:
    return AgentTransport(board, (str(launcher),))
