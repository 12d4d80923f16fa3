"""MetaSchedule on an emulated GPU: what TVM's rules for tensor cores make of its form, and products of a warp."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from int8tune.compiler.toolchain import nvrtc
from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceStartError
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.rpc.request import Case, Reply, Request
from int8tune.rpc.transports.fake import FakeTransport
from int8tune.schedules.target import gpu_target
from int8tune.schedules.template import Kernel, Rejection
from int8tune.schedules.workload import Workload, parse_workload
from int8tune.tuner.metaschedule import race_layer
from int8tune.tuner.metaschedule.form import peer_form, peer_workload
from int8tune.tuner.metaschedule.job import SearchJob
from int8tune.tuner.metaschedule.spec import RaceSpec
from tests.support.gpu import binaries as gpu_binaries
from tests.support.gpu import emulated as emulated_gpus
from tests.support.kernels.kernels import Built, EmulatedGpu
from tests.support.run.thinned import one_in
from tests.support.stand_ins.faulty_metaschedule import load_intrinsics_of_tvm

pytestmark = pytest.mark.usefixtures("emulated_gpu")

TARGET = gpu_target("cuda-sm90")
TOOLKIT = Path("/usr/local/cuda/include/mma.h")
needs_nvrtc = pytest.mark.skipif(
    bool(nvrtc.missing() or gpu_binaries.missing()), reason=str(nvrtc.missing() or gpu_binaries.missing())
)
LAYERS = (
    "conv2d-u8s8-1x6x6x32-k3x3x32-s1-p1-float.c-u8",
    "conv2d-u8s8-1x9x9x16-k3x3x24-s2-p1-d2-fused.cx-adds8-u8",
    "conv2d-s8s8-2x5x5x20-k1x1x32-s1-p0-fixed.t-clamp-s8",
    "dense-u8s8-33x48-o40-float.c-addu8-u8",
    "dense-u8s8-16x64-o16-s32",
)
# Where to begin to draw: blocks of the first layer have one warp, and two of them.
WARP, WARPS = 100, 400
# Faults of a kernel's source, and what they replace.
FAULTS = {
    "no barrier": (r"__syncthreads\(\);", ""),
    "weights in another order": (r"col_major", "row_major"),
    "a matrix that is not aligned": (r"(load_matrix_sync\(.*), (\d+)\);", r"\1 + 1, \2);"),
    "lanes that load different matrices": (
        r"(load_matrix_sync\(.*), (\d+)\);",
        r"\1 + ((int)threadIdx.x) / 16 * 16, \2);",
    ),
    "lanes that do not multiply": (r"(nvcuda::wmma::mma_sync)", r"if (((int)threadIdx.x) < 16) \1"),
}


def drawn(key: str, seed: int) -> tuple[Workload, Kernel, Any]:
    """A layer's form, and a schedule of it that TVM's rules draw and its checks let pass, with its module."""
    load_intrinsics_of_tvm("cuda")
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.postproc import Postproc

    from int8tune.tuner.metaschedule.definition import kernel_of, layer_function
    from int8tune.tuner.metaschedule.gpu import KIND, tensor_core_space, tvm_target

    workload = peer_workload(parse_workload(key), TARGET)
    assert not isinstance(workload, Rejection)
    form = peer_form(workload, TARGET)
    assert not isinstance(form, Rejection)
    for state in range(seed, seed + 100):
        context = ms.TuneContext(
            mod=layer_function(form),
            target=tvm_target(TARGET),
            space_generator=tensor_core_space(),
            rand_state=state,
            num_threads=1,
            task_name="main",
        ).clone()
        schedule = context.generate_design_space()[0]
        checks = Postproc.create(KIND)
        for check in checks:
            check._initialize_with_tune_context(context)
        if all(check.apply(schedule) for check in checks):
            return workload, kernel_of(form, schedule.mod["main"]), schedule.mod
    raise AssertionError("TVM's rules draw no schedule")


def built(key: str, seed: int, folder: Path, edit: Callable[[str], str] = lambda source: source) -> tuple[Built, str]:
    """A schedule that is drawn, linked as candidates are, and its CUDA C++, which may be edited before."""
    import tvm

    from int8tune.tuner.metaschedule.gpu import link_candidate

    sources: list[str] = []

    def compile_source(source: str, arch: str) -> bytes:
        assert arch == "sm_90a"
        sources.append(source)
        return emulated_gpus.compile_emulated(edit(source))

    workload, kernel, module = drawn(key, seed)
    library = folder / "candidate.so"
    link_candidate(module, library, TARGET, compile_source)
    entry = tvm.runtime.load_module(str(library))["main"]
    return EmulatedGpu(workload, kernel, None, entry), sources[0]


@pytest.mark.thorough
@pytest.mark.parametrize(("key", "seed"), one_in(10, itertools.product(LAYERS, (WARP, WARPS))))
def test_schedules_for_tensor_cores_are_exact(key: str, seed: int, tmp_path: Path) -> None:
    kernel, source = built(key, seed, tmp_path)
    assert "nvcuda::wmma::mma_sync" in source
    assert kernel.wrong_cases() == []


def how_it_fails(kernel: Built) -> str:
    """What the driver says where a kernel does not end; empty where it does."""
    try:
        kernel.wrong_cases()
    except RuntimeError as error:
        return str(error)
    return ""


def edited(fault: str, source: str) -> str:
    pattern, other = FAULTS[fault]
    wrong = re.sub(pattern, other, source)
    assert wrong != source
    return wrong


@pytest.mark.parametrize("fault", one_in(5, FAULTS))
@pytest.mark.thorough
def test_a_kernel_with_a_fault_is_caught(fault: str, tmp_path: Path) -> None:
    kernel, source = built(LAYERS[0], WARPS, tmp_path, partial(edited, fault))
    assert "__launch_bounds__(64)" in source
    assert "CUDA" in how_it_fails(kernel) or kernel.wrong_cases() != []


def machine_code(source: str, arch: str, folder: Path) -> list[str]:
    """The instructions of a source's kernel, with their operands."""
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(nvrtc.compile_cubin(source, arch))
    (code,) = gpu_binaries.codes_of(cubin).values()
    return [f"{name}{operands}" for _, name, operands in code.instructions]


