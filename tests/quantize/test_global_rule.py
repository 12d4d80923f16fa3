"""The rule for all ranges that suits the network as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra `quantize`")

import int8tune as it
from int8tune.quantize.errors import QuantizeSpecError
from int8tune.quantize.global_rule import RULES
from tests.support.models.float_models import pictures, run, saved, small, sqnr_db
from tests.support.program.cli_program import in_process

PLAIN = {"equalize": False, "round_weights": False, "bias_correction": False}


def test_it_is_the_best_of_all_on_the_samples(tmp_path: Path) -> None:
    file, samples = saved(small(), tmp_path), pictures(64)
    # Single values far outside, which every tensor would better lose.
    samples[::7, 0, 0, 0] = 60
    right = run(file, samples)
    found = it.quantize(file, samples, **PLAIN, calibration="global")
    each = {str(rule): it.quantize(file, samples, **PLAIN, calibration=str(rule)).proto for rule in RULES}
    decibels = {name: sqnr_db(right, run(proto, samples)) for name, proto in each.items()}
    # Scales of weights are those of `mse`, whichever rule data has.
    assert found.rule == max(decibels, key=lambda name: decibels[name])
    assert sqnr_db(right, run(found.proto, samples)) > decibels["mse"] - 0.1
    about = {entry.key: entry.value for entry in found.proto.metadata_props}
    assert about["int8tune.calibration"] == f"global ({found.rule}), 64 samples"


def test_the_command_says_which_and_wants_samples(tmp_path: Path) -> None:
    file = saved(small(), tmp_path)
    np.save(tmp_path / "s.npy", pictures(8))
    words = ("quantize", file, "-o", tmp_path / "q.onnx", "--calibration", "global")
    done = in_process(*words, "--data", tmp_path / "s.npy")
    assert done.code == 0
    assert "9 tensors by global (" in done.out
    it.profile(file, pictures(8), tmp_path / "r.json")
    refused = in_process(*words, "--ranges", tmp_path / "r.json")
    assert (refused.code, len(refused.errors)) == (2, 1)
    with pytest.raises(QuantizeSpecError, match="--calibration global runs the model on samples"):
        it.quantize(file, ranges=tmp_path / "r.json", calibration="global")
