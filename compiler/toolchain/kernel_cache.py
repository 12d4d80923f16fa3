"""Compiled kernels that are kept between compilations: an object file for each key, in a folder of this user alone.

What is kept is code, so nothing is believed that another user could have written: the folder is this user's and closed
to all others, no link is followed, and the digest of each file is checked. It is a help and no more: where the folder
can't be read or written, kernels are compiled. Several processes may use it at once, as files appear whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from int8tune.results.user_cache import default_cache

NO_CACHE = "INT8TUNE_NO_CACHE"
"""The environment variable that keeps compilations from using the cache, whatever its value is."""

MOST_BYTES = 1 << 28
"""Size of all files together; those that were used least recently go first."""

LARGEST_BYTES = 1 << 26
ABANDONED_S = 3600.0
_FORMAT = b"int8tune kernel 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_PARTIAL = ".tmp"


@dataclass(frozen=True, slots=True)
class KernelCounts:
    """How many kernels of a library were compiled for it, and how many were kept from earlier ones."""

    compiled: int
    reused: int


class KernelCache:
    """A folder of object files."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path, self._most_bytes = folder, most_bytes

    def get(self, key: str) -> bytes | None:
        """What was kept under a key; None where that is nothing, damaged, or not to be trusted."""
        try:
            with _own_folder(self._path) as folder:
                return _content(folder, key)
        except OSError:
            return None

    def keep(self, key: str, content: bytes) -> None:
        """Keep an object file, if the folder can be written."""
        with contextlib.suppress(OSError):
            _make_folder(self._path)
            with _own_folder(self._path) as folder:
                _write(folder, key, content)

    def trim(self) -> None:
        """Remove what was used least recently, where all of it is too much, and what writers left that were killed."""
        with contextlib.suppress(OSError), _own_folder(self._path) as folder:
            found = sorted(_files(folder), reverse=True)
            total = 0
            for used_s, size, name in found:
                is_abandoned = name.endswith(_PARTIAL) and time.time() - used_s > ABANDONED_S
                total += size
                if is_abandoned or total > self._most_bytes:
                    total -= size
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=folder)


def users_cache() -> KernelCache | None:
    """The user's cache of kernels; None where there is to be none."""
    if os.environ.get(NO_CACHE):
        return None
    try:
        return KernelCache(default_cache() / "kernels")
    except RuntimeError:  # the user has no home
        return None


def _make_folder(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)


@contextmanager
def _own_folder(path: Path) -> Iterator[int]:
    """The descriptor of a folder that nobody else can read or write.

    Raises:
        OSError: it is not there, a link, another user's, or open to others.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise PermissionError(f"not this user's alone: {path}")
        yield descriptor
    finally:
        os.close(descriptor)


def _content(folder: int, key: str) -> bytes | None:
    descriptor = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return None
        data = file.read(LARGEST_BYTES)  # a longer one has another digest
        head, content = data[: len(_FORMAT) + _DIGEST_BYTES], data[len(_FORMAT) + _DIGEST_BYTES :]
        if head != _head(key, content):
            return None
        with contextlib.suppress(OSError):  # the folder may be read-only
            os.utime(descriptor)
        return content


def _write(folder: int, key: str, content: bytes) -> None:
    partial = f".{secrets.token_hex(8)}{_PARTIAL}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(partial, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_head(key, content) + content)
        os.replace(partial, key, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial, dir_fd=folder)
        raise


def _head(key: str, content: bytes) -> bytes:
    """What a file begins with; a file under another name has another one."""
    return _FORMAT + hashlib.sha256(key.encode() + b"\n" + content).digest()


def _files(folder: int) -> Iterator[tuple[float, int, str]]:
    """When each file was used last, its size and its name."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    yield found.st_mtime, found.st_size, entry.name
