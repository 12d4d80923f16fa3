"""Spectra and grids of places, which are products with constant matrices, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter, assert_close, feed_of, outputs_of
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which results are compared with")

RNG = np.random.default_rng(10)
SHAPE = (2, 60)
Build = Callable[[IslandWriter], str]


def _dft(w: IslandWriter, shape: tuple[int, ...], *length: int, axis: int = 1, **attributes: Any) -> str:
    data = w.apply("Reshape", w.data, np.array(shape))
    return w.apply("DFT", data, *(np.array(each) for each in length), axis=axis, **attributes)


def _stft(w: IslandWriter, step: int, length: int, window: Any = None, **attributes: Any) -> str:
    table = "" if window is None else window if isinstance(window, str) else np.asarray(window, np.float32)
    return w.apply("STFT", w.data, np.array(step), table, np.array(length), **attributes)


def _through_a_window(w: IslandWriter, name: str) -> str:
    return _stft(w, 5, 16, w.apply(name, np.array(16)))


def _filtered(w: IslandWriter) -> str:
    """Loudnesses in bands of frequencies, as speech recognizers begin."""
    whole = (np.array(each) for each in (6, 16, 8000))
    filters = w.apply("MelWeightMatrix", *whole, np.float32(20), np.float32(3800))
    parts = _stft(w, 4, 16, np.hanning(16))
    return w.apply("MatMul", w.apply("ReduceSumSquare", parts, np.array([-1]), keepdims=0), filters)


BUILDS: dict[str, Build] = {
    "DFT": lambda w: _dft(w, (2, 60, 1)),
    "half": lambda w: _dft(w, (2, 60, 1), onesided=1),
    "complex": lambda w: _dft(w, (2, 30, 2)),
    "inverse": lambda w: _dft(w, (2, 30, 2), inverse=1),
    "another axis": lambda w: _dft(w, (2, 15, 4, 1), axis=2),
    "longer": lambda w: _dft(w, (2, 60, 1), 64, onesided=1),
    "shorter": lambda w: _dft(w, (2, 30, 2), 24),
    "STFT": lambda w: _stft(w, 7, 15),
    "its window": lambda w: _stft(w, 4, 16, np.hanning(16)),
    "whole": lambda w: _stft(w, 8, 12, RNG.uniform(size=12), onesided=0),
    **{
        name: lambda w, name=name: _through_a_window(w, name)
        for name in ("HannWindow", "HammingWindow", "BlackmanWindow")
    },
    "MelWeightMatrix": _filtered,
}


@pytest.mark.parametrize("name", one_in(4, BUILDS))
@pytest.mark.matrix(at_most=1)
def test_spectra_are_what_onnx_runtime_computes(name: str, tmp_path: Path) -> None:
    w = IslandWriter(SHAPE)
    file = w.file(BUILDS[name](w), opset=18)
    ours, theirs = outputs_of(file, tmp_path, {"x": feed_of(SHAPE)})
    # ONNX Runtime multiplies waves in binary32 where a length is no power of two: what comes of that is below.
    for label, expected in theirs.items():
        assert ours[label].shape == expected.shape
        np.testing.assert_allclose(ours[label], expected, atol=2e-5 * float(np.abs(expected).max()), rtol=0)


def test_spectra_are_exact_to_the_rounding_of_their_sums(tmp_path: Path) -> None:
    w = IslandWriter(SHAPE)
    (made,), _ = (
        list(each.values()) for each in outputs_of(w.file(_dft(w, (2, 60, 1))), tmp_path, {"x": feed_of(SHAPE)})
    )
    expected = np.fft.fft(_read(feed_of(SHAPE)))
    np.testing.assert_allclose(made[..., 0] + 1j * made[..., 1], expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def _read(feed: Any) -> Any:
    """What a model's nodes read of its input."""
    return 0.03 * (np.clip(np.rint(feed / np.float32(0.03)) + 120, 0, 255) - 120)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(2, 3, 5, 4), (2, 3, 4, 3, 2)])
@pytest.mark.parametrize("is_aligned", [0, 1])
def test_grids_are_what_onnx_runtime_computes(size: tuple[int, ...], is_aligned: int, tmp_path: Path) -> None:
    axes = len(size) - 2
    w = IslandWriter((2, axes * (axes + 1)))
    theta = w.apply("Reshape", w.data, np.array([2, axes, axes + 1]))
    file = w.file(w.apply("AffineGrid", theta, np.array(size), align_corners=is_aligned), opset=20)
    assert_close(*outputs_of(file, tmp_path, {"x": feed_of((2, axes * (axes + 1)))}))


def test_half_of_a_spectrum_becomes_real_data(tmp_path: Path) -> None:
    """ONNX Runtime does not compute it."""
    for length in (14, 15):
        (folder := tmp_path / str(length)).mkdir()
        w = IslandWriter((3, 16))
        data = w.apply("Reshape", w.data, np.array([3, 8, 2]))
        inverse = w.apply("DFT", data, np.array(length), np.array(1), opset=20, inverse=1, onesided=1)
        outputs, _ = outputs_of(w.file(inverse, opset=20), folder, {"x": (feed := feed_of((3, 16)))})
        parts = _read(feed).reshape(3, 8, 2)
        expected = np.fft.irfft(parts[..., 0] + 1j * parts[..., 1], length)
        np.testing.assert_allclose(outputs[inverse][..., 0], expected, atol=1e-6)


def test_frames_of_too_many_values_are_refused() -> None:
    w = IslandWriter((1, 1 << 13))
    (found,) = obstacles(read_onnx(w.file(_stft(w, 1, 1 << 12)), "spectra"))
    assert found.reason == "its frames have over 4,194,304 values: 4097 of 4096"


def test_waves_of_too_many_values_are_refused() -> None:
    w = IslandWriter(SHAPE)
    (found,) = obstacles(read_onnx(w.file(_dft(w, (2, 60, 1), 100_000)), "spectra"))
    assert found.reason == "its waves have over 4,194,304 values: [60, 100000]"
