"""Digests that show that no kernel changed: the same in every process, and a line for each that is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from int8tune.schedules.registry import TEMPLATES
from int8tune.schedules.target import PROFILE_NAMES
from tests import kernel_digests
from tests.kernel_digests import CHANGED, all_jobs, differences, main, read_digests


def test_jobs_have_each_template_and_each_profile() -> None:
    assert {job.template for job in all_jobs()} == {template.name for template in TEMPLATES}
    assert {job.profile for job in all_jobs()} == set(PROFILE_NAMES)


def test_differences_say_what_changed_went_and_came() -> None:
    old, new = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "d": "4"}
    assert differences(old, new) == ["! b", "- c", "+ d"]


@pytest.mark.thorough
def test_run_is_compared_with_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = next(job for job in all_jobs() if job.profile == "x86-avx2" and job.key.startswith("dense"))
    monkeypatch.setattr(kernel_digests, "all_jobs", lambda: [job])
    old, new = tmp_path / "old", tmp_path / "new"
    arguments = ["--jobs", "1", "--template", job.template]
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    assert main([str(old), *arguments]) == 0
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    assert main([str(new), *arguments, "--against", str(old)]) == 0
    assert read_digests(new) == read_digests(old) != {}
    old.write_text(old.read_text().replace(next(iter(read_digests(old).values())), "0" * 64))
    assert main([*arguments, "--against", str(old)]) == CHANGED
    assert capsys.readouterr().out.splitlines()[-1] == f"! {next(iter(read_digests(old)))}"


def test_missing_earlier_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--against", "no-such-file"])
    assert "no file of an earlier run: no-such-file" in capsys.readouterr().err