@needs_nvrtc
@pytest.mark.parametrize("arch", one_in(3, ["sm_75", "sm_80", "sm_90a"]))
@pytest.mark.thorough
def test_a_warps_products_compile_to_those_of_tensor_cores(arch: str, tmp_path: Path) -> None:
    _, source = built(LAYERS[0], WARP, tmp_path)
    assert any(instruction.startswith("IMMA") for instruction in machine_code(source, arch, tmp_path))


@needs_nvrtc
@pytest.mark.skipif(not TOOLKIT.is_file(), reason=f"needs NVIDIA's header: {TOOLKIT}")
@pytest.mark.parametrize(("arch", "order"), [*itertools.product(["sm_75", "sm_90a"], ["col_major", "row_major"])])
@pytest.mark.thorough
def test_the_header_makes_the_code_that_nvidias_makes(
    arch: str, order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, source = built(LAYERS[0], WARP, tmp_path)
    source = source.replace("col_major", order)
    own = machine_code(source, arch, tmp_path)
    headers = {name: text for name, text in nvrtc._HEADERS.items() if name != "mma.h"}
    monkeypatch.setattr(nvrtc, "_HEADERS", headers)
    monkeypatch.setattr(nvrtc, "OPTIONS", (*nvrtc.OPTIONS, f"--include-path={TOOLKIT.parent}"))
    assert machine_code(source, arch, tmp_path) == own


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("conv2d-u8u8-1x8x8x16-k1x1x32-s1-p0-wz-float.c-u8", "weights must be s8 without a zero point"),
        ("conv2d-u8s8-1x8x8x16-k3x3x32-s1-p1-g2-float.c-u8", "TVM's tensor-core schedules take no layers with groups"),
        ("dwconv2d-u8s8-1x8x8x16-k3x3x1-s1-p1-float.c-u8", "TVM's tensor-core schedules take no layers with groups"),
    ],
)
def test_what_is_not_taken_has_a_reason(key: str, reason: str) -> None:
    assert peer_workload(parse_workload(key), TARGET) == Rejection(reason)


