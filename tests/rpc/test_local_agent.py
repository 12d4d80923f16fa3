"""Agents on this machine, without SSH."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.rpc.board import local_agent
from int8tune.rpc.board.local_agent import agent_here
from int8tune.rpc.errors import ProvisionError
from int8tune.rpc.transports.agent import AgentTransport
from tests.support.farm.boards import CACHE, board, bundle_for

# Runs what it is given: a program of this machine's own needs no emulator.
NO_EMULATOR = ("/usr/bin/env",)
HERE = replace(board(), emulator=NO_EMULATOR, architecture=platform.machine())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache with nothing in it but the bundle."""
    bundle_for(platform.machine())
    (tmp_path / "bundles").symlink_to(CACHE / "bundles")
    monkeypatch.setattr(local_agent, "default_cache", lambda: tmp_path)
    return tmp_path


@pytest.mark.alone
def test_an_agent_is_made_and_starts() -> None:
    with AgentTransport(HERE, agent_here(HERE)) as transport:
        assert transport.start().architecture == platform.machine()


def test_a_damaged_agent_is_made_anew(cache: Path) -> None:
    (command,) = agent_here(HERE)
    agent = Path(command).parent / "agent"
    whole = agent.read_bytes()
    made = agent.stat().st_ino
    assert agent_here(HERE) == (command,)
    assert agent.stat().st_ino == made
    agent.write_bytes(whole[:1000])
    assert agent_here(HERE) == (command,)
    assert agent.read_bytes() == whole
    agent.unlink()
    assert agent_here(HERE) == (command,)
    assert agent.read_bytes() == whole
    assert len(list((cache / "agents").iterdir())) == 1


def test_a_missing_emulator_is_named() -> None:
    with pytest.raises(ProvisionError, match="the emulator of `here` is not installed: qemu-of-nobody"):
        agent_here(replace(HERE, emulator=("qemu-of-nobody", "-cpu", "x")))
