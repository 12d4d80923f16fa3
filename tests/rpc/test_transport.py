"""What every transport does: the contract, for the local device, an agent by three ways, and the fake device."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceLostError
from int8tune.rpc.inventory.boards import Board
from int8tune.rpc.protocol import reply_from_json, reply_to_json
from int8tune.rpc.provision import provision
from int8tune.rpc.request import Capabilities, Cold, Program, Reply, Request
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.fake import FakeTransport
from int8tune.rpc.transports.local import LocalTransport
from int8tune.rpc.transports.tracker import TrackerTransport
from tests.sshd import running_sshd
from tests.support.farm.boards import CACHE, board, board_behind, install
from tests.support.farm.trackers import StockFarm, running_tracker, tracker_files
from tests.support.kernels.rpc_kernels import BRIEF, Kernels, build_kernels

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    folder = tmp_path_factory.mktemp("ssh")
    with running_sshd(folder / "sshd") as sshd:
        board = board_behind(sshd, "x86", folder / "board")
        provision(board, CACHE, upgrade=False, say=print)
        yield board


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockFarm]:
    tracker_files()
    with running_tracker(tmp_path_factory.mktemp("stock")) as running:
        yield running


BAD = {
    "wrong_value": Outcome.WRONG_ANSWER,
    "segfault": Outcome.RUN_FAILED,
    "hangs": Outcome.RUN_TIMEOUT,
    "kills_server": Outcome.DEVICE_LOST,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "entry" in metafunc.fixturenames:
        quick = metafunc.cls.quick
        marks = {entry: () if entry in quick else (pytest.mark.thorough,) for entry in BAD}
        metafunc.parametrize("entry", [pytest.param(entry, marks=marks[entry]) for entry in BAD])


class TransportContract(ABC):
    """A subclass gives `new`: a transport that is not started, and closes it."""

    quick: Collection[str] = BAD
    """Bad programs of the quick run: fewer where another transport has the same agent."""

    @abstractmethod
    def new(self, kernels: Kernels) -> Iterator[Transport]:
        """A fixture."""

    @pytest.fixture
    def transport(self, new: Transport) -> Transport:
        new.start()
        return new

    def test_capabilities_name_the_device(self, new: Transport) -> None:
        capabilities = new.start()
        assert isinstance(capabilities, Capabilities)
        assert capabilities.architecture
        assert capabilities.llvm_cpu
        assert capabilities.cores
        assert all(size > 0 for size in capabilities.cache_bytes.values())
        assert new.start() == capabilities

    def test_good_programs_have_times(self, transport: Transport, kernels: Kernels) -> None:
        request = kernels.request("good", "good", probe="good")
        reply = transport.run(request)
        assert reply.outcome is Outcome.OK, reply.error
        assert [len(times_s) for times_s in reply.times_s] == [request.timing.repeats] * 2
        assert all(time_s > 0 for times_s in reply.times_s for time_s in times_s)
        assert len(reply.calls_per_repeat) == 2
        assert {"probe_before_s", "probe_after_s"} <= set(reply.observed)

    def test_bad_program_is_a_reply_and_the_next_is_served(
        self, transport: Transport, kernels: Kernels, entry: str
    ) -> None:
        began = time.monotonic()
        reply = transport.run(kernels.request(entry, run_limit_s=0.5))
        assert time.monotonic() - began < 0.5 + 5
        assert reply.outcome is BAD[entry]
        assert reply.error
        assert reply.error_class
        assert reply.times_s == ()
        assert transport.run(kernels.request("good")).outcome is Outcome.OK

    def test_reply_survives_its_own_protocol(self, transport: Transport, kernels: Kernels) -> None:
        request = kernels.request("good", probe="good")
        reply = transport.run(request)
        assert reply_from_json(json.loads(json.dumps(reply_to_json(reply))), request) == reply

    def test_closed_is_closed_until_started(self, transport: Transport, kernels: Kernels) -> None:
        transport.close()
        transport.close()
        with pytest.raises(DeviceLostError):
            transport.run(kernels.request("good"))
        transport.start()
        assert transport.run(kernels.request("good")).outcome is Outcome.OK


class TimesKernels(TransportContract):
    """What transports that run kernels have in common."""

    @pytest.mark.parametrize(
        ("cold", "is_cold"),
        [
            (None, False),
            (Cold(6 * 512), False),
            (Cold(7 * 512), True),
            (Cold(8 * 256, (0,)), True),
            (Cold(8 * 256, (1,)), False),
        ],
    )
    def test_a_cold_call_finds_arguments_that_were_not_used_for_long(
        self, transport: Transport, kernels: Kernels, cold: Cold | None, is_cold: bool
    ) -> None:
        """The kernel takes longer where it saw its input within 8 calls; input and output have 256 bytes each."""
        reply = transport.run(kernels.request("remembers", timing=replace(BRIEF, cold=cold)))
        assert reply.outcome is Outcome.OK, reply.error
        assert (max(reply.times_s[0]) < 0.001) == is_cold


class TestLocalTransport(TimesKernels):
    @pytest.fixture
    def new(self, kernels: Kernels) -> Iterator[Transport]:  # noqa: ARG002
        transport = LocalTransport()
        yield transport
        transport.close()


class TestAgentTransport(TimesKernels):
    @pytest.fixture
    def new(self, kernels: Kernels, tmp_path: Path) -> Iterator[Transport]:  # noqa: ARG002
        transport = AgentTransport(board(), [str(install(tmp_path / "board"))])
        yield transport
        transport.close()


class TestSshTransport(TransportContract):
    quick = ("kills_server",)

    @pytest.fixture
    def new(self, kernels: Kernels, provisioned: Board) -> Iterator[Transport]:  # noqa: ARG002
        transport = AgentTransport(provisioned)
        yield transport
        transport.close()


class TestTrackerTransport(TransportContract):
    quick = ("hangs",)

    @pytest.fixture
    def new(self, kernels: Kernels, farm: StockFarm) -> Iterator[Transport]:  # noqa: ARG002
        transport = TrackerTransport(farm.board(), tracker_files())
        yield transport
        transport.close()


class TestFakeTransport(TransportContract):
    @pytest.fixture
    def new(self, kernels: Kernels) -> Iterator[Transport]:
        good = kernels.program("good")

        def answer(request: Request) -> Reply:
            outcome = BAD.get(request.programs[0].entry, Outcome.OK)
            return _good_reply(request, good) if outcome is Outcome.OK else Reply(outcome, error_class="X", error="x")

        transport = FakeTransport(answer)
        yield transport
        transport.close()


def test_fake_has_its_faults_in_order(kernels: Kernels) -> None:
    good = kernels.program("good")
    transport = FakeTransport(
        lambda request: _good_reply(request, good), [None, Outcome.DEVICE_LOST, Outcome.RUN_FAILED]
    )
    transport.start()
    requests = [replace(kernels.request("good"), run_limit_s=float(limit)) for limit in range(1, 5)]
    outcomes = [transport.run(request).outcome for request in requests]
    assert outcomes == [Outcome.OK, Outcome.DEVICE_LOST, Outcome.RUN_FAILED, Outcome.OK]
    assert transport.requests == requests


def _good_reply(request: Request, good: Program) -> Reply:
    assert all(program == good for program in request.programs)
    times_s = (1e-6,) * request.timing.repeats
    count = len(request.programs)
    return Reply(Outcome.OK, (times_s,) * count, (10,) * count, {"probe_before_s": 1e-6, "probe_after_s": 1e-6})
