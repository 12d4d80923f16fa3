"""What is installed without any extra is enough to start whatever needs none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.places import TESTS

# Packages of extras, as if none of them were installed.
EXTRAS = [
    "onnx",
    "onnxruntime",
    "tflite",
    "flatbuffers",
    "ai_edge_litert",
    "openvino",
    "paramiko",
    "distributed",
    "dask",
    "pyarrow",
    "torch",
    "PIL",
]


MODULES = [
    "int8tune.compiler.compile",
    "int8tune.tuner.api.profiling",
    "int8tune.tuner.api.quantizing",
    "int8tune.tuner.builder.server",
    "int8tune.tuner.campaign.run",
    "int8tune.tuner.cli.main",
    "int8tune.tuner.metaschedule.worker",
    "int8tune.tuner.models.compiling",
]


def test_modules_need_no_extra() -> None:
    code = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r})); import {', '.join(MODULES)}"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


READ = [
    ["results", "best"],
    ["report", "page.html"],
    ["templates", "list"],
    ["layers", "resnet50", "--target", "x86-avx2"],
    ["help", "farm"],
]
"""Commands that read and show."""
MADE = [
    ["tune", "resnet50"],
    ["plan", "resnet50"],
    ["bench", "resnet50", "--against", "onednn"],
    ["devices", "check"],
]
"""Commands that compile or measure."""
WITHOUT_TVM = """
import json, sys
from int8tune.tuner.installed import TUNING
sys.modules.update(dict.fromkeys([*TUNING, "scipy"]))
from int8tune.tuner.cli.program import run
for words in json.loads(sys.argv[1]):
    print("code", run(words), *words, file=sys.stderr, flush=True)
"""


def test_results_are_read_without_what_tunes(tmp_path: Path) -> None:
    shutil.copy(TESTS / "data" / "store_v4.db", tmp_path / "records.db")
    results = ["--results", str(tmp_path)]
    commands = [words + results if words[0] in ("results", "report") else words for words in READ]
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_TVM, json.dumps(commands + MADE)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=tmp_path,
    )
    assert [line for line in done.stderr.splitlines() if line.startswith("code")] == [
        *(f"code 0 {' '.join(words)}" for words in commands),
        *(f"code 1 {' '.join(words)}" for words in MADE),
    ], done.stderr
    hint = "hint: install it: pip install 'int8tune[tune]'"
    assert done.stderr.count(hint) == len(MADE)
