"""The inventory's boards as the scheduler knows them, and how they are switched off and on."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from int8tune.rpc.farm.values import Board, Limits
from int8tune.rpc.inventory import boards as inventory
from int8tune.rpc.process import processes
from int8tune.rpc.wire.foreign_text import last_line

_SHOWN = 200
# Of what a command writes, so much is read at a time, and so much is kept: one that writes without end waits.
_CHUNK, _KEPT = 1 << 16, 4096
_LOOK_EVERY_S = 0.05
_END_LIMIT_S = 1.0


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
        canary_tolerance=board.canary_tolerance,
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
        self._until_s = math.inf
        self._switching: dict[str, threading.Thread] = {}

    def cycle(self, board: str) -> bool:
        """Switch a board off and on; returns at once. One that is being switched is left alone: False."""
        under_way = self._switching.get(board)
        if under_way is not None and under_way.is_alive():
            return False
        thread = threading.Thread(target=self._run, args=(board,), name=f"power {board}", daemon=True)
        self._switching[board] = thread
        thread.start()
        return True

    def close(self, limit_s: float) -> None:
        """Let the commands that run end within `limit_s`, or their own limit; then nothing of them is left."""
        self._until_s = time.monotonic() + limit_s
        for thread in self._switching.values():
            thread.join(limit_s + 2 * _END_LIMIT_S)

    def _run(self, board: str) -> None:
        command = list(self._commands[board])
        began_s = time.monotonic()
        try:
            process = subprocess.Popen(
                command,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            self._notice(f"`{board}`: its power-cycle command does not run: {error}"[:_SHOWN])
            return
        code, said = self._follow(process, began_s)
        if code is None:
            processes.kill(process.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):  # it can be stuck in the kernel
                process.wait(_END_LIMIT_S)
            given_s = min(self._limit_s, self._until_s - began_s)
            self._notice(f"`{board}`: its power-cycle command was not done within {given_s:.1f} s: {command[0]}")
        elif code:
            words = ": ".join(filter(None, [command[0], said]))
            self._notice(f"`{board}`: its power-cycle command {processes.how_it_ended(code)}: {words}"[:_SHOWN])

    def _follow(self, process: subprocess.Popen[bytes], began_s: float) -> tuple[int | None, str]:
        """How a command ended, None where it was late, and the last line that it wrote."""
        assert process.stdout is not None
        kept, code = b"", None
        with process.stdout as output:
            os.set_blocking(output.fileno(), False)
            while code is None and time.monotonic() < min(began_s + self._limit_s, self._until_s):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_LOOK_EVERY_S)
                kept = (kept + _some(output.fileno()))[-_KEPT:]
        return code, last_line(kept.decode(errors="replace"), _KEPT)


def _some(descriptor: int) -> bytes:
    """What there is to read just now."""
    with contextlib.suppress(BlockingIOError):
        return os.read(descriptor, _CHUNK)
    return b""
