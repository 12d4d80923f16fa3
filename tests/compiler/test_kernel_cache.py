"""The folder of compiled kernels: what is damaged, or could be another user's, is never taken."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from int8tune.compiler.toolchain import kernel_cache
from int8tune.compiler.toolchain.kernel_cache import NO_CACHE, KernelCache, users_cache
from int8tune.results import user_cache
from int8tune.results.user_cache import default_cache

KEY, CONTENT = "a" * 64, bytes(range(256)) * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache with one object file."""
    folder = tmp_path / "int8tune" / "kernels"
    KernelCache(folder).keep(KEY, CONTENT)
    return folder


def test_what_is_kept_is_found_again(folder: Path) -> None:
    cache = KernelCache(folder)
    assert cache.get(KEY) == CONTENT
    assert cache.get("b" * 64) is None
    assert [path.name for path in folder.iterdir()] == [KEY]
    assert (folder.stat().st_mode & 0o777, (folder / KEY).stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize("place", [0, 30, 60, 4000, -1])
def test_a_changed_byte_makes_it_nothing(folder: Path, place: int) -> None:
    data = bytearray((folder / KEY).read_bytes())
    data[place] ^= 1
    (folder / KEY).write_bytes(data)
    cache = KernelCache(folder)
    assert cache.get(KEY) is None
    cache.keep(KEY, CONTENT)
    assert cache.get(KEY) == CONTENT


@pytest.mark.parametrize("size", [0, 10, 49, 50, 51, 1000])
def test_what_was_cut_off_is_nothing(folder: Path, size: int) -> None:
    os.truncate(folder / KEY, size)
    assert KernelCache(folder).get(KEY) is None


def test_one_kernel_is_not_taken_for_another(folder: Path) -> None:
    (folder / KEY).rename(folder / ("b" * 64))
    assert KernelCache(folder).get("b" * 64) is None


def test_what_is_too_large_is_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "LARGEST_BYTES", len(CONTENT))
    assert KernelCache(folder).get(KEY) is None


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o770, 0o777, 0o1777])
def test_a_folder_that_is_open_to_others_is_not_used(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    cache = KernelCache(folder)
    assert cache.get(KEY) is None
    cache.keep("b" * 64, CONTENT)
    cache.trim()
    assert [path.name for path in folder.iterdir()] == [KEY]


def test_another_users_folder_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    cache = KernelCache(folder)
    assert cache.get(KEY) is None
    cache.keep("b" * 64, CONTENT)
    assert [path.name for path in folder.iterdir()] == [KEY]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_nothing(folder: Path) -> None:
    os.chown(folder / KEY, 12345, 12345)
    assert KernelCache(folder).get(KEY) is None


def test_a_file_that_others_may_write_is_nothing(folder: Path) -> None:
    (folder / KEY).chmod(0o620)
    assert KernelCache(folder).get(KEY) is None


def test_no_link_is_followed(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (folder / KEY).rename(target)
    (folder / KEY).symlink_to(target)
    cache, before = KernelCache(folder), target.read_bytes()
    assert cache.get(KEY) is None
    cache.keep(KEY, b"another one")
    assert (cache.get(KEY), target.read_bytes()) == (b"another one", before)
    (tmp_path / "link").symlink_to(folder)
    linked = KernelCache(tmp_path / "link")
    assert linked.get(KEY) is None
    linked.keep("b" * 64, CONTENT)
    assert [path.name for path in folder.iterdir()] == [KEY]


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    (folder / KEY).unlink()
    os.mkfifo(folder / KEY)
    assert KernelCache(folder).get(KEY) is None


def _a_file(folder: Path) -> None:
    folder.parent.write_text("no folder")


def _a_file_itself(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("no folder")


def _a_folder_in_place_of_a_file(folder: Path) -> None:
    (folder / KEY).mkdir(parents=True)
    folder.chmod(0o700)


@pytest.mark.parametrize("spoil", [_a_file, _a_file_itself, _a_folder_in_place_of_a_file])
def test_a_folder_that_cant_be_written_is_no_error(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    folder = tmp_path / "int8tune" / "kernels"
    spoil(folder)
    cache = KernelCache(folder)
    cache.keep(KEY, CONTENT)
    cache.trim()
    assert cache.get(KEY) is None


def test_a_full_disk_is_no_error_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        KernelCache(folder).keep(KEY, CONTENT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(folder.iterdir()) == []


def test_what_was_used_least_recently_goes_first(tmp_path: Path) -> None:
    folder, now = tmp_path / "kernels", time.time()
    cache = KernelCache(folder, most_bytes=3 * len(CONTENT))
    for age_s, key in enumerate(("new", "old", "used", "oldest")):
        cache.keep(key, CONTENT)
        os.utime(folder / key, (now, now - 1000 * (1 + age_s)))
    assert cache.get("used") == CONTENT
    cache.trim()
    assert sorted(path.name for path in folder.iterdir()) == ["new", "used"]


def test_what_killed_writers_left_goes_when_it_is_old(folder: Path) -> None:
    for name, age_s in ((".old.tmp", 4000.0), (".young.tmp", 10.0)):
        (folder / name).write_bytes(b"part")
        os.utime(folder / name, (time.time(), time.time() - age_s))
    KernelCache(folder).trim()
    assert sorted(path.name for path in folder.iterdir()) == [".young.tmp", KEY]


def test_the_cache_is_among_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert default_cache() == tmp_path / "caches" / "int8tune"
    for nothing in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", nothing)
        assert default_cache() == tmp_path / ".cache" / "int8tune"


def test_there_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_CACHE, "1")
    assert users_cache() is None
    monkeypatch.delenv(NO_CACHE)
    assert users_cache() is not None

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(user_cache.Path, "home", homeless)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert users_cache() is None
