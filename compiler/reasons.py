"""What TVM says is wrong, short enough for a message."""

from __future__ import annotations

from int8tune.results.text import clipped


def reason_of(error: Exception) -> str:
    """What TVM says of an error, in one line: a program comes first, then the reason, then remarks on the program."""
    lines = [line.strip() for line in str(error).splitlines()]
    return clipped(([line for line in lines if line and not line.startswith("#")] or [type(error).__name__])[-1])
