"""Which libraries a GPU's kernels are compared with, and in which class a layer is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from int8tune.schedules.workload import parse_workload
from int8tune.tuner.api import bench
from int8tune.tuner.bench.gpu.layers import GpuLayerClass, gpu_class_of
from int8tune.tuner.bench.gpu.peers import cublaslt


@dataclass(frozen=True)
class Library:
    name: str
    there: bool
    requires: tuple[str, ...] = ("a-distribution",)

    def is_installed(self) -> bool:
        return self.there


def test_what_is_not_installed_is_said_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    here, missing, said = Library("here", there=True), Library("missing", there=False), list[str]()
    monkeypatch.setattr(bench, "GPU_PEERS", (here, missing))
    assert bench._gpu_peers(None, said.append) == (here,)
    (line,) = said
    assert line.startswith("missing is left out, not installed: a-distribution; ")


@pytest.mark.parametrize("path", [None, "libcublasLt.so.13"])
def test_a_library_is_installed_where_it_is_found(path: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublaslt, "find_library", lambda _: path)
    assert {peer.is_installed() for peer in cublaslt.CUBLASLT_PEERS} == {path is not None}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("conv2d-u8s8-1x8x8x15-k3x3x32-s1-p1-float.c-u8", GpuLayerClass.FIRST),
        ("conv2d-u8s8-1x8x8x16-k3x3x32-s1-p1-float.c-u8", GpuLayerClass.SPATIAL),
        ("conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-u8", GpuLayerClass.POINTWISE),
        ("dwconv2d-u8s8-1x8x8x16-k3x3x1-s1-p1-float.c-u8", GpuLayerClass.DEPTHWISE),
        ("dense-u8s8-1024x1024-o2048-float.c-u8", GpuLayerClass.DENSE_LARGE),
        ("dense-u8s8-1023x1024-o2048-float.c-u8", GpuLayerClass.DENSE),
    ],
)
def test_each_layer_has_its_class(key: str, expected: GpuLayerClass) -> None:
    assert gpu_class_of(parse_workload(key)) is expected
