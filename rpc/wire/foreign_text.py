"""Text that somebody else wrote, such as a board or a kernel, made fit to be printed in a line of ours."""

from __future__ import annotations


def one_line(text: str, longest: int) -> str:
    """Without anything that moves a cursor or begins a line, and no longer than that."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:longest]


def last_line(text: str, longest: int) -> str:
    """The last line that is not blank, as `one_line` gives it; empty where there is none."""
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1], longest) if lines else ""
