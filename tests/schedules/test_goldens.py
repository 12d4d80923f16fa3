"""Kernels are those of the golden files; the review of a schedule is the review of their difference."""

from __future__ import annotations

import difflib

import pytest

from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.registry import TEMPLATES
from int8tune.schedules.target import PROFILE_NAMES
from tests.support.kernels import golden as golden_kernels
from tests.support.kernels.golden import FOLDER, WIDTH, Case, cases, golden_text, source_line, store, stored_text
from tests.support.run.thinned import representatives

CASES = cases()
MOST_BYTES_A_FILE = 4_100
MOST_LINES_SHOWN = 100
REFRESH = "pytest tests/schedules/test_goldens.py --refresh-golden"


def name_of(case: Case) -> str:
    """A case in a test's name."""
    return f"{case.template.name}-{case.profile}"


def difference(case: Case, stored: str, made: str) -> str:
    """What changed, and what to do about it."""
    path = str(case.path.relative_to(FOLDER.parent.parent))
    lines = list(difflib.unified_diff(stored.splitlines(), made.splitlines(), path, "this code", lineterm="", n=2))
    left_out = len(lines) - MOST_LINES_SHOWN
    shown = [*lines[:MOST_LINES_SHOWN], *[f"... and {left_out} lines more"] * (left_out > 0)]
    return "\n".join([f"the kernel of {path} changed:", *shown, f"if it is meant to, run: {REFRESH}"])


@pytest.mark.parametrize("case", representatives(CASES, lambda case: (case.template.name, case.profile)), ids=name_of)
def test_kernel_is_the_golden_one(case: Case, refresh_golden: bool) -> None:
    if reason := golden_kernels.missing(case.profile):
        pytest.skip(reason)
    made = golden_text(case)
    if refresh_golden:
        store(case, made)
    stored = stored_text(case)
    if made != stored:
        pytest.fail(difference(case, stored, made), pytrace=False)


@pytest.mark.parametrize("case", [case for case in CASES if case.profile in GPU_PROFILES], ids=name_of)
def test_gpu_source_is_the_golden_one(case: Case) -> None:
    """Machines without NVIDIA's compiler notice a changed kernel, too."""
    if source_line(case) not in stored_text(case).splitlines():
        pytest.fail(f"the CUDA C++ of {name_of(case)} changed; if it is meant to, run: {REFRESH}", pytrace=False)


def test_each_template_and_each_profile_has_a_file() -> None:
    assert {path for path in FOLDER.rglob("*") if path.is_file()} == {case.path for case in CASES}
    assert {case.template for case in CASES} == set(TEMPLATES)
    assert {case.profile for case in CASES} == set(PROFILE_NAMES)


def test_files_can_be_reviewed() -> None:
    texts = [path.read_text() for path in FOLDER.rglob("*.s")]
    assert max(len(line) for text in texts for line in text.splitlines()) <= WIDTH
    assert sum(map(len, texts)) < MOST_BYTES_A_FILE * len(texts)
