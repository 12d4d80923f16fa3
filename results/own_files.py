"""Files and folders under names that are this program's, in folders where others may have put something first.

What is emptied, cut off or removed there must be the program's own: no link is followed, and nothing of another user is
taken, unless that user has the whole folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from int8tune.results.errors import NotOwnFileError


def open_own(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file, or make it where there is none.

    Raises:
        NotOwnFileError: a link, a folder, a pipe or another user's file is there; it is as it was.
        OSError: it can't be opened or made.
    """
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            require_own(path)
        raise
    try:
        _require(os.fstat(descriptor), path, stat.S_IFREG)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_own(path: Path) -> None:
    """Check that a name is free, or a file's.

    Raises:
        NotOwnFileError: as `open_own`.
    """
    with contextlib.suppress(FileNotFoundError):
        _require(path.lstat(), path, stat.S_IFREG)


def require_own_folder(path: Path) -> None:
    """Check that a name is free, or a folder's.

    Raises:
        NotOwnFileError: as `make_own_folder`.
    """
    with contextlib.suppress(FileNotFoundError):
        _require(path.lstat(), path, stat.S_IFDIR)


def make_own_folder(path: Path) -> None:
    """Have a folder; one that is made is for this user alone. The folder around it must be there.

    Raises:
        NotOwnFileError: a link, a file or another user's folder is there.
        OSError: it can't be made.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        require_own_folder(path)


def _require(found: os.stat_result, path: Path, kind: int) -> None:
    is_of_kind = stat.S_IFMT(found.st_mode) == kind
    if is_of_kind and found.st_uid in (os.geteuid(), path.parent.stat().st_uid):
        return
    wanted = "folder" if kind == stat.S_IFDIR else "file"
    if stat.S_ISLNK(found.st_mode):
        what = "a symbolic link"
    elif is_of_kind:
        what = f"another user's {wanted} (uid {found.st_uid})"
    else:
        what = f"no {wanted}"
    raise NotOwnFileError(errno.EPERM, f"{what} is where int8tune has a {wanted} of its own", str(path))
