"""Real quantized models, which stand beside the repository; tests that need them are skipped without."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "models"
V1_SMALL, V1, V2, V2_INT8 = (
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v1_0.75_192_quant",
    "mobilenet_v2_1.0_224_quant",
    "tf2_mobilenet_v2_1.0_224_ptq",
)


def model_path(name: str) -> Path:
    path = FOLDER / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"needs the model {name}, which is not in {FOLDER}")
    return path
