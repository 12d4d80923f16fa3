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

HIDDEN = "***"
GIT_LIMIT_S = 5.0
LONGEST_COMMAND = 4000

# The packages lie at the top of a checkout.
_ROOT = Path(__file__).resolve().parents[1]
# `__main__.py` where Python was asked for the package: `python -m int8tune`.
_PROGRAMS = {"int8tune": "int8tune", "__main__.py": "int8tune"}
_SECRET_NAME = r"[\w.-]*(?:password|passwd|passphrase|secret|token|credential|api[_-]?key|access[_-]?key|auth)[\w.-]*"
_SECRET_OPTION = re.compile(rf"--?{_SECRET_NAME}", re.IGNORECASE)
_SECRET_VALUE = re.compile(rf"\b({_SECRET_NAME}\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s&;,]+)", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.IGNORECASE)
# All of what stands between the scheme and the last @: a password may have one, too.
_USER_OF_URL = re.compile(r"([a-z][a-z0-9+.-]*://)([^/\s@]*@)+", re.IGNORECASE)
_QUERY_OF_URL = re.compile(r"([a-z][a-z0-9+.-]*://[^\s?'\"]*\?)[^\s'\"]+", re.IGNORECASE)
# Who knows the path of a webhook may write to it.
_WEB_PATH = re.compile(r"(https?://[^/\s'\"]+/)[^\s'\"]+", re.IGNORECASE)


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


def hidden_secrets(argument: str) -> str:
    """A text without the passwords, tokens and paths of webhooks in it."""
    text = _BEARER.sub(rf"\1 {HIDDEN}", argument)
    text = _SECRET_VALUE.sub(rf"\1{HIDDEN}", text)
    text = _USER_OF_URL.sub(rf"\1{HIDDEN}@", text)
    text = _WEB_PATH.sub(rf"\1{HIDDEN}", text)
    return _QUERY_OF_URL.sub(rf"\1{HIDDEN}", text)


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
