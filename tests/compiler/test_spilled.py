"""Constants of a compilation that lie in a file meanwhile: the library is what it would be without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler import spilled
from int8tune.compiler.program import Call
from int8tune.compiler.spilled import LEAST_BYTES, Spilled
from tests.support.models.onnx_islands import SHAPE, IslandWriter, compiled

RNG = np.random.default_rng(0)


def test_arrays_are_read_from_the_file_each_content_once(tmp_path: Path) -> None:
    large = RNG.integers(-128, 128, (3, LEAST_BYTES), np.int8)
    turned, small = RNG.normal(size=(2, LEAST_BYTES)).T, np.arange(5)
    call = Call((), "", {}, "kernel", ("x", large, turned, large.copy(), small, large.view(np.uint8)), ("y",))
    made = Spilled(tmp_path / "constants").call(call)
    assert made.arguments[0] == "x"
    arrays = [each for each in made.arguments if not isinstance(each, str)]
    for given, found in zip((large, turned, large, small, large.view(np.uint8)), arrays, strict=True):
        assert given.dtype == found.dtype
        np.testing.assert_array_equal(given, found)
    assert arrays[0] is arrays[2]
    assert arrays[3] is small
    assert all(isinstance(each, np.memmap) for each in (arrays[0], arrays[1], arrays[4]))
    assert (tmp_path / "constants").stat().st_size == large.nbytes * 2 + turned.nbytes
    (tmp_path / "constants").unlink()
    np.testing.assert_array_equal(arrays[1], turned)


def test_a_library_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = IslandWriter()
    weight = RNG.normal(size=(SHAPE[-1], 300))
    file = writer.file(writer.apply("MatMul", writer.data, weight), writer.apply("MatMul", writer.data, -weight))
    made = []
    for name, least in (("usual", LEAST_BYTES), ("spilled", 1)):
        monkeypatch.setattr(spilled, "LEAST_BYTES", least)
        (tmp_path / name).mkdir()
        compiled(file, tmp_path / name)
        (library,) = (tmp_path / name).glob("*.so")
        made.append(library.read_bytes())
    assert made[0] == made[1]
