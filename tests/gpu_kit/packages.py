"""The Python packages of the machine with the GPU, from their wheels: for another Python than that which packs them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.places import ROOT

# pip takes a platform by its exact name.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 24, 17, 12, 5)]
PLATFORMS += [f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")]
# Beside the project's own dependencies: NVIDIA's compiler, and the runtime library that TVM is linked with.
NVIDIA = ("nvidia-cuda-nvrtc>=13,<14", "nvidia-cuda-runtime==13.0.96")
LIMIT_S = 900.0
# Of a wheel, what nothing there reads: TVM's sources and headers of others, and tests.
UNREAD = ("tvm/3rdparty/", "tvm/src/", "scipy/*/tests/", "numpy/*/tests/")
# Wheels by name that are archives of their own, as they are as large as all others.
ALONE = ("apache_tvm-", "nvidia_cuda_nvrtc-")


def requirements() -> list[str]:
    """What int8tune needs there, as in `pyproject.toml`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["tune"], *NVIDIA]


def download(python: str, folder: Path) -> list[Path]:
    """The wheels of all requirements and of what those require, for x86-64 and a version of Python such as `3.12`.

    Raises:
        RuntimeError: pip found none for one of them.
        ValueError: a wheel is not for this Python or platform.
    """
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    options = ["--implementation", "cp", "--python-version", python, "--only-binary=:all:", "--no-input", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *platforms, *options, "--dest", str(folder), *requirements()]
    _run(command)
    wheels = sorted(folder.glob("*.whl"))
    for wheel in wheels:
        require_fit(wheel.name, python)
    return wheels


def own_wheel(folder: Path) -> Path:
    """int8tune itself.

    Raises:
        RuntimeError: it was not built.
    """
    _run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(folder), str(ROOT)])
    return next(folder.glob("int8tune-*.whl"))


def require_fit(name: str, python: str) -> None:
    """Check a wheel's tags: https://packaging.python.org/specifications/platform-compatibility-tags/

    Raises:
        ValueError: no tag is one of x86-64 Linux and this Python.
    """
    version = int(python.partition(".")[2])
    pythons, abis, platforms = (part.split(".") for part in name.removesuffix(".whl").split("-")[-3:])
    older = {f"cp3{minor}" for minor in range(2, version + 1)}
    is_exact = f"cp3{version}" in pythons and f"cp3{version}" in abis
    is_stable = bool(older & set(pythons)) and "abi3" in abis
    is_pure = bool({"py3", "py2.py3", *(f"py3{minor}" for minor in range(version + 1))} & set(pythons)) and abis == [
        "none"
    ]
    if not (is_exact or is_stable or is_pure) or not set(platforms) & {*PLATFORMS, "any"}:
        raise ValueError(f"not a wheel for Python {python} on x86-64 Linux: {name}")


def unpack(wheels: Sequence[Path], folder: Path) -> None:
    """Lay wheels out as an installation does; what they have is pure data for Python, no scripts."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.namelist() if not _is_unread(member)]
            archive.extractall(folder, members)


def _is_unread(member: str) -> bool:
    return any(Path(member).match(f"{start}**") or member.startswith(start) for start in UNREAD)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise RuntimeError(f"{' '.join(command[2:4])} failed: {errors[0][:300]}")
