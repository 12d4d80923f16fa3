"""What `make bench-self` makes of sessions, and that what it names is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from int8tune.results.pytest_benchmark import Timed, write_benchmarks
from tests.own_speed import BENCHMARKS, REFERENCE, REFERENCE_S, REGRESSION, compared, in_step, machine_kind
from tests.results.test_reference_speed import COUNT
from tests.support.places import TESTS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_is_there(name: str) -> None:
    place, *names = BENCHMARKS[name].split("::")
    assert f"def {names[-1]}(" in (TESTS / place).read_text(encoding="utf-8")
    assert len(BENCHMARKS) < COUNT


def test_what_the_machine_was_slower_is_taken_off() -> None:
    """The second session ran on a machine that was twice as slow, from its middle on."""
    names = ["append", "query"]
    append, query = (BENCHMARKS[name] for name in names)
    quick = {f"{REFERENCE}[{place}]": 0.02 for place in range(3)} | {f"{append}[a]": 0.01, query: 0.1}
    slow = quick | {f"{REFERENCE}[{place}]": 0.04 for place in (1, 2)} | {f"{append}[a]": 0.0141421356, query: 0.2}
    assert dict(in_step(quick, names)) == pytest.approx({"append[a]": 0.005, "query": 0.05})
    assert dict(in_step(slow, names)) == pytest.approx(dict(in_step(quick, names)))
    assert REFERENCE_S == 0.01


def write(path: Path, scale: float = 1.0, spread: float = 0.01) -> Path:
    steps = (-1, -0.5, 0, 0.5, 1)
    timed = [Timed(name, name, tuple((1 + spread * step) * 0.01 for step in steps)) for name in ("append", "fit")]
    slower = Timed("query", "query", tuple(0.01 * scale * (1 + spread * step) for step in steps))
    write_benchmarks(path, [*timed, slower], "AMD EPYC 9B45")
    return path


@pytest.mark.parametrize(
    ("scale", "spread", "code"), [(1.5, 0.01, REGRESSION), (1.03, 0.01, 0), (1.15, 0.5, 0), (0.5, 0.01, 0)]
)
def test_noise_is_told_from_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scale: float, spread: float, code: int
) -> None:
    before, now = write(tmp_path / "before.json", 1.0, spread), write(tmp_path / "now.json", scale, spread)
    assert compared(before, now, "10%") == code
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("regression: ")]
    assert [line.split()[1] for line in found] == (["query:"] if code else [])


def test_a_kind_of_machine_is_a_name_for_a_file() -> None:
    kind = machine_kind()
    assert kind == machine_kind()
    assert Path(kind).name == kind
    assert "cores-python-3." in kind
