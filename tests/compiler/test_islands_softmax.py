"""The softmax of islands: rows that vectors don't fill, masked values, values that are no numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.islands.scheduling import with_whole_vectors
from int8tune.compiler.islands.softmax import write_softmax
from tests.support.run.probes import host_target

tvm = pytest.importorskip("tvm", reason="needs TVM")


def computed(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    function = write_softmax(*rows.shape, threads=1).with_attr("global_symbol", "main")
    target = tvm.target.Target(with_whole_vectors(host_target()).tvm)
    library = tvm.compile(tvm.IRModule({"main": function}), target=target)
    made = tvm.runtime.tensor(np.full_like(rows, 7))
    library["main"](tvm.runtime.tensor(rows), made)
    return np.asarray(made.numpy())


@pytest.mark.parametrize("length", [16, 17, 31, 64])
def test_every_length_of_rows_is_right(length: int) -> None:
    rows = np.random.default_rng(length).normal(0, 4, (5, length)).astype(np.float32)
    rows[0, ::3], rows[1, -1], rows[2, 0] = -np.inf, 90, -100
    powers = np.exp((rows - rows.max(axis=1, keepdims=True)).astype(np.float64))
    expected = powers / powers.sum(axis=1, keepdims=True)
    ours = computed(rows)
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-37)
    assert (ours[np.isneginf(rows)] == 0).all()


def test_what_is_no_number_makes_none_of_its_row() -> None:
    rows = np.zeros((4, 20), np.float32)
    rows[0, 3], rows[1, 19], rows[2, :] = np.nan, np.inf, -np.inf
    ours = computed(rows)
    assert np.isnan(ours[0]).all()
    assert np.isnan(ours[1, 19])
    assert np.isnan(ours[2]).all()
    np.testing.assert_array_equal(ours[3], np.float32(0.05))
