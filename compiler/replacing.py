"""Files that are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from int8tune.results.errors import ExportError


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A path to write to, alone in a folder beside `path`. What is there at the end takes the place of `path`.

    Raises:
        ExportError: the file can't be written; an older one is as it was.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            made = Path(folder) / path.name
            yield made
            made.replace(path)
    except OSError as error:
        raise ExportError(f"the file can't be written ({error.strerror}): {path}") from error
