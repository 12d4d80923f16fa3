"""Real quantized models and pictures, which stand beside the repository; tests that need them are skipped without."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.places import ROOT

FOLDER = ROOT.parent / "shared" / "models"
V1_SMALL, V1, V2, V2_INT8 = (
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v1_0.75_192_quant",
    "mobilenet_v2_1.0_224_quant",
    "tf2_mobilenet_v2_1.0_224_ptq",
)
PICTURES = ("bird", "cat", "grace_hopper")

Array = npt.NDArray[Any]


def more_model(name: str) -> Path:
    """A model of those that were once refused or wrong; skips the test where it is missing."""
    path = FOLDER / "more" / name
    if not path.exists():
        pytest.skip(f"needs the model {name}, which is not in {path.parent}")
    return path


def model_path(name: str) -> Path:
    path = FOLDER / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"needs the model {name}, which is not in {FOLDER}")
    return path


def picture(name: str, height: int, width: int) -> Array:
    """A picture as uint8 [1, height, width, 3], red first: each pixel is the one next to its middle."""
    path = FOLDER / f"{name}.bmp"
    if not path.exists():
        pytest.skip(f"needs the picture {name}, which is not in {FOLDER}")
    data = path.read_bytes()
    (start,) = struct.unpack_from("<I", data, 10)
    columns, rows = struct.unpack_from("<ii", data, 18)
    assert struct.unpack_from("<H", data, 28) == (24,)
    line = -(-3 * columns // 4) * 4
    lines = np.frombuffer(data, np.uint8, abs(rows) * line, start).reshape(abs(rows), line)
    upright = lines[::-1] if rows > 0 else lines
    pixels = upright[:, : 3 * columns].reshape(abs(rows), columns, 3)[:, :, ::-1]
    down, across = (
        (2 * np.arange(count) + 1) * extent // (2 * count) for count, extent in ((height, abs(rows)), (width, columns))
    )
    return np.ascontiguousarray(pixels[down][:, across][None])


def labels() -> list[str]:
    """The names of the 1001 classes."""
    return (FOLDER / "imagenet_labels.txt").read_text(encoding="utf-8").splitlines()
