"""Signals that come where no exception gets through."""

from __future__ import annotations

import subprocess
import sys

LOST = """
import os, signal, time
from tuner.cli.stopping import interrupt_at_signals

class Dying:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

interrupt_at_signals()
Dying()
print("went on")
"""


def test_an_interruption_that_nobody_gets_ends_the_program() -> None:
    """Python ignores an exception in a destructor."""
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
