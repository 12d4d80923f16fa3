"""Libraries for GPUs, made on a machine without one: machine code, nothing to compile where they are loaded."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import tvm_ffi

from int8tune.compiler.errors import CudaCompileError, NoCudaCompilerError
from int8tune.compiler.toolchain import nvrtc
from int8tune.compiler.toolchain.gpu_library import cuda_source, with_machine_code
from int8tune.compiler.toolchain.linker import link_objects
from int8tune.compiler.toolchain.object_file import data_object
from int8tune.results.record import Candidate, Outcome
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.registry import template_for
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.builder.compile import build
from int8tune.tuner.builder.job import RESULT_FILE, Built, Job, advice_code, built_from_json
from tests.support.gpu import binaries as gpu_binaries
from tests.support.run.probes import any_target
from tests.support.run.thinned import one_in

KEY = "conv2d-u8s8-1x8x8x32-k3x3x32-s1-p1-float.c-u8"
GPU = "cuda-sm80"
EM_CUDA = 190
needs_nvrtc = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))


def built(folder: Path, profile: str = GPU) -> Built:
    import json

    workload, target = parse_workload(KEY), any_target(profile)
    template = template_for(workload, target)
    config = template.space(workload, target).default
    candidate = Candidate(KEY, target.name, template.name, template.version, dict(config))
    suite = str(folder / "suite")
    build(Job("suite", target, str(folder / "made"), 60, workload=KEY, suite=suite))
    build(Job("kernel", target, str(folder / "built"), 60, workload=KEY, candidate=candidate, suite=suite))
    return built_from_json(json.loads((folder / "built" / RESULT_FILE).read_text()))


def machine_code(library: Path) -> list[bytes]:
    """The files of machine code for GPUs in a library."""
    data, found, at = library.read_bytes(), [], 0
    while (at := data.find(b"\x7fELF", at + 1)) > 0:
        if struct.unpack_from("<H", data, at + 18)[0] == EM_CUDA:
            (size,) = struct.unpack_from("<Q", data, at - 8)
            found.append(data[at : at + size])
    return found


@needs_nvrtc
@pytest.mark.parametrize("profile", one_in(8, GPU_PROFILES))
def test_a_candidate_is_built_to_machine_code(profile: str, tmp_path: Path) -> None:
    made = built(tmp_path, profile)
    assert made.outcome is Outcome.OK, made.error
    assert made.program is not None
    library = Path(made.program.library)
    (cubin,) = machine_code(library)
    assert b"__global__" not in library.read_bytes()
    if gpu_binaries.missing() is None:
        (tmp_path / "kernel.cubin").write_bytes(cubin)
        code = gpu_binaries.codes_of(tmp_path / "kernel.cubin")["main_kernel"]
        assert any(name.startswith(("IMMA", "IGMMA")) for name in code.names)


@needs_nvrtc
def test_a_kernel_that_does_not_compile_is_a_failed_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("int8tune.schedules.intrinsics.cuda._HEAD", "__forceinline__ __device__ nothing")
    made = built(tmp_path)
    assert made.outcome is Outcome.BUILD_FAILED
    assert made.error_class == "CudaCompileError"
    assert made.error.startswith("the kernel does not compile for sm_80: kernel.cu(")


def test_without_a_compiler_builds_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        raise NoCudaCompilerError("no NVRTC to compile CUDA kernels with, install the extra `cuda`")

    monkeypatch.setattr(nvrtc, "_library", nothing)
    assert nvrtc.missing() == "no NVRTC to compile CUDA kernels with, install the extra `cuda`"
    made = built(tmp_path)
    assert (made.outcome, made.error_class) == (Outcome.BUILD_FAILED, "NoCudaCompilerError")
    assert made.error == nvrtc.missing()


def test_places_without_nvrtc_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvrtc, "_paths", lambda: iter([tmp_path / "libnvrtc.so.12"]))
    with pytest.raises(NoCudaCompilerError, match=r"^no NVRTC .*libnvrtc.so.12: cannot open .*, install the extra"):
        nvrtc._library.__wrapped__()


@needs_nvrtc
def test_the_first_error_of_a_source_is_told() -> None:
    with pytest.raises(CudaCompileError, match=r'^the kernel does not compile for sm_80: .*"x" is undefined$'):
        nvrtc.compile_cubin("__global__ void f() { x = 1; }", "sm_80")
    with pytest.raises(CudaCompileError, match="the kernel does not compile for sm_20: "):
        nvrtc.compile_cubin("__global__ void f() {}", "sm_20")


# The products of four warps, with an instruction of another kind between them that writes to their sums.
SLOW = """extern "C" __global__ void f(int* out) {
  int a = out[0], b = out[1], c = out[2], d = out[3];
  for (int i = 0; i < out[9]; ++i) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8 "
                 "{%0, %1, %2, %3}, %4, %5, p; }" : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "l"(1ll), "l"(2ll));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    a += i;
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[threadIdx.x] = a + b + c + d;
}"""


@needs_nvrtc
def test_what_the_compiler_says_of_slow_code_is_told() -> None:
    told: list[str] = []
    nvrtc.compile_cubin(SLOW, "sm_90a", told.append)
    assert told
    assert all(re.fullmatch(r"C75\d\d", advice_code(line)) and "\n" not in line for line in told)
    quiet: list[str] = []
    nvrtc.compile_cubin(
        'extern "C" __global__ void f(int* out) { int unused = 1; out[0] = 1; }', "sm_90a", quiet.append
    )
    assert quiet == []


@needs_nvrtc
def test_builds_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "(C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized"

    def compile_slow(source: str, arch: str, advise: Callable[[str], None]) -> bytes:
        for _ in range(2):
            advise(line)
        return nvrtc.compile_cubin(source, arch)

    monkeypatch.setattr("int8tune.tuner.builder.compile.compile_cubin", compile_slow)
    made = built(tmp_path)
    assert made.advice == (line, line)
    assert made.advised == {"advice_C7515": 2.0}


class TestWithMachineCode:
    def packed(self) -> tuple[bytes, bytes]:
        workload, target = parse_workload(KEY), any_target(GPU)
        template = template_for(workload, target)
        function = template.apply(workload, target, template.space(workload, target).default).function
        module = compile_function(function, target).mod
        pack = tvm_ffi.get_global_func("runtime.ModulePackImportsToTensor")
        return pack(module).numpy().tobytes(), cuda_source(module).encode()

    def test_machine_code_takes_the_place_of_the_source(self) -> None:
        packed, source = self.packed()
        changed = with_machine_code(packed, source, b"CODE")
        assert len(changed) == len(packed) - len(source) + 4 + len(b"cubin") - len(b"cuda")
        assert struct.unpack_from("<Q", changed)[0] == len(changed) - 8
        assert changed.endswith(struct.pack("<Q", 4) + b"CODE")
        assert b"main_kernel" in changed

    def test_another_way_to_pack_is_an_error(self) -> None:
        """An upgrade of TVM that changes it must not make libraries that are compiled where they are loaded."""
        packed, source = self.packed()
        with pytest.raises(ValueError, match="in an unknown way"):
            with_machine_code(packed, source + b" ", b"CODE")
        with pytest.raises(ValueError, match="in an unknown way"):
            with_machine_code(packed.replace(b"cuda", b"gpus", 1), source, b"CODE")


def test_bytes_become_an_object_that_links(tmp_path: Path) -> None:
    import ctypes

    data = bytes(range(256)) * 5
    (tmp_path / "data.o").write_bytes(data_object("some_bytes", data))
    link_objects(tmp_path / "data.so", [tmp_path / "data.o"])
    library = ctypes.CDLL(str(tmp_path / "data.so"))
    assert bytes((ctypes.c_char * len(data)).in_dll(library, "some_bytes")) == data
