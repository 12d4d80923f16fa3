"""Notes the names that a Python process makes, opens for writing, empties, renames or removes: `written.py`."""

from __future__ import annotations

import os
import sys

_LOG = os.environ.get("WRITTEN_NAMES_LOG", "")
_FOLDERS = {"os.mkdir", "os.rmdir", "shutil.rmtree"}
_FILES = {"os.remove", "os.truncate", "sqlite3.connect"}
_BOTH = {"os.rename"}
_BESIDE = ("", "-journal", "-wal", "-shm")


def _note(kind: str, name: object) -> None:
    if isinstance(name, str | bytes | os.PathLike):
        path = os.path.join(os.getcwd(), os.fsdecode(name))  # noqa: PTH109, PTH118 - in a hook, as little as can be
        descriptor = os.open(_LOG, os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, f"{os.getpid()}\t{kind}\t{path}\n".encode())
        os.close(descriptor)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        flags = arguments[2]
        if arguments[0] != _LOG and isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _note("file", arguments[0])
    elif event == "sqlite3.connect":
        name = str(arguments[0]).removeprefix("file://").partition("?")[0]
        for suffix in _BESIDE:
            _note("file", name + suffix)
    elif event in _FOLDERS:
        _note("folder", arguments[0])
    elif event in _FILES:
        _note("file", arguments[0])
    elif event in _BOTH:
        for both in arguments[:2]:
            _note("any", both)


if _LOG:
    sys.addaudithook(_hook)
