"""The networks that `examples/make_models.py` writes, against the layer tables that come with the package."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.compiler.graph import Kind, Operator
from int8tune.compiler.model import read_model
from int8tune.compiler.network import Network
from int8tune.compiler.network_file import load_network
from int8tune.compiler.program import steps_of
from int8tune.compiler.quantized_layers import network_of
from int8tune.schedules.workload import Workload
from tests.support.places import ROOT

pytest.importorskip("onnx", reason="needs the extra `peers`")
pytest.importorskip("onnxruntime", reason="needs the extra `peers`")

EXAMPLE = ROOT / "examples" / "make_models.py"
SMALL = ("mobilenet_v1", "mobilenet_v2")
LARGE = ("resnet18", "resnet50", "inception_v1", "inception_v2", "inception_v3", "inception_v4")


def make_models(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def layers_alone(network: Network) -> Counter[Workload]:
    """How often each layer runs, without the additions and activations that a model's layers also compute."""
    counts: Counter[Workload] = Counter()
    for layer in network.layers:
        numerics = replace(layer.workload.numerics, residual=None, clamp=False)
        counts[replace(layer.workload, numerics=numerics)] += layer.count
    return counts


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*SMALL, *[pytest.param(name, marks=pytest.mark.slow) for name in LARGE]])
def test_networks_have_the_layers_of_their_tables(name: str, tmp_path: Path) -> None:
    done = make_models(name, "-o", tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        f"{tmp_path}/{name}.onnx",
        f"{tmp_path}/{name}_int8.onnx",
    ]
    graph = read_model(tmp_path / f"{name}_int8.onnx")
    network, table = network_of(graph), load_network(name)
    assert layers_alone(network) == layers_alone(table)
    assert network.macs == table.macs
    others = {step.kind for step in steps_of(graph) if isinstance(step, Operator)}
    assert others.isdisjoint({Kind.OTHER, Kind.ADD, Kind.LOOKUP})


def test_unknown_networks_are_named_with_the_known_ones() -> None:
    done = make_models("resnet101")
    assert done.returncode == 2
    assert "unknown network `resnet101`, known: resnet18, resnet50, inception_v1" in done.stderr


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = make_models("mobilenet_v1", "-o", tmp_path / "file")
    assert done.returncode == 1
    assert done.stderr == f"error: File exists: {tmp_path}/file\n"
