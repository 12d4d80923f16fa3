"""A GPU of this machine as a place of comparison: its agent verifies kernels, the contestants' processes time them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from int8tune.compiler.toolchain.linker import find_linker
from int8tune.results.store import SqliteStore
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.schedules.target import target_for
from int8tune.tuner.bench.own import Preparation
from int8tune.tuner.bench.site import Site
from int8tune.tuner.board_transports import TRANSPORTS
from int8tune.tuner.builder.pool import BuildPool
from int8tune.tuner.cores import bound_to, measuring_and_build_cores
from int8tune.tuner.device_check import build_probes
from int8tune.tuner.errors import BenchSpecError
from int8tune.tuner.folders import STORE_FILE, make_folder
from int8tune.tuner.work_folder import work_folder

# Templates whose kernels multiply by DP4A.
_OF_WORDS = ("cuda.dp4a", "cuda.depthwise")


def require_gpu(board: Board) -> int:
    """The number of a board's GPU, which must be one of this machine.

    Raises:
        BenchSpecError: it is none.
    """
    if board.transport is not TransportKind.GPU or board.gpu is None:
        this = f'`{board.name}` has transport = "{board.transport.value}"'
        raise BenchSpecError(f'a device to compare on must be a GPU of this machine, transport = "gpu": {this}')
    return board.gpu


@contextmanager
def open_gpu_site(
    board: Board, results: Path, purpose: str, profile: str | None, template: str | None = None
) -> Iterator[Site]:
    """A site whose records are in `results/records.db`, under the board's name.

    Args:
        template: whose kernels are compared, which decides the peak loop: of tensor cores, or without them.

    Raises:
        CampaignError: the peak loop does not build.
        BenchSpecError: the board is no GPU of this machine.
        DeviceStartError: the GPU can't be used.
        UnknownTargetError: there is no such profile, or none for this GPU.
        StoreError: the records can't be read or written.
    """
    gpu = require_gpu(board)
    find_linker()
    measuring, building = measuring_and_build_cores()
    with ExitStack() as stack:
        transport = stack.enter_context(closing(TRANSPORTS[board.transport](board)))
        device = transport.start()
        target = target_for(device.features, device.llvm_cpu, device.llvm_triple, profile or board.target or None)
        store = stack.enter_context(SqliteStore(make_folder(results) / STORE_FILE))
        folder = stack.enter_context(work_folder(results, purpose))
        with bound_to(building):
            pool = stack.enter_context(BuildPool(building, measuring[-1], folder / "build-server.log"))
            probes = build_probes(pool, target, folder, {}, "words" if template in _OF_WORDS else "peak")
        preparation = Preparation(pool, transport, target)
        yield Site(
            name=board.name,
            measuring=measuring,
            building=building,
            transport=transport,
            device=device,
            target=target,
            store=store,
            folder=folder,
            preparation=preparation,
            probes=probes,
            gpu=gpu,
        )
