"""The package as others install it: a source distribution, a wheel, beside packages named like its folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.program.cli_program import LIMIT_S, count_trials, write_table

# Python before 3.11.4 knows no filters.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
FOLDERS = ("compiler", "quantize", "results", "rpc", "schedules", "tuner")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "stand-in-{name}"
version = "1"
[tool.setuptools]
packages = ["{name}"]
"""
pytestmark = pytest.mark.timeout(600)


def ran(*command: object, cwd: Path) -> str:
    """What a command printed, which must end with 0."""
    words = [str(word) for word in command]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def build(tree: Path, kind: str, folder: Path) -> Path:
    """A distribution of a source tree, `build_sdist` or `build_wheel`."""
    return folder / ran(sys.executable, "-c", BUILD, kind, folder, cwd=tree).splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the source distribution of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    for name in ("src", "docs", "LICENSE", "README.md", "pyproject.toml", *FOLDERS):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, symlinks=True)
        else:
            shutil.copy(ROOT / name, tree / name)
    with tarfile.open(build(tree, "build_sdist", folder)) as archive:
        archive.extractall(folder / "unpacked", **SAFELY)
    (unpacked,) = (folder / "unpacked").iterdir()
    return build(unpacked, "build_wheel", folder)


def test_a_wheel_has_one_name_and_all_files(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"int8tune"}
    kept = subprocess.run(["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    pages = {f"int8tune/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert {f"int8tune/{name}" for name in kept.splitlines()} | {"int8tune/py.typed"} | pages <= names


@pytest.mark.thorough
def test_it_stands_beside_packages_of_its_folders_names(wheel: Path, tmp_path: Path) -> None:
    """They are there first, are not changed, and take nothing of it with them when they go."""
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    site = Path(ran(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet")
    for name in FOLDERS:
        project = tmp_path / "stand-ins" / name
        (project / name).mkdir(parents=True)
        (project / "pyproject.toml").write_text(PROJECT.format(name=name))
        (project / name / "__init__.py").write_text("owner = 'somebody else'\n")
    install = (*pip, "install", "--no-deps", "--no-build-isolation", "--no-index")
    ran(*install, *(tmp_path / "stand-ins").iterdir(), cwd=tmp_path)
    ran(*install, wheel, cwd=tmp_path)
    asks = (
        f"import {', '.join(FOLDERS)}; assert {{each.owner for each in ({', '.join(FOLDERS)})}} == {{'somebody else'}}"
    )
    ran(python, "-c", asks, cwd=tmp_path)
    ran(*pip, "uninstall", "--yes", *(f"stand-in-{name}" for name in FOLDERS), cwd=tmp_path)
    assert not [name for name in FOLDERS if (site / name).exists()]

    where = ran(python, "-c", "import int8tune; print(int8tune.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment)
    assert ran(environment / "bin" / "int8tune", "--version", cwd=tmp_path).startswith("int8tune ")
    table, results = write_table(tmp_path / "small.json"), tmp_path / "results"
    ran(python, "-m", "int8tune", "tune", table, "--trials", "2", "--results", results, cwd=tmp_path)
    assert count_trials(results) >= 2
