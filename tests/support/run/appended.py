"""Lines that several calls of pytest append to a file."""

from __future__ import annotations

from pathlib import Path


def append(file: Path, *lines: str) -> None:
    with file.open("a", encoding="utf-8") as rows:
        rows.writelines(f"{line}\n" for line in lines)


def appended(file: Path) -> list[str]:
    """What was appended; nothing where there is no file."""
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []
