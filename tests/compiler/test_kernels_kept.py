"""Compilations with a cache of kernels: the same library, with less work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm

from int8tune.compiler.compile import compile_model, program_of
from int8tune.compiler.errors import NoLinkerError
from int8tune.compiler.graph import Graph
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Schedules
from int8tune.compiler.toolchain import kernel_key
from int8tune.compiler.toolchain.kernel_cache import NO_CACHE, KernelCache
from int8tune.compiler.toolchain.linker import architecture_of, find_linker, link_objects
from int8tune.compiler.toolchain.object_file import MACHINES, data_object, write_data_object
from int8tune.compiler.whole_program import WholeProgram
from int8tune.schedules.target import Target
from tests.support.models.compiled import compile_once
from tests.support.models.onnx_models import MODELS, Writer, quantized
from tests.support.run.made_once import folder_of_the_run
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    quantized(MODELS["concat"](), folder, "u8", "s8", True)
    return folder / "quantized.onnx"


@pytest.fixture(scope="module")
def graph(model: Path) -> Graph:
    return read_onnx(model.read_bytes(), "net")


class Compiling:
    """Compilations of one model for one target.

    Attributes:
        counts: kernels that the last one compiled, and those that it took from the cache.
        told: what it reported of its kernels.
    """

    def __init__(self, graph: Graph, folder: Path) -> None:
        self._graph, self._folder = graph, folder

    def library(self, cache: KernelCache | None, target: Target | None = None) -> bytes:
        chosen = target or host_target("x86-avx2")
        self.told: list[tuple[int, int]] = []

        def report(doing: str, done: int, total: int) -> None:
            if doing == "building kernels":
                self.told.append((done, total))

        path = self._folder / "net.so"
        made = compile_model(self._graph, chosen, Schedules(chosen), path, report, cache)
        self.counts = made.kernels.compiled, made.kernels.reused
        return path.read_bytes()


@pytest.fixture
def compiling(graph: Graph, tmp_path: Path) -> Compiling:
    return Compiling(graph, tmp_path)


@pytest.fixture(scope="module")
def anew(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The library as it is made without a cache."""
    return Compiling(graph, tmp_path_factory.mktemp("anew")).library(None)


def test_the_second_compilation_compiles_no_kernel(compiling: Compiling, anew: bytes, tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "kernels")
    assert compiling.library(cache) == anew
    count, reused = compiling.counts
    assert (count > 3, reused) == (True, 0)
    assert compiling.told == [(done, count) for done in range(count + 1)]
    assert compiling.library(cache) == anew
    assert compiling.counts == (0, count)
    assert compiling.told == [(0, 0)]
    assert len(list((tmp_path / "kernels").iterdir())) == count


