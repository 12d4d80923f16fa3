"""Files whose batch is open, as Keras's models are converted: shapes that are computed, and extents stored as 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.fused_graph import with_fused_rules
from int8tune.compiler.obstacles import int8_share, obstacles
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.schedules.target import Target
from tests.support.models.compiled import assert_exact
from tests.support.models.tflite_models import values_of
from tests.support.models.tflite_open_batch import BUILDS, OpenWriter

pytest.importorskip("tflite", reason="needs the extra `models`")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.matrix(at_most=1)
def test_layers_are_litert_s(build: Callable[[OpenWriter], int], native: Target, tmp_path: Path) -> None:
    w = OpenWriter()
    file = w.model(build(w))
    graph = with_fused_rules(read_tflite(file, "open"))
    assert not obstacles(graph)
    assert int8_share(graph) == 1
    feeds = {"x": np.random.default_rng(4).integers(-128, 128, graph.values["x"].shape, np.int8)}
    made = assert_exact(graph, native, feeds, tmp_path)
    np.testing.assert_array_equal(made["y"], values_of(file, feeds)["y"], strict=True)
