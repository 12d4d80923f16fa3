"""Changed files of every kind are read or refused, and the fuzzer would see it if they were not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.kinds import COMPILED, KINDS
from tests.fuzz.run import Reader, fuzz
from tests.support.places import TESTS


def _quick(kind: str) -> Any:
    missing = KINDS[kind].missing
    return pytest.param(kind, marks=pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}"))


@pytest.mark.parametrize("kind", [_quick(kind) for kind in ("best-log", "farm", "journal", "onnx")])
def test_changed_files_are_read_or_refused(kind: str) -> None:
    outcomes = fuzz(kind, range(12), math.inf)
    assert not outcomes.failures
    assert outcomes.counts["refused"]


@pytest.mark.parametrize("kind", [_quick(kind) for kind in KINDS if kind not in COMPILED])
def test_samples_that_nobody_changed_are_read(kind: str, tmp_path: Path) -> None:
    KINDS[kind].make(tmp_path)
    KINDS[kind].read(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [_quick(kind) for kind in COMPILED])
def test_changed_models_compile_or_are_refused(kind: str) -> None:
    outcomes = fuzz(kind, range(12), math.inf)
    assert not outcomes.failures
    assert outcomes.counts["refused"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [_quick(kind) for kind in KINDS])
def test_changed_files_of_every_kind_for_long(kind: str) -> None:
    first = time.time_ns() % 10**9
    print(f"python -m tests.fuzz --kind {kind} --seed {first}")
    assert not fuzz(kind, range(first, 10**12), time.monotonic() + 600 / len(KINDS)).failures


BAD_READERS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "hang": ("all(True for _ in iter(int, 1))", lambda what: "over" in what),
    "crash": ("os.abort()", lambda what: "exit code -6" in what),
    "memory": ("bytes(3 << 30)", lambda what: "MemoryError" in what),
    "fault": ("{}[7]", lambda what: "KeyError" in what),
}


@pytest.mark.parametrize("outcome", BAD_READERS)
def test_the_fuzzer_finds_readers_that_are_bad(outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    act, says = BAD_READERS[outcome]
    changed = tmp_path / "tests" / "fuzz"
    changed.mkdir(parents=True)
    (tmp_path / "tests" / "__init__.py").write_text("")
    (changed / "__init__.py").write_text("")
    (changed / "child.py").write_text((TESTS / "fuzz" / "child.py").read_text())
    (changed / "kinds.py").write_text(
        f"import os\nclass Kind:\n    refusals = (OSError,)\n    make = staticmethod(lambda folder: None)\n"
        f"    @staticmethod\n    def read(folder):\n        if folder.name == 'bad': {act}\nKINDS = {{'x': Kind}}\n"
    )
    (tmp_path / "bad").mkdir()
    monkeypatch.setattr("tests.fuzz.run.PYTHON_PATH", str(tmp_path))
    monkeypatch.setattr("tests.fuzz.run.LIMIT_S", 0.5)
    with Reader("x") as reader:
        assert reader.read(tmp_path)[0] == "read"
        ended, what = reader.read(tmp_path / "bad")
        assert ended == outcome, what
        assert says(what)
        assert reader.read(tmp_path)[0] == "read"
