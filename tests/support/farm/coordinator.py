"""A coordinator as a process of its own, for tests that kill it: measures trials on devices that note what they do.

    python -m tests.support.farm.coordinator JOURNAL SESSIONS TRIALS BOARDS

Each device appends a line to SESSIONS before and after each session; the process ends once all trials are concluded.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from int8tune.results.record import Outcome
from int8tune.rpc.farm.driver import FarmDriver
from int8tune.rpc.farm.events import Open
from int8tune.rpc.farm.journal import JournalFile
from int8tune.rpc.farm.ledger import Ledger
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.values import Board, Campaign, Limits, Rules, Trial
from int8tune.rpc.request import Reply, Request, Timing
from int8tune.rpc.transports.fake import FakeTransport

CANARY = Request((), Timing(), 1.0)
SESSION_S = 0.01
LIMIT_S = 60.0


class Noting(FakeTransport):
    """A device whose sessions can be read in a file, whoever dies."""

    def __init__(self, name: str, sessions: int) -> None:
        super().__init__(self._answer)
        self._name = name
        self._sessions = sessions

    def _answer(self, request: Request) -> Reply:
        if request is CANARY:
            return Reply(Outcome.OK, ((0.001,),), (1,))
        trial = round(request.run_limit_s) - 1
        os.write(self._sessions, f"{self._name} begins {trial}\n".encode())
        time.sleep(SESSION_S)
        os.write(self._sessions, f"{self._name} ends {trial}\n".encode())
        return Reply(Outcome.OK, ((1e-6 * (trial + 1),),), (1,))


def main(journal_path: str, sessions_path: str, trials: int, boards: int) -> None:
    journal = JournalFile(Path(journal_path))
    sessions = os.open(sessions_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    names = [f"b{number}" for number in range(boards)]
    limits = Limits(silence_s=None, grace_s=6.0)
    specs = [Board(name, "t", limits=limits, canary_s=0.001, canary_every=10) for name in names]
    ledger = Ledger.of(journal.entries)
    scheduler = Scheduler(specs, Rules(idle_s=0.02), lambda: 0.5, ledger)
    devices = {name: Noting(name, sessions) for name in names}
    driver = FarmDriver(devices, scheduler, CANARY, journal.write, journal.replies)
    driver.tell(Open(Campaign("c")))
    wanted = [Trial(f"t{number}", "c", "t", run_limit_s=5.0) for number in range(trials)]
    driver.submit(*((trial, Request((), Timing(), int(trial.id[1:]) + 1.0)) for trial in wanted))
    until_s = time.monotonic() + LIMIT_S
    while scheduler.ledger.open and time.monotonic() < until_s:
        for ending in driver.take(0.2):
            assert ending.reply is not None
            assert round(1e6 * ending.reply.times_s[0][0]) - 1 == int(ending.trial[1:])
    driver.close()
    journal.close()
    sys.exit(bool(scheduler.ledger.open))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
