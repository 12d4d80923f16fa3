"""Who runs this program, where, from which sources, and by which command; without the secrets of the command."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from int8tune.results.redaction import HIDDEN, SECRET_NAME, hidden_secrets

GIT_LIMIT_S = 5.0
LONGEST_COMMAND = 4000

# The packages lie at the top of a checkout.
_ROOT = Path(__file__).resolve().parents[1]
# `__main__.py` where Python was asked for the package: `python -m int8tune`.
_PROGRAMS = {"int8tune": "int8tune", "__main__.py": "int8tune"}
_SECRET_OPTION = re.compile(rf"--?{SECRET_NAME}", re.IGNORECASE)


def command_line(words: Sequence[str] | None = None) -> str:
    """What was typed, without passwords, tokens and what else a URL may hide; nothing of the environment.

    Args:
        words: the program and its arguments; those of this process if None.
    """
    program, *arguments = words if words is not None else sys.argv or [""]
    name = Path(program).name
    return shlex.join([_PROGRAMS.get(name, name), *_without_secrets(arguments)])[:LONGEST_COMMAND]


def _without_secrets(arguments: Sequence[str]) -> Iterator[str]:
    is_secret = False
    for argument in arguments:
        if is_secret and not argument.startswith("-"):
            yield HIDDEN
            is_secret = False
            continue
        is_secret = _SECRET_OPTION.fullmatch(argument) is not None
        yield argument if is_secret else hidden_secrets(argument)


def user_name() -> str:
    """Whose process this is, by the system's list of users; a number where it has no name."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def source_commit(root: Path = _ROOT) -> str:
    """The commit of the checkout that this package runs from, with `-dirty` where files are changed; else empty."""
    if not (root / ".git").exists() or not (root / "src" / "int8tune" / "__init__.py").is_file():
        return ""
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=GIT_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()