def test_data_is_signed_there_and_all_else_as_it_was() -> None:
    form = peer_workload(parse_workload(LAYERS[1]), TARGET)
    assert not isinstance(form, Rejection)
    assert form.key == LAYERS[1].replace("u8s8", "s8s8")


def test_vectors_of_zero_bytes_are_mended() -> None:
    from int8tune.tuner.metaschedule.gpu import mended

    zeros = ["(signed char)0"] * 16
    wide, narrow, right = (
        f"make_int4({', '.join(zeros)})",
        f"make_int2({', '.join(zeros[:8])})",
        "make_int4(1, 2, 3, 4)",
    )
    assert (
        mended(f"a = {wide}; b = {narrow}; c = {right};")
        == f"a = make_int4(0, 0, 0, 0); b = make_int2(0, 0); c = {right};"
    )


class TestBoardRunner:
    """What it makes of a board's answers; the board itself is in `tests/tuner/cli/test_lab_gpu.py`."""

    @pytest.fixture
    def library(self, tmp_path: Path) -> Path:
        path = tmp_path / "candidate.so"
        path.write_bytes(b"code")
        return path

    def results(
        self, library: Path, faults: list[Outcome | None], candidates: int = 1
    ) -> tuple[list[Any], list[Request]]:
        from tvm.s_tir.meta_schedule.runner import RunnerInput

        from int8tune.tuner.metaschedule.gpu import BoardRunner

        transport = FakeTransport(lambda _: Reply(Outcome.OK, ((3e-3, 1e-3, 2e-3),), (1,)), faults)
        transport.start()
        job = SearchJob(LAYERS[4].replace("u8s8", "s8s8"), TARGET, 4, 0, "", "", (0,))
        runner = BoardRunner(transport, job, (Case(("0.npy",), "1.npy"),))
        futures = runner.run([RunnerInput(str(library), "cuda", [])] * candidates)
        return [future.result() for future in futures], transport.requests

    def test_times_are_those_of_trials(self, library: Path) -> None:
        found, requests = self.results(library, [], candidates=2)
        assert [list(map(float, result.run_secs)) for result in found] == [[3e-3, 1e-3, 2e-3]] * 2
        assert [request.timing.give_up_s for request in requests] == [None, pytest.approx(1.15 * 2e-3)]
        assert requests[0].programs[0].sha256 == hashlib.sha256(b"code").hexdigest()
        assert len(requests[0].programs[0].cases) == 1

    def test_a_wrong_candidate_is_a_failed_one(self, library: Path) -> None:
        (result,), _ = self.results(library, [Outcome.WRONG_ANSWER])
        assert result.run_secs is None
        assert result.error_msg == "wrong_answer: injected: wrong_answer"

    def test_a_board_that_comes_back_is_asked_again(self, library: Path) -> None:
        (result,), requests = self.results(library, [Outcome.DEVICE_LOST])
        assert list(map(float, result.run_secs)) == [3e-3, 1e-3, 2e-3]
        assert len(requests) == 2

    def test_a_board_that_stays_away_ends_the_search(self, library: Path) -> None:
        with pytest.raises(RuntimeError, match="the device was lost: injected: device_lost"):
            self.results(library, [Outcome.DEVICE_LOST] * 2)


def test_a_board_is_waited_for_that_another_agent_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_layer, "BACK_EVERY_S", 0.01)
    monkeypatch.setattr(race_layer, "BACK_LIMIT_S", 0.1)
    waits = iter([True, True, False])

    def start() -> None:
        if next(waits, True):
            raise DeviceStartError("another agent is at work here")

    race_layer.start_again(start)
    with pytest.raises(DeviceStartError, match="another agent"):
        race_layer.start_again(start)


def test_a_search_has_more_time_for_a_gpu() -> None:
    spec = RaceSpec((), 10, board=Board("h100", TransportKind.GPU, gpu=0))
    assert spec.search_limit_s == spec.start_limit_s + 10 * 60
