"""Files of all forms, changed at random: each is read, or refused in one line."""

from __future__ import annotations

import random

import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import obstacle_lines
from int8tune.compiler.onnx_reader.model import read_onnx

pytest.importorskip("onnx", reason="needs the extra `models`")

from tests.support.models.onnx_forms import FORMS
from tests.support.mutation.onnx_changes import changed

FEW, MANY = 60, 1000


def read_all(name: str, count: int, seed: int) -> int:
    """How many changed files are compiled; others say why in lines that can be printed."""
    whole, draw, read = FORMS[name](), random.Random(seed), 0
    assert not obstacle_lines(read_onnx(whole, name))
    for _ in range(count):
        try:
            lines = obstacle_lines(read_onnx(changed(whole, draw), name))
        except ModelError as fault:
            lines = [str(fault)]
        assert all(line.isprintable() and len(line) < 500 for line in lines)
        read += not lines
    return read


@pytest.mark.parametrize("name", FORMS)
def test_a_few_changed_files(name: str) -> None:
    assert 0 < read_all(name, FEW, 1) < FEW


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMS)
def test_many_changed_files(name: str) -> None:
    assert read_all(name, MANY, 2) > MANY // 10
