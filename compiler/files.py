"""Files that a user names: read whole, or refused in one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from int8tune.compiler.errors import CompilerError
from int8tune.results.text import printable


def read_file(path: Path, kind: str, most_bytes: int, refusal: Callable[[str], CompilerError]) -> bytes:
    """The bytes of a file of some kind, such as `a model`; what stands against it goes to `refusal`, to be raised."""
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no regular file" if path.exists() else "no such file"
            raise refusal(printable(f"{kind} must be a file, this is {what}: {path}"))
        with path.open("rb") as file:
            # As much as is asked for is allocated, before it is known how much there is.
            data = file.read(min(most_bytes, os.fstat(file.fileno()).st_size) + 1)
    except OSError as error:
        raise refusal(printable(f"{path}: {error.strerror}")) from None
    if len(data) > most_bytes:
        raise refusal(printable(f"{path}: {kind} has at most {most_bytes} bytes"))
    return data
