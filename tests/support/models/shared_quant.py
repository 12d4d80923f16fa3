"""Trained float models and their data, which stand beside the repository; tests that need them are skipped without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.places import ROOT

FOLDER = ROOT.parent / "shared" / "quant"
NETWORKS = ("dscnn", "resnet8", "resnet8_large", "mobilenet_v2_cifar", "vww")
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
VWW_PIXELS = 96

Array = npt.NDArray[Any]


def shared_file(name: str) -> Path:
    """A file of the folder; skips the test where it is missing."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"needs {name}, which is not in {FOLDER}")
    return path


def float_model(network: str) -> Path:
    """The model of one of `NETWORKS`."""
    return shared_file(f"{network}.onnx")


def inputs_of(network: str, part: str) -> Array:
    """What a network takes, float32: `calibration` or `test`."""
    if network == "dscnn":
        with np.load(shared_file("keywords.npz")) as found:
            return np.asarray(found["calibration" if part == "calibration" else "inputs"])
    with np.load(shared_file("cifar10_sample.npz")) as found:
        pixels = found["calibration" if part == "calibration" else "images"].transpose(0, 3, 1, 2).astype(np.float32)
    if network == "vww":
        # There are no pictures of its own size: each pixel becomes nine.
        times = VWW_PIXELS // pixels.shape[-1]
        return np.asarray(pixels.repeat(times, axis=2).repeat(times, axis=3) / np.float32(255))
    if network != "mobilenet_v2_cifar":
        return np.asarray(pixels)
    mean, std = (np.asarray(values, np.float32).reshape(1, 3, 1, 1) for values in (MEAN, STD))
    return np.asarray((pixels / np.float32(255) - mean) / std)


def labels_of(network: str) -> Array | None:
    """The classes of the `test` inputs; None for a network without any."""
    if network == "vww":
        return None
    with np.load(shared_file("keywords.npz" if network == "dscnn" else "cifar10_sample.npz")) as found:
        return np.asarray(found["labels"])
