"""A GPU of this machine as a place of comparison: its agent verifies kernels, the contestants' processes time them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from compiler.linker import find_linker
from results.store import SqliteStore
from rpc.inventory import Board, TransportKind
from rpc.request import Capabilities
from schedules.errors import UnknownTargetError
from schedules.target import Target, target_for
from tuner.bench.own import Preparation
from tuner.bench.site import Site
from tuner.board_transports import TRANSPORTS
from tuner.build.pool import BuildPool
from tuner.cores import bound_to, measuring_and_build_cores
from tuner.device_check import build_probes
from tuner.errors import BenchSpecError
from tuner.folders import STORE_FILE, make_folder, work_folder

_PREFIX = "cuda-sm"
_SHOWN = 60
# Templates whose kernels multiply by DP4A.
_OF_WORDS = ("cuda.dp4a", "cuda.depthwise")
_FEATURE = re.compile(r"cuda_sm_(\d+)")


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
        target = gpu_target_of(device, profile or board.target)
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


def gpu_target_of(device: Capabilities, profile: str = "") -> Target:
    """The named profile, or, without a name, that of the newest architecture whose code the GPU runs.

    Raises:
        UnknownTargetError: there is no such profile, or none for this GPU.
    """
    if profile and not profile.startswith(_PREFIX):
        raise UnknownTargetError(f"a GPU runs kernels of targets that begin with {_PREFIX}, not `{profile[:_SHOWN]}`")
    numbers = sorted((int(match[1]) for match in map(_FEATURE.fullmatch, device.features) if match), reverse=True)
    names = [profile] if profile else [f"{_PREFIX}{number}" for number in numbers]
    faults = []
    for name in names:
        try:
            return target_for(device.features, device.llvm_cpu, device.llvm_triple, name)
        except UnknownTargetError as error:
            faults.append(error)
    raise faults[0] if faults else UnknownTargetError("no target is for this GPU: it does not say its architecture")
