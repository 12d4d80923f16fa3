"""Boards of the inventory: what the scheduler knows of them, and their power."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from rpc import inventory
from rpc.farm.boards import PowerSwitch, scheduled
from rpc.farm.values import Board, Limits


def test_the_scheduler_knows_a_board_as_the_inventory_does() -> None:
    limits = inventory.Limits(connect_s=3.0, transfer_s=4.0, total_s=500.0)
    board = inventory.Board(
        "a53",
        inventory.TransportKind.SSH,
        target="generic",
        tags=frozenset({"big"}),
        limits=limits,
        cooldown_s=2.0,
        power_cycle=("switch", "3"),
        canary_every=7,
    )
    assert scheduled(board) == Board(
        "a53",
        "generic",
        frozenset({"big"}),
        Limits(connect_s=3.0, transfer_s=4.0, total_s=500.0, cooldown_s=2.0),
        canary_every=7,
        power_cycle=True,
    )


def test_a_board_is_switched_off_and_on(tmp_path: Path) -> None:
    notices: list[str] = []
    switch = PowerSwitch({"a": ["touch", str(tmp_path / "done")]}, notices.append)
    switch.cycle("a")
    switch.wait()
    assert (tmp_path / "done").exists()
    assert notices == []


@pytest.mark.parametrize(
    ("command", "notice"),
    [
        (["false"], "a: its power-cycle command failed with status 1: false"),
        (
            ["/no/such/switch"],
            "a: its power-cycle command does not run: [Errno 2] No such file or directory: '/no/such/switch'",
        ),
        (["sh", "-c", "sleep 61.25 & wait"], "a: its power-cycle command was not done within 0.2 s: sh"),
    ],
)
def test_what_goes_wrong_is_said(command: list[str], notice: str) -> None:
    notices: list[str] = []
    switch = PowerSwitch({"a": command}, notices.append, limit_s=0.2)
    began = time.monotonic()
    switch.cycle("a")
    assert time.monotonic() - began < 0.15
    switch.cycle("a")
    switch.wait()
    assert notices[0] == notice
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "61.25"]]
