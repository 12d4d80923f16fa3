"""The cosines and sines of discrete Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt


def waves(places: int, bins: int, length: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Cosines and sines [places, bins] of the angles 2 pi * place * bin / length, computed from whole turns.

    In binary64, whose rounding is far below that of the binary32 which they become.
    """
    angles = 2 * math.pi / length * (np.outer(np.arange(places), np.arange(bins)) % length)
    return np.cos(angles), np.sin(angles)
