"""Boards of the inventory: what the scheduler knows of them, and their power."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from int8tune.rpc.farm.boards import PowerSwitch, scheduled
from int8tune.rpc.farm.values import Board, Limits
from int8tune.rpc.inventory import boards as inventory

AWHILE_S = f"61.{os.getpid()}"
"""Longer than any test here; says of a process that a test of this one started it."""


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
        canary_tolerance=0.5,
    )
    assert scheduled(board) == Board(
        "a53",
        "generic",
        frozenset({"big"}),
        Limits(connect_s=3.0, transfer_s=4.0, total_s=500.0, cooldown_s=2.0),
        canary_every=7,
        canary_tolerance=0.5,
        power_cycle=True,
    )


def test_a_board_is_switched_off_and_on(tmp_path: Path) -> None:
    notices: list[str] = []
    switch = PowerSwitch({"a": ["touch", str(tmp_path / "done")]}, notices.append)
    assert switch.cycle("a")
    switch.close(5.0)
    assert (tmp_path / "done").exists()
    assert notices == []


@pytest.mark.parametrize(
    ("command", "notice"),
    [
        (["false"], "`a`: its power-cycle command exited with status 1: false"),
        (
            ["sh", "-c", "echo off; echo 'no such port: 3' >&2; exit 2"],
            "`a`: its power-cycle command exited with status 2: sh: no such port: 3",
        ),
        (["sh", "-c", "kill -9 $$"], "`a`: its power-cycle command killed by SIGKILL: sh"),
        (
            ["/no/such/switch"],
            "`a`: its power-cycle command does not run: [Errno 2] No such file or directory: '/no/such/switch'",
        ),
        (["sh", "-c", f"sleep {AWHILE_S} & wait"], "`a`: its power-cycle command was not done within 0.2 s: sh"),
        (["yes", AWHILE_S], "`a`: its power-cycle command was not done within 0.2 s: yes"),
    ],
)
@pytest.mark.alone
def test_what_goes_wrong_is_said(command: list[str], notice: str) -> None:
    notices: list[tuple[float, str]] = []
    switch = PowerSwitch({"a": command}, lambda text: notices.append((time.monotonic(), text)), limit_s=0.2)
    began = time.monotonic()
    assert switch.cycle("a")
    assert time.monotonic() - began < 0.15
    if command[0] == "yes":
        assert not switch.cycle("a"), "it is being switched"
    switch.close(5.0)
    ((at, said),) = notices
    assert said == notice
    assert at - began < 0.45
    assert not [p for p in psutil.process_iter(["cmdline"]) if AWHILE_S in (p.info["cmdline"] or ())]


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    switch = PowerSwitch({"a": ["touch", f"{tmp_path}/$HOME; touch b"]}, print)
    switch.cycle("a")
    switch.close(5.0)
    assert [path.name for path in tmp_path.iterdir()] == ["$HOME; touch b"]


def test_a_campaign_that_ends_waits_for_no_command() -> None:
    notices: list[str] = []
    switch = PowerSwitch({"a": ["sleep", AWHILE_S]}, notices.append)
    switch.cycle("a")
    began = time.monotonic()
    switch.close(0.2)
    assert time.monotonic() - began < 1.0
    assert "was not done within 0." in notices[0]
    assert not [p for p in psutil.process_iter(["cmdline"]) if AWHILE_S in (p.info["cmdline"] or ())]
