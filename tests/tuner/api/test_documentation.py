"""What is written of the Python API runs: the tutorial, the README's lines, the pages made of docstrings."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import int8tune as it
from tests.support.places import ROOT
from tests.support.program.cli_program import CONV, write_table

TUTORIAL = ROOT / "docs" / "tutorial.ipynb"


def texts_of(notebook: Any) -> str:
    """All that the cells of a notebook have shown."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    shown = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return "\n".join("".join(text) for text in shown)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_the_tutorial_runs(tmp_path: Path) -> None:
    for needed in ("nbclient", "onnxruntime"):
        pytest.importorskip(needed, reason="needs the extras `test` and `peers`")
    copy = tmp_path / "docs" / "tutorial.ipynb"
    copy.parent.mkdir()
    copy.write_bytes(TUTORIAL.read_bytes())
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", "--timeout=280", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=290, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    shown = texts_of(json.loads(copy.read_text()))
    for words in (
        "24 of 24 trials, 3 of 3 layers",
        "Campaign digits.quantized, finished",
        "digit 3",
        "equal to onnxruntime",
    ):
        assert words in shown, words


def test_the_tutorial_is_kept_without_outputs() -> None:
    cells = [cell for cell in json.loads(TUTORIAL.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    for cell in cells:
        ast.parse("".join(cell["source"]))


@pytest.mark.thorough
def test_the_lines_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of "From Python", on a smaller network."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## From Python")[2]
    (code,) = re.findall(r"```python\n(.*?)```", text.partition("\n## ")[0], re.DOTALL)
    assert code.count('"mobilenet_v2"') == 2
    table = write_table(tmp_path / "one.json", [{"name": "a", "count": 1, "workload": CONV}], name="mobilenet_v2")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code.replace('"mobilenet_v2"', repr(str(table))).replace("trials=64", "trials=3"), names)
    assert names["found"].is_finished
    assert len(names["trials"]) == 3


@pytest.mark.thorough
def test_pages_are_made_of_docstrings_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="needs the extra `dev`")
    (recipe,) = re.findall(r"^\t\$\(BIN\)/(pdoc .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    words = [word.strip("'") for word in recipe.replace("build/api", str(tmp_path)).split()]
    command = [sys.executable, "-W", "error", "-m", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # `quantize` has a page of its own: there is a package of this name, too, which the pages' maker takes it for.
    page = "".join(path.read_text() for path in tmp_path.rglob("*.html"))
    for name in it.__all__:
        assert f'id="{name}"' in page, name


@pytest.mark.parametrize("name", it.__all__)
def test_every_argument_is_explained(name: str) -> None:
    value = getattr(it, name)
    if not inspect.isfunction(value) or "Args:" not in (value.__doc__ or ""):
        return
    explained = re.findall(r"^ {8}(\w+): ", (value.__doc__ or "").partition("Args:")[2], re.MULTILINE)
    missing = set(inspect.signature(value).parameters) - set(explained)
    assert not missing
