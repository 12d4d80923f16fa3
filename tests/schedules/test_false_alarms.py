"""Right kernels are found right, and a command that looks for false alarms would see one."""

from __future__ import annotations

import pytest

from int8tune.results.record import Outcome
from tests import false_alarms
from tests.support.program.results_samples import failed, ok

pytestmark = pytest.mark.promise(10)


@pytest.mark.thorough
def test_right_kernels_of_a_few_layers_are_found_right(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--layers", "1", "--targets", "generic", "--trials", "2"]
    assert false_alarms.main([*arguments, "--enough", "2"]) == 0
    assert "different kernels verified, 0 found wrong or not measured" in capsys.readouterr().out


def test_a_kernel_that_is_found_wrong_is_an_alarm() -> None:
    wrong = failed(1, Outcome.WRONG_ANSWER, "WrongValues", "case 0: 1 of 256 values differ")
    found = false_alarms.verified([ok(0), wrong])
    assert found.binaries == 1
    assert [line.split(":")[0] for line in found.accused] == ["wrong_answer"]


def test_too_few_kernels_are_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(false_alarms, "campaign", lambda *_: [ok(0), ok(1)])
    assert false_alarms.main(["--targets", "generic", "--enough", "3"]) == 1
    wrong = failed(2, Outcome.WRONG_ANSWER, "WrongValues", "case 0: 1 of 256 values differ")
    monkeypatch.setattr(false_alarms, "campaign", lambda *_: [ok(0), ok(1), wrong])
    assert false_alarms.main(["--targets", "generic", "--enough", "1"]) == 1
