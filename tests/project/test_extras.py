"""What is installed without any extra is enough to start whatever needs none."""

from __future__ import annotations

import subprocess
import sys

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
