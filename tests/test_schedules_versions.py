"""What kernels take from TVM depends on its exact version: intrinsics by number, and an interface that changes."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path


def test_installed_versions_are_the_pinned_ones() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    pins = dict(dependency.split("==") for dependency in project["project"]["dependencies"] if "==" in dependency)
    assert set(pins) == {"apache-tvm[rpc]", "apache-tvm-ffi"}
    assert {name: importlib.metadata.version(name.split("[")[0]) for name in pins} == pins
