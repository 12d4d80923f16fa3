"""Every error that can reach a person has an exit code and a hint."""

from __future__ import annotations

import errno

import pytest

from int8tune.compiler.errors import CompilerError, LayerTableError
from int8tune.quantize.errors import QuantizeError
from int8tune.results.errors import ResultsError
from int8tune.rpc.errors import DeviceLostError, RpcError
from int8tune.schedules.errors import ScheduleError
from int8tune.tuner.cli.failures import FAILURES, explain, failure_of
from int8tune.tuner.errors import DeviceGoneError, SpecError, TooManyThreadsError, TunerError

TREES = (TunerError, ResultsError, RpcError, ScheduleError, CompilerError, QuantizeError)


def heirs(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(heirs(heir) for heir in kind.__subclasses__()))


def test_every_tree_is_in_the_table() -> None:
    kinds = set().union(*(heirs(tree) for tree in TREES))
    assert len(kinds) > 25
    for kind in kinds:
        found = next(FAILURES[base] for base in kind.__mro__ if base in FAILURES)
        assert found.exit_code in (1, 2, 4)
        assert found.hint == found.hint.strip().removesuffix(".")


def test_the_nearest_base_counts() -> None:
    assert failure_of(DeviceGoneError("gone")).exit_code == 4
    assert failure_of(DeviceLostError("lost")).exit_code == 4
    assert failure_of(SpecError("no")).exit_code == 2
    assert failure_of(PermissionError()) is FAILURES[OSError]


def test_an_error_without_entry_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(KeyError("x"), debug=False) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "error: this is a bug in int8tune: KeyError: 'x'",
        "hint: report it with the traceback, which the same command with --debug shows",
    ]


def test_each_fault_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(LayerTableError(["a: one", "a: two"]), debug=False) == 1
    assert capsys.readouterr().err.splitlines()[:2] == ["error: a: one", "error: a: two"]


def test_too_many_threads_are_made_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    """The device has nothing to do with it."""
    assert explain(TooManyThreadsError("threads must be 1 to 2: 64"), debug=False) == 1
    assert capsys.readouterr().err.splitlines()[1] == "hint: give it fewer: --threads N; without the option it is one"


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "make room"), (errno.EROFS, "--results DIR"), (errno.EACCES, "--results DIR")]
)
def test_errors_of_the_system(number: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError(number, "It Failed", "/some/file")
    assert explain(error, debug=False) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: it failed: /some/file"
    assert words in lines[1]


def test_a_traceback_only_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise SpecError("too many\x1b[31m")
    except SpecError as error:
        explain(error, debug=True)
    text = capsys.readouterr().err
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.splitlines()[-2] == r"error: too many\x1b[31m"
    assert "\x1b" not in text
