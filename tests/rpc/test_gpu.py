"""A board with an emulated GPU: the real agent and TVM's CUDA runtime, everything but the driver."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.agent.build import compilers, make_bundle
from int8tune.rpc.board.gpu import gpu_features
from int8tune.rpc.board.local_agent import install_agent
from int8tune.rpc.errors import DeviceStartError
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.rpc.request import Capabilities, Cold, Timing
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.schedules.target import target_for
from tests.support.farm.boards import CACHE, LIMITS
from tests.support.gpu import emulated as emulated_gpus
from tests.support.gpu.kernels import build_gpu_kernels
from tests.support.kernels.rpc_kernels import Kernels
from tests.support.run.thinned import one_in

BOARD = Board("h100", TransportKind.GPU, gpu=0, limits=LIMITS)


def install(folder: Path) -> Path:
    """What starts an agent that has all it needs for a GPU but the driver."""
    bundle = make_bundle(platform.machine(), CACHE, compilers(platform.machine())[0], has_gpu=True)
    return install_agent(folder, bundle)


def agent_with_gpu(folder: Path, **settings: int) -> Path:
    launcher = install(folder)
    emulated_gpus.install(launcher.parent, **settings)
    return launcher


def start(launcher: Path, gpu: int = 0) -> Capabilities:
    with AgentTransport(replace(BOARD, gpu=gpu), (str(launcher),)) as transport:
        return transport.start()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_gpu_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentTransport]:
    with AgentTransport(BOARD, (str(agent_with_gpu(tmp_path_factory.mktemp("gpu") / "agent")),)) as transport:
        transport.start()
        yield transport


def test_what_the_gpu_is(transport: AgentTransport) -> None:
    found = transport.start()
    assert found.features >= {"cuda_sm_90", "cuda_multiprocessors_132"}
    target = target_for(found.features, found.llvm_cpu, found.llvm_triple)
    assert target.multiprocessors == 132
    assert found.cache_bytes == {"L2": 50 << 20}
    assert found.environment["gpu"] == "Emulated GPU"
    assert found.environment["gpu_driver"] == "580.65.06"


@pytest.mark.parametrize("written", ["", "many", "0", "-1", "10000", "1e2", " 8", "1٣"])
def test_a_count_of_multiprocessors_that_is_none_is_not_believed(written: str) -> None:
    assert gpu_features({"gpu_architecture": "sm_75", "gpu_multiprocessors": written}) == {
        f"cuda_sm_7{minor}" for minor in range(6)
    }


def test_a_right_kernel_is_timed(transport: AgentTransport, kernels: Kernels) -> None:
    reply = transport.run(kernels.request("increment", probe="increment"))
    assert (reply.outcome, reply.error) == (Outcome.OK, "")
    assert all(time_s > 0 for time_s in reply.times_s[0])
    assert reply.observed["gpu_clock_hz"] == 1755e6
    assert reply.observed["gpu_power_w"] == 312.5


def test_cold_caches_take_copies_in_turn(transport: AgentTransport, kernels: Kernels) -> None:
    timing = Timing(repeats=2, min_repeat_s=0.0001, cold=Cold(20_000))
    assert transport.run(kernels.request("increment", timing=timing)).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("entry", "outcome", "error"),
    [
        ("skips_last", Outcome.WRONG_ANSWER, "1 of 256 values differ"),
        ("past_end", Outcome.WRONG_ANSWER, "outside"),
        ("wild", Outcome.RUN_FAILED, "illegal memory access"),
        ("hangs", Outcome.RUN_TIMEOUT, "not done within 1 s"),
        ("nowhere", Outcome.RUN_FAILED, "no function 'nowhere'"),
    ],
)
def test_a_faulty_kernel_costs_its_session(
    transport: AgentTransport, kernels: Kernels, entry: str, outcome: Outcome, error: str
) -> None:
    reply = transport.run(kernels.request(entry, run_limit_s=1.0))
    assert reply.outcome is outcome
    assert error in reply.error
    assert transport.run(kernels.request("increment")).outcome is Outcome.OK


def test_memory_that_is_not_there_is_said(tmp_path: Path, kernels: Kernels) -> None:
    launcher = agent_with_gpu(tmp_path / "agent", memory=8_000)
    with AgentTransport(BOARD, (str(launcher),)) as transport:
        transport.start()
        reply = transport.run(kernels.request("increment"))
    assert reply.outcome is Outcome.RUN_FAILED
    assert "no memory left on the GPU for 8448 bytes: 7744 of 8000 are free" in reply.error


@pytest.mark.parametrize(
    ("settings", "gpu", "fault"),
    one_in(
        2,
        [
            ({"driver": 12040}, 0, "its driver is too old: of CUDA 12.4, needed 13.0"),
            ({"driver": 0}, 0, "this machine has no driver of NVIDIA's"),
            ({"gpus": 3}, 3, "there is no GPU 3, of 3 the last is 2"),
            ({"gpus": 0}, 0, "the driver finds no GPU"),
        ],
    ),
)
@pytest.mark.matrix(at_most=1)
def test_a_gpu_that_can_not_be_used_is_one_line(tmp_path: Path, settings: dict[str, int], gpu: int, fault: str) -> None:
    launcher = agent_with_gpu(tmp_path / "agent", **settings)
    with pytest.raises(DeviceStartError, match=f"^the GPU of `h100` can't be used: {fault}$"):
        start(launcher, gpu)


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this machine has a driver of NVIDIA's")
@pytest.mark.thorough
def test_this_machine_without_a_driver(tmp_path: Path) -> None:
    """With CUDA's own library, which finds no driver here."""
    launcher = install(tmp_path / "agent")
    with pytest.raises(
        DeviceStartError, match="the GPU of `h100` can't be used: this machine has no driver of NVIDIA's"
    ):
        start(launcher)
