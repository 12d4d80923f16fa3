"""The inventory's boards as the scheduler knows them, and how they are switched off and on."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

from rpc import inventory
from rpc.farm.values import Board, Limits

_SHOWN = 200


def scheduled(board: inventory.Board) -> Board:
    """What the scheduler needs to know of a board."""
    limits = Limits(
        connect_s=board.limits.connect_s,
        transfer_s=board.limits.transfer_s,
        total_s=board.limits.total_s,
        cooldown_s=board.cooldown_s,
    )
    return Board(
        board.name,
        board.target,
        board.tags,
        limits,
        canary_every=board.canary_every,
        power_cycle=bool(board.power_cycle),
    )


class PowerSwitch:
    """Runs the boards' power-cycle commands, each in a thread and a process group of its own, with a limit."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], notice: Callable[[str], None], limit_s: float = 60.0
    ) -> None:
        """`notice` is told, from any thread, what went wrong."""
        self._commands = commands
        self._notice = notice
        self._limit_s = limit_s
        self._switching: dict[str, threading.Thread] = {}

    def cycle(self, board: str) -> None:
        """Switch a board off and on; returns at once. One that is being switched is left alone."""
        under_way = self._switching.get(board)
        if under_way is None or not under_way.is_alive():
            thread = threading.Thread(target=self._run, args=(board,), name=f"power {board}", daemon=True)
            self._switching[board] = thread
            thread.start()

    def wait(self) -> None:
        """Until all commands have ended, which they do within their limit."""
        for thread in self._switching.values():
            thread.join(self._limit_s + 1)

    def _run(self, board: str) -> None:
        command = list(self._commands[board])
        nothing = subprocess.DEVNULL
        try:
            process = subprocess.Popen(command, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing)
        except OSError as error:
            self._notice(f"{board}: its power-cycle command does not run: {error}"[:_SHOWN])
            return
        try:
            code = process.wait(self._limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(1)
            self._notice(f"{board}: its power-cycle command was not done within {self._limit_s:g} s: {command[0]}")
            return
        if code:
            self._notice(f"{board}: its power-cycle command failed with status {code}: {command[0]}")
