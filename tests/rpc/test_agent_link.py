"""The messages between a host and an agent, with an agent that behaves as it should not."""

from __future__ import annotations

import ast
import struct
import subprocess
import sys
import time

import pytest

from int8tune.rpc.agent import link as agent_link
from int8tune.rpc.agent.link import AgentLink
from int8tune.rpc.board.capabilities import capabilities_of
from int8tune.rpc.errors import DeviceLostError, DeviceStartError, SessionEndedError, SilentError
from int8tune.rpc.inventory.boards import Board, TransportKind

BOARD = Board(name="b", transport=TransportKind.SSH)
ABOUT = {"architecture": "aarch64", "cpu": "implementer 0x41 part 0xd03", "features": "asimd", "cores": "0,1"}


class Scripted:
    """A stream with these pieces to receive, and silence after them."""

    def __init__(self, *pieces: bytes) -> None:
        self.sent = b""
        self._pieces = list(pieces)

    def send(self, data: bytes, deadline: float) -> None:  # noqa: ARG002
        self.sent += data

    def receive(self, deadline: float) -> bytes:
        if not self._pieces:
            time.sleep(max(0.0, min(deadline - time.monotonic(), 0.05)))
            raise TimeoutError
        piece = self._pieces.pop(0)
        if not piece:
            raise DeviceLostError("the board's agent ended")
        return piece

    def close(self) -> None:
        pass

    def last_words(self) -> str:
        return "ld.so: no such file"


def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + struct.pack("<I", len(body)) + body


def soon() -> float:
    return time.monotonic() + 2


def test_messages_come_in_pieces() -> None:
    whole = message("d", b"one") + message("p") + message("d", b"two") + message("e", b"how=signal 11\nleft=0\n\nlast")
    link = AgentLink(Scripted(*(whole[place : place + 1] for place in range(len(whole)))))
    assert [link.receive(soon()), link.receive(soon())] == [b"one", b"two"]
    for _ in range(2):
        with pytest.raises(SessionEndedError) as ended:
            link.receive(soon())
        assert (ended.value.how, ended.value.errors) == ("signal 11", "last")


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ((b"d" + struct.pack("<I", 1 << 30),), "a message of 1073741824 bytes"),
        ((b"Welcome to Debian!\r\n",), "answered nonsense"),
        ((message("z"),), "answered nonsense: a message `z`"),
        ((message("e", b"left=0"),), "a session's end without its reason"),
        ((message("x", b"core can't be used here: 99"),), "gave up: core can't be used here: 99"),
        ((message("d")[:3], b""), "the board's agent ended: ld.so: no such file"),
    ],
    ids=str,
)
def test_an_agent_that_answers_nonsense_is_lost(pieces: tuple[bytes, ...], words: str) -> None:
    link = AgentLink(Scripted(*pieces))
    with pytest.raises(DeviceLostError, match=words):
        link.end_session(soon())


def test_an_agent_of_another_version_is_refused() -> None:
    with pytest.raises(DeviceLostError, match="the board's agent is of version 9"):
        AgentLink(Scripted(message("h", b"version=9\n"))).greet({}, soon())


def test_a_case_that_was_not_asked_for_is_nonsense() -> None:
    with pytest.raises(DeviceLostError, match="misses what it was not asked for"):
        AgentLink(Scripted(message("q", b"x" * 32))).missing([b"y" * 32], soon())


def test_silence_is_asked_about_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_link, "PING_AFTER_S", 0.1)
    monkeypatch.setattr(agent_link, "SILENCE_S", 0.4)
    stream = Scripted()
    began = time.monotonic()
    with pytest.raises(DeviceLostError, match=r"the board was silent for 0\.4 s"):
        AgentLink(stream).receive(began + 60)
    assert 0.3 < time.monotonic() - began < 2
    assert 2 <= stream.sent.count(b"P") <= 4


@pytest.mark.parametrize("own_limit_s", [60.0, 0.1])
def test_a_board_that_takes_nothing_is_silent_too(monkeypatch: pytest.MonkeyPatch, own_limit_s: float) -> None:
    """A transfer may take a minute, and a frozen board is found in the middle of one."""

    class Full(Scripted):
        def send(self, data: bytes, deadline: float) -> None:  # noqa: ARG002
            time.sleep(max(0.0, deadline - time.monotonic()))
            raise TimeoutError

    monkeypatch.setattr(agent_link, "SILENCE_S", 0.3)
    began = time.monotonic()
    with pytest.raises(DeviceLostError) as caught:
        AgentLink(Full()).upload(b"d" * 32, b"x" * (1 << 20), began + own_limit_s)
    assert time.monotonic() - began < 1
    assert isinstance(caught.value, SilentError) == (own_limit_s > 1)


def test_a_late_answer_is_a_lost_device() -> None:
    began = time.monotonic()
    with pytest.raises(DeviceLostError, match="did not answer in time"):
        AgentLink(Scripted()).state(began + 0.2)
    assert time.monotonic() - began < 2


def test_capabilities_of_a_cortex_a53() -> None:
    device = capabilities_of(BOARD, ABOUT | {"caches": "L1:32K L2:1M L9:3K L3:0K"})
    assert (device.llvm_cpu, device.llvm_triple, device.cores) == ("cortex-a53", "aarch64-linux-gnu", (0, 1))
    assert device.cache_bytes == {"L1": 32 << 10, "L2": 1 << 20}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"architecture": "riscv64"}, "must be one of aarch64, x86_64: 'riscv64'"),
        ({"architecture": ""}, "must be one of"),
        ({"cores": ""}, "has other cores than it should"),
        ({"cores": "0,999999"}, "has other cores than it should"),
    ],
    ids=str,
)
def test_capabilities_that_can_t_be(wrong: dict[str, str], words: str) -> None:
    board = Board(name="b", transport=TransportKind.SSH, cores=(0, 1))
    with pytest.raises(DeviceStartError, match=words):
        capabilities_of(board, ABOUT | wrong)


@pytest.mark.parametrize(
    ("features", "cpu"),
    [
        ("avx512f avx512bw avx512cd avx512dq avx512vl amx_int8 amx_tile -amx", "x86-64-v4"),
        ("avx2 bmi1 bmi2 f16c fma movbe", "x86-64-v3"),
        ("sse2", "x86-64"),
    ],
)
def test_x86_boards_are_told_by_the_levels_of_their_abi(features: str, cpu: str) -> None:
    device = capabilities_of(BOARD, ABOUT | {"architecture": "x86_64", "features": features})
    assert device.llvm_cpu == cpu
    assert not any(name.startswith(("amx", "-")) for name in device.features)


def test_the_process_that_speaks_with_a_board_loads_no_tvm() -> None:
    program = "import sys, rpc.board.server; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = ast.literal_eval(done.stdout)
    assert "rpc" in loaded
    assert not {"tvm", "tvm_ffi", "paramiko"} & set(loaded)
