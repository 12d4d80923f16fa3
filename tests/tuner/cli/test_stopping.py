"""Signals that come where no exception gets through."""

from __future__ import annotations

import subprocess
import sys

LOST = """
import os, signal, time
from int8tune.tuner.cli.stopping import Interruption, ignore_signals, interrupt_at_signals

class Dying:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

interrupt_at_signals()
try:
    Dying()
    time.sleep(5)
    print("went on")
except Interruption:
    time.sleep(0.1)
    print("takes down what was started")
    ignore_signals()
    time.sleep(0.1)
"""


def test_an_interruption_that_nobody_gets_is_raised_again() -> None:
    """Python ignores an exception in a destructor."""
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "takes down what was started\n", "")
