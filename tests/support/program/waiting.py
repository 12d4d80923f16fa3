"""What tests wait for, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
