"""Compiled models in programs that have TVM's runtime alone: one in Python, one in C++, with the same outputs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.compile import all_values, compile_model
from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Schedules
from int8tune.rpc.local.tile_registers import deny_tile_registers
from int8tune.schedules.target import Target
from tests.support.models.onnx_models import MODELS, input_data, quantized
from tests.support.models.onnx_operators import every_operator
from tests.support.places import ROOT

Array = npt.NDArray[Any]
EXAMPLES = ROOT / "examples"
PACKAGES = ("int8tune",)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in C++."""
    for tool in ("make", os.environ.get("CXX", "g++")):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    folder = tmp_path_factory.mktemp("program")
    command = ["make", "-C", str(EXAMPLES), "run_model", f"PYTHON={sys.executable}", f"OUT={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    return folder / "run_model"


@pytest.fixture(scope="module")
def library(native: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with nearly every operator, whose outputs are all its values."""
    folder = tmp_path_factory.mktemp("library")
    graph = with_file_layouts(read_onnx(quantized(every_operator(), folder, "u8", "s8", True), "net"))
    compile_model(all_values(graph), native, Schedules(native), folder / "net.so")
    return folder / "net.so"


def run(
    *command: object,
    loading: bool = False,
    before: Callable[[], object] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program; with `loading`, stderr has the libraries that it loads."""
    env = {**os.environ, **({"LD_DEBUG": "libs"} if loading else {})}
    words = list(map(str, command))
    return subprocess.run(
        words, capture_output=True, text=True, timeout=100, check=False, env=env, preexec_fn=before, cwd=folder
    )


def python(*arguments: object, loading: bool = False) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-X", "importtime", EXAMPLES / "run_model.py", *arguments, loading=loading)


def classes(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """The classes and values that a program printed before its times."""
    assert done.returncode == 0, done.stderr[-2000:]
    *lines, times = done.stdout.splitlines()
    assert times.startswith("median of 50 runs: ")
    return [line.split() for line in lines]


@pytest.mark.thorough
def test_both_give_what_this_library_does(program: Path, library: Path, tmp_path: Path) -> None:
    feed, bytes_ = input_data(every_operator(), 9), tmp_path / "input"
    np.save(tmp_path / "input.npy", feed)
    bytes_.write_bytes(feed.tobytes())
    in_python = python(library, tmp_path / "input.npy", "-o", tmp_path / "outputs.npz")
    in_cc = run(program, library, bytes_, "-o", tmp_path / "output")
    assert len(classes(in_python)) == 5
    assert classes(in_python) == classes(in_cc)
    expected = CompiledModel(library).run([feed])
    with np.load(tmp_path / "outputs.npz") as found:
        made = [found[f"arr_{index}"] for index in range(len(found.files))]
    assert len(made) == len(expected) > 20
    for index, (ours, theirs) in enumerate(zip(expected, made, strict=True)):
        np.testing.assert_array_equal(ours, theirs)
        assert (tmp_path / f"output.{index}").read_bytes() == ours.tobytes()


@pytest.mark.thorough
def test_neither_loads_a_compiler(program: Path, library: Path) -> None:
    in_python = python(library, loading=True)
    for done in (run(program, library, loading=True), in_python):
        loaded = {Path(line.split()[-1]).name for line in done.stderr.splitlines() if "calling init: " in line}
        assert {"libtvm_runtime.so", "libtvm_ffi.so"} <= loaded
        assert not {name for name in loaded if "compiler" in name or "LLVM" in name}
    imported = {line.split("|")[-1].strip().split(".")[0] for line in in_python.stderr.splitlines() if "|" in line}
    assert "tvm" in imported
    assert imported.isdisjoint(PACKAGES)


@pytest.mark.thorough
def test_one_output_and_zeros(program: Path, native: Target, tmp_path: Path) -> None:
    graph = read_onnx(quantized(MODELS["head"](), tmp_path, "u8", "s8", True), "head")
    compile_model(graph, native, Schedules(native), tmp_path / "head.so")
    in_python, in_cc = python(tmp_path / "head.so"), run(program, tmp_path / "head.so")
    assert classes(in_python) == classes(in_cc)
    (expected,) = CompiledModel(tmp_path / "head.so").run([np.zeros((3, 4, 6, 6), np.float32)])
    assert float(classes(in_cc)[0][1]) == pytest.approx(expected.max())


@pytest.mark.thorough
def test_pictures(library: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs the extra `test`")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "picture.png")
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    np.save(tmp_path / "same.npy", ((pixels / np.float32(255) - mean) / deviation).transpose(2, 0, 1)[None])
    assert classes(python(library, tmp_path / "picture.png")) == classes(python(library, tmp_path / "same.npy"))


def test_make_has_nothing_to_complain_of() -> None:
    done = run("make", "--dry-run", "--always-make", "-C", EXAMPLES, f"PYTHON={sys.executable}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "run_model.cc -o" in done.stdout


@pytest.mark.thorough
def test_a_library_is_found_by_its_name_alone(program: Path, library: Path) -> None:
    for command in ([program], [sys.executable, EXAMPLES / "run_model.py"]):
        assert classes(run(*command, library.name, folder=library.parent)) == classes(run(*command, library))


@pytest.mark.thorough
def test_what_is_wrong_is_one_line(program: Path, library: Path, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes(100))
    np.save(tmp_path / "short.npy", np.zeros(25, np.float32))
    for name, start in (("short", [program]), ("short.npy", [sys.executable, EXAMPLES / "run_model.py"])):
        for arguments, words in (
            ([library, tmp_path / name], "input `x`"),
            ([library, tmp_path / name, tmp_path / name], "the model takes 1 inputs: 2"),
            ([library, tmp_path / "nowhere"], "nowhere"),
            ([tmp_path / "nowhere.so"], "nowhere.so"),
        ):
            done = run(*start, *arguments)
            assert done.returncode == 1
            assert done.stderr.count("\n") == 1
            assert done.stderr.startswith("error: ")
            assert words in done.stderr


@pytest.mark.thorough
def test_a_cpu_that_lacks_tiles_is_said(program: Path, library: Path) -> None:
    if "amx_int8" not in CompiledModel(library).about.needs:
        pytest.skip("needs AMX")
    for command in ([program], [sys.executable, EXAMPLES / "run_model.py"]):
        done = run(*command, library, before=deny_tile_registers)
        assert done.returncode == 1
        assert "it was compiled for x86-amx, this CPU lacks: amx_" in done.stderr
