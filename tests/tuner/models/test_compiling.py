"""Compilers that abort, hang or fail cost a line, not the program."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from int8tune.compiler.errors import CompilerDiedError
from int8tune.compiler.graph import Graph
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Choice
from int8tune.results.errors import ExportError
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.workload import Workload
from int8tune.tuner.models.compiling import compile_apart
from tests.support.models.onnx_models import MODELS, quantized
from tests.support.run.probes import host_target

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")


class Faulty:
    """Schedules whose choice does what the test says, in the process that compiles."""

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def choose(self, _: Workload) -> Choice:
        return getattr(self, self._fault)()  # type: ignore[no-any-return]

    def abort(self) -> NoReturn:
        faulthandler.disable()
        os.write(2, b"LLVM ERROR: out of registers")
        os.abort()

    def hang(self) -> NoReturn:
        while True:
            signal.pause()

    def bug(self) -> NoReturn:
        raise ValueError("a bug")

    def deep(self) -> NoReturn:
        """What TVM does in an expression of an expression, and so on, takes more than 8 MiB of stack."""
        import tvm
        import tvm_ffi

        expression = tvm.tirx.Var("x", "int32")
        for _ in range(40_000):
            expression = expression + 1
        tvm_ffi.structural_hash(expression)
        raise ValueError("it is deep")

    def reject(self) -> NoReturn:
        raise WorkloadError("no template takes it")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    folder = tmp_path / "files"
    folder.mkdir()
    return read_onnx(quantized(MODELS["concat"](), folder, "u8", "s8", True), "net")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("abort", "the compiler ended, killed by SIGABRT: LLVM ERROR: out of registers"),
        ("bug", "the compiler ended, exited with status 1: ValueError: a bug"),
        ("deep", "the compiler ended, exited with status 1: ValueError: it is deep"),
        ("hang", "the compiler was not done after 0.5 s"),
    ],
)
def test_a_compiler_that_dies_is_an_error(graph: Graph, tmp_path: Path, fault: str, message: str) -> None:
    library = tmp_path / "model.so"
    library.write_text("the older one")
    started, before = time.monotonic(), set(psutil.Process().children())
    with pytest.raises(CompilerDiedError) as caught:
        compile_apart(graph, host_target("generic"), Faulty(fault), library, limit_s=0.5 if fault == "hang" else 30)
    assert str(caught.value) == message
    assert time.monotonic() - started < 25
    assert library.read_text() == "the older one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "model.so"]
    assert set(psutil.Process().children()) <= before


def test_errors_that_are_meant_come_through(graph: Graph, tmp_path: Path) -> None:
    target = host_target("generic")
    with pytest.raises(WorkloadError, match=r"^no template takes it$"):
        compile_apart(graph, target, Faulty("reject"), tmp_path / "model.so")
    with pytest.raises(ExportError, match=r"No such file or directory.*/missing/model\.so$"):
        compile_apart(graph, target, Faulty("bug"), tmp_path / "missing" / "model.so")
    with pytest.raises(ExportError, match=r"Is a directory"):
        compile_apart(graph, target, Faulty("bug"), tmp_path)
