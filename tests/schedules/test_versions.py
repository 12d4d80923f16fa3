"""What kernels take from TVM depends on its exact version: intrinsics by number, and an interface that changes."""

from __future__ import annotations

import importlib.metadata
import tomllib

from tests.support.places import ROOT


def test_installed_versions_are_the_pinned_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = dict(each.split("==") for each in project["project"]["optional-dependencies"]["tune"] if "==" in each)
    assert set(pins) == {"apache-tvm[rpc]", "apache-tvm-ffi"}
    assert {name: importlib.metadata.version(name.split("[")[0]) for name in pins} == pins
