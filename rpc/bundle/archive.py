"""A bundle's file: a zip archive that Python runs. Nothing of it is used before its sha256 was compared."""

from __future__ import annotations

import errno
import hashlib
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.bundle.manifest import LONGEST_BYTES, MANIFEST, Manifest, id_of, manifest_from_json
from int8tune.rpc.errors import BundleError

AGENT_FOLDER = "agent"
FILES_FOLDER = "files"

_CHUNK = 1 << 20
_LARGEST_DIRECTORY = 16 << 20
# What reading a damaged archive may raise, whatever byte it is.
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose manifest was read.

    Attributes:
        id: the sha256 of its manifest.
    """

    path: Path
    id: str
    manifest: Manifest


def open_bundle(path: Path) -> Bundle:
    """Read a bundle's manifest.

    Raises:
        BundleError: it is damaged, or no bundle, or of another version.
        OSError: the file can't be read.
    """
    require_file(path)
    with _archive(path) as archive:
        content = b"".join(_content(archive, MANIFEST, LONGEST_BYTES))
        bundle_id = id_of(content)
        if archive.comment != bundle_id.encode():
            raise ValueError("its manifest is not the one that was written")
    return Bundle(path, bundle_id, manifest_from_json(content))


def require_file(path: Path) -> None:
    """Raises: OSError: it is not there, no file, or may not be read."""
    if not stat.S_ISREG(path.stat().st_mode):  # another kind of file might never end
        raise OSError(errno.EINVAL, "not a file", str(path))
    with path.open("rb"):
        pass


def check_bundle(bundle: Bundle, take: Callable[[str, bytes], None] = lambda _name, _data: None) -> None:
    """Compare all files with the manifest.

    Args:
        take: is given each file piece by piece while it is compared, the last piece empty. What it was given of a
            file is worth nothing where this raises.

    Raises:
        BundleError: a file is missing, changed, or too much.
    """
    with _archive(bundle.path) as archive:
        files = bundle.manifest.files
        if sorted(archive.namelist()) != sorted([*files, MANIFEST]):
            raise ValueError("it has other files than its manifest says")
        for name, file in sorted(files.items()):
            digest, size = hashlib.sha256(), 0
            for data in _content(archive, name, file.size_bytes):
                digest.update(data)
                size += len(data)
                take(name, data)
            if size != file.size_bytes or digest.hexdigest() != file.sha256:
                raise ValueError(f"`{name}` is not what was packed")
            take(name, b"")


def extract(bundle: Bundle, folder: Path) -> None:
    """Write what sessions need, programs and the agent, into an empty folder; all files are compared.

    Raises:
        BundleError: a file is missing, changed, or too much.
        OSError: they can't be written.
    """
    for name in (AGENT_FOLDER, FILES_FOLDER):
        (folder / name).mkdir()
    problems: list[OSError] = []

    def take(name: str, data: bytes) -> None:
        if name.startswith((f"{AGENT_FOLDER}/", f"{FILES_FOLDER}/")) and data and not problems:
            try:
                with (folder / name).open("ab") as file:
                    file.write(data)
            except OSError as error:
                problems.append(error)

    check_bundle(bundle, take)
    for error in problems:
        raise error


def own_bytes(bundle: Bundle) -> int:
    """What a bundle takes beside its programs and their cases: the runner, the agent, TVM's runtime, the manifest.

    Raises:
        BundleError: it is damaged.
    """
    with _archive(bundle.path) as archive:
        taken = [entry.compress_size for entry in archive.infolist() if entry.filename.startswith(f"{FILES_FOLDER}/")]
        return bundle.path.stat().st_size - sum(taken)


class _Bounded(io.BufferedReader):
    """A file that gives only so much at once: a directory of millions of names would be read whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LARGEST_DIRECTORY:
            raise ValueError(f"its directory must have at most {_LARGEST_DIRECTORY} bytes: {size}")
        return super().read(size)


def _content(archive: zipfile.ZipFile, name: str, most_bytes: int) -> Iterator[bytes]:
    """A file in pieces, one byte more than it may have at most."""
    left = most_bytes + 1
    with archive.open(name) as file:
        while left > 0 and (data := file.read(min(_CHUNK, left))):
            left -= len(data)
            yield data


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with _Bounded(path.open("rb", buffering=0)) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except _DAMAGE as error:
        why = " ".join(str(error).split())[:120] or type(error).__name__
        raise BundleError(f"the bundle is damaged, or no bundle: {path}: {why}") from error
