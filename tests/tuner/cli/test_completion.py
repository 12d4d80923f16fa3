"""What a shell is offered where somebody presses Tab."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.program.cli_program import command, int8tune
from tests.support.run.thinned import one_in


def offered(line: str, folder: Path) -> list[str]:
    """What bash is offered for the last word of a line, which may be empty."""
    words = f"int8tune {line}"
    asked = {"_INT8TUNE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    # The program's name makes the variable's: it is started as a shell does, not as a module.
    shown = int8tune(env=asked, cwd=folder)
    assert (shown.code, shown.err) == (0, "")
    return shown.out.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    one_in(
        3,
        [
            ("tu", ["tune"]),
            ("tune mobile", ["mobilenet_v1", "mobilenet_v2"]),
            ("plan resnet18 --target x86-av", ["x86-avx512vnni", "x86-avxvnni", "x86-avx2"]),
            ("tune resnet18 --strategy ", ["xgboost", "evolution", "descent", "random", "grid"]),
            ("templates show generic", ["generic.direct", "generic.depthwise"]),
            ("bench resnet18 --against onednn,open", ["onednn,openvino"]),
            ("tune resnet18 --devices pi", ["pi-1", "pi-2"]),
            ("devices check pi-2", ["pi-2"]),
            ("tune resnet18 --inventory none.toml --devices ", []),
        ],
    ),
)
def test_values_are_offered(line: str, expected: list[str], tmp_path: Path) -> None:
    boards = [
        f'[[boards]]\nname = "{name}"\ntransport = "simulated"\ntarget = "generic"\n' for name in ("pi-1", "pi-2")
    ]
    (tmp_path / "farm.toml").write_text("\n".join(boards))
    assert offered(line, tmp_path) == expected


@pytest.mark.parametrize("shell", one_in(3, ["bash", "zsh", "fish"]))
def test_each_shell_has_its_script(shell: str, tmp_path: Path) -> None:
    known = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    shown = int8tune("--show-completion", shell, env=known)
    assert shown.code == 0, shown.err
    assert "_INT8TUNE_COMPLETE" in shown.out
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(shown.out)
        subprocess.run([shell, "-n", script], check=True, timeout=20)
    assert int8tune("--install-completion", shell, env=known).code == 0
    assert any("int8tune" in path.name for path in tmp_path.rglob("*"))


def test_the_shell_that_asks_is_known() -> None:
    shown = subprocess.run(
        ["bash", "-c", f"{shlex.join(command('--show-completion'))}; exit $?"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )
    assert shown.returncode == 0, shown.stderr
    assert "complete -o default -F _int8tune_completion int8tune" in shown.stdout