def test_tests_of_a_run_share_kernels(
    graph: Graph, anew: bytes, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target, library = host_target("x86-avx2"), tmp_path / "net.so"
    compile_once(graph, target, library)
    again = compile_once(graph, target, library).kernels
    assert (again.compiled, again.reused > 3) == (0, True)
    assert library.read_bytes() == anew
    # No later run finds them.
    assert folder_of_the_run() in (tmp_path_factory.getbasetemp(), tmp_path_factory.getbasetemp().parent)


def test_damaged_kernels_are_compiled_again(compiling: Compiling, anew: bytes, tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "kernels")
    compiling.library(cache)
    first, second, *others = sorted((tmp_path / "kernels").iterdir())
    data = first.read_bytes()
    first.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    second.write_bytes(b"")
    assert compiling.library(cache) == anew
    assert compiling.counts == (2, len(others))
    assert compiling.library(cache) == anew
    assert compiling.counts == (0, len(others) + 2)


@pytest.mark.thorough
def test_another_target_has_kernels_of_its_own(compiling: Compiling, tmp_path: Path) -> None:
    cache = KernelCache(tmp_path / "kernels")
    compiling.library(cache)
    other = host_target("generic")
    assert compiling.library(cache, other) == compiling.library(None, other)
    compiling.library(cache, other)
    assert compiling.counts[0] == 0


@pytest.fixture
def other_compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A compiler that differs in one of the things by which it is known."""
    match request.param:
        case "TVM":
            monkeypatch.setattr(tvm, "__version__", "0.27.0.other")
        case "LLVM":
            monkeypatch.setattr(tvm.target.codegen, "llvm_version_major", lambda: 99)
        case "this program":
            monkeypatch.setattr(kernel_key, "version", lambda _: "9.9.9")
        case "libraries":
            monkeypatch.setattr(tvm.libinfo, "package_lib_paths", list)
    kernel_key._compiler.cache_clear()
    yield
    kernel_key._compiler.cache_clear()


@pytest.fixture(scope="module")
def filled(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> KernelCache:
    """A cache that has all kernels of the model."""
    folder = tmp_path_factory.mktemp("filled")
    cache = KernelCache(folder / "kernels")
    Compiling(graph, folder).library(cache)
    return cache


@pytest.mark.parametrize("other_compiler", one_in(4, ["TVM", "LLVM", "this program", "libraries"]), indirect=True)
@pytest.mark.usefixtures("other_compiler")
def test_another_compiler_has_kernels_of_its_own(compiling: Compiling, filled: KernelCache) -> None:
    compiling.library(filled)
    assert compiling.counts[1] == 0


@pytest.mark.thorough
def test_other_options_of_tvm_have_kernels_of_their_own(compiling: Compiling, filled: KernelCache) -> None:
    with tvm.transform.PassContext(config={"tirx.disable_vectorize": True}):
        compiling.library(filled)
    assert compiling.counts[1] == 0


@pytest.mark.thorough
def test_compilations_at_once_dont_disturb_each_other(model: Path, tmp_path: Path) -> None:
    names = ["one", "two", "three"]
    environment = {name: value for name, value in os.environ.items() if name != NO_CACHE}
    environment |= {"XDG_CACHE_HOME": str(tmp_path)}

    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "int8tune", "compile", str(model), "-o", str(tmp_path / f"{name}.so")]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    for started in [start(name) for name in names[:2]]:
        assert "compiled" in started.communicate(timeout=300)[1]
        assert started.returncode == 0
    said = start("three").communicate(timeout=300)[1]
    assert "kernels  0 compiled" in said
    assert len({(tmp_path / f"{name}.so").read_bytes() for name in names}) == 1
    kept = [path.name for path in (tmp_path / "int8tune" / "kernels").iterdir()]
    assert not [name for name in kept if name.endswith(".tmp")]


def test_kernels_that_are_equal_are_compiled_once(tmp_path: Path, native: Target) -> None:
    """Three islands that compute the same, between the same operators on bytes."""
    writer = Writer((1, 3, 8, 8), "x0")
    made = writer.inputs[0].name
    for index in range(3):
        parameters = [writer.constant(f"s{index}", 0.02), writer.constant(f"z{index}", 3, np.uint8)]
        writer.node("QuantizeLinear", [made, *parameters], f"q{index}")
        made = writer.node("DequantizeLinear", [f"q{index}", *parameters], f"d{index}")
        made = writer.node("Softplus", [made], f"made{index}", f"node{index}")
    graph = read_onnx(writer.model(made).SerializeToString(), "net")
    program = program_of(graph, native, Schedules(native))
    called = [call.kernel for call in program.calls if call.kernel]
    assert set(called) == set(program.kernels)
    assert len(called) > 2 * len(program.kernels)
    compiling = Compiling(graph, tmp_path)
    compiling.library(None, native)
    whole_program = 1
    assert compiling.counts == (len(program.kernels) + whole_program, 0)


def test_an_object_of_one_function_is_none_of_several(graph: Graph, native: Target) -> None:
    """Caches have programs of before, which were by themselves."""
    whole = WholeProgram(program_of(graph, native, Schedules(native)))
    keys = {kernel_key.object_key(whole.name, each, native) for each in (whole.function, whole.functions)}
    assert len(keys) == 2


@pytest.mark.parametrize("architecture", MACHINES)
def test_constants_are_written_for_an_architecture(architecture: str, tmp_path: Path) -> None:
    data = bytes(range(200))
    write_data_object(tmp_path / "data.o", "some_bytes", [data[:7], memoryview(data)[7:]], architecture)
    assert architecture_of(tmp_path / "data.o") == architecture
    assert len((tmp_path / "data.o").read_bytes()) == len(data_object("some_bytes", data))
    try:
        find_linker(architecture)
    except NoLinkerError as error:
        pytest.skip(str(error))
    link_objects(tmp_path / "data.so", [tmp_path / "data.o"])
    assert data in (tmp_path / "data.so").read_bytes()


@pytest.mark.thorough
def test_models_are_linked_for_another_machine(graph: Graph, tmp_path: Path) -> None:
    target = host_target("arm-neon")
    try:
        find_linker("aarch64")
    except NoLinkerError as error:
        pytest.skip(str(error))
    Compiling(graph, tmp_path).library(None, target)
    assert architecture_of(tmp_path / "net.so") == "aarch64"
