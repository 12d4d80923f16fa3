"""How long a call takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np


def median_s(run: Callable[[], Any], runs: int) -> float:
    """The median of so many calls."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))
