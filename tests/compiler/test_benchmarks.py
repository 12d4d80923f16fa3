"""How long a model takes to be read: `make bench-self`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from int8tune.compiler.model import read_model
from int8tune.compiler.quantized_layers import quantized_layers

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")

from tests.support.models.onnx_models import MODELS, quantized


@pytest.mark.benchmark(group="import")
def test_benchmark_import(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """From a file to the layers of a small network with residuals."""
    quantized(MODELS["residual"](), tmp_path, "u8", "s8", True)
    layers = benchmark(lambda: list(quantized_layers(read_model(tmp_path / "quantized.onnx"))))
    assert layers
