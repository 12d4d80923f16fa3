"""Contestants on an emulated GPU, with a libcublasLt for it: everything but these two is real."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from int8tune.results.record import Outcome
from int8tune.rpc.agent.cuda_libraries import find_library
from int8tune.rpc.request import Capabilities, Timing
from int8tune.rpc.session.timing import time_in_turn
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bench.contestant import Contestant, Contestants
from int8tune.tuner.bench.gpu.libraries import CUBLASLT
from int8tune.tuner.bench.gpu.peers import lt
from int8tune.tuner.bench.gpu.peers.cublaslt import CUBLASLT_PEERS
from int8tune.tuner.bench.gpu.peers.matrices import product_operands
from int8tune.tuner.bench.gpu.peers.registry import GPU_PEERS
from int8tune.tuner.bench.gpu_rates import gpu_rates
from int8tune.tuner.bench.layers import choose_layers
from int8tune.tuner.bench.match import Player, seat_peer
from int8tune.tuner.bench.peers.base import PeerError
from tests.support.gpu import emulated as emulated_gpus
from tests.support.gpu.kernels import build_gpu_kernels, install_emulated_cublaslt
from tests.support.kernels.rpc_kernels import Kernels
from tests.support.run.thinned import one_in

PRODUCTS = (
    "dense-u8s8-19x96-o64-float.c-u8",
    "dense-u8s8-1x64-o1001-float.c-u8",
    "conv2d-u8s8-1x8x8x36-k1x1x40-s1-p0-float.c-u8",
    "conv2d-s8s8-2x5x4x64-k1x1x16-s1-p0-fixed.t-s8",
)
OTHERS = (
    "conv2d-u8s8-1x9x8x16-k3x3x24-s1-p1-float.c-u8",
    "conv2d-u8s8-2x9x8x16-k3x2x24-s2x1-p0.1.1.0-d2-float.c-u8",
    "conv2d-u8s8-1x14x14x32-k1x1x40-s2-p0-float.c-u8",
    "conv2d-u8s8-1x16x16x3-k7x7x8-s2-p3-float.c-u8",
)
REJECTED = (
    ("cublaslt", "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-s32", "the output is s32"),
    ("cublaslt", "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-float.c-clamp-u8", "not clamped"),
    ("cublaslt", "conv2d-u8s8-1x8x8x16-k1x1x16-s1-p0-float.c-addu8-u8", "residual"),
    ("cublaslt", "conv2d-u8u8-1x8x8x16-k1x1x16-s1-p0-wz-float.c-u8", "must be s8"),
    ("cublaslt", "conv2d-u8s8-1x8x8x10-k1x1x16-s1-p0-float.c-u8", "must be a multiple of 4: 10"),
    ("cublaslt", OTHERS[0], "is no product as its data lies"),
    ("cublaslt-gemm", PRODUCTS[2], "is a product as its data lies"),
    ("cublaslt-gemm", "conv2d-u8s8-1x8x8x16-k3x3x16-s1-p1-g4-float.c-u8", "groups"),
    ("cublaslt-gemm", "dwconv2d-u8s8-1x9x9x32-k3x3x1-s1-p1-float.c-u8", "groups"),
    ("torch", "dense-u8s8-1x64-o64-float.c-u8", "needs 17 rows or more: 1"),
    ("torch", "dense-u8s8-19x36-o64-float.c-u8", "must be a multiple of 8: 36"),
    ("torch", OTHERS[0], "is no product as its data lies"),
)
PEERS = {peer.name: peer for peer in GPU_PEERS}
MODULE = "int8tune.tuner.bench.gpu.worker"
BRIEF = Timing(5, 0.0005)
CORES = sorted(os.sched_getaffinity(0))[-1:]


def install(folder: Path, **settings: int) -> Path:
    folder.mkdir(exist_ok=True)
    emulated_gpus.install(folder, **settings)
    install_emulated_cublaslt(folder)
    return folder


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = install(tmp_path_factory.mktemp("gpu"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(folder))
        yield folder


@pytest.fixture
def contestants(gpu: Path) -> Iterator[Contestants]:  # noqa: ARG001
    with Contestants(MODULE, gpu=0) as started:
        yield started


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return build_gpu_kernels(tmp_path_factory.mktemp("kernels"))


def player(contestants: Contestants, name: str) -> Player:
    return Player(contestants.add(CORES, name), name, PEERS[name], operands=product_operands)


def load(contestant: Contestant, kernels: Kernels, entry: str) -> tuple[int, int] | None:
    (program,) = kernels.request(entry).programs
    return contestant.load(dataclasses.asdict(program))


@pytest.mark.parametrize("peer", one_in(2, CUBLASLT_PEERS), ids=lambda peer: peer.name)
@pytest.mark.matrix(at_most=1)
def test_products_are_those_of_the_oracle(peer: object, contestants: Contestants, tmp_path: Path) -> None:
    one = player(contestants, peer.name)  # type: ignore[attr-defined]
    for key in OTHERS if "gemm" in one.name else PRODUCTS:
        seat = seat_peer(one, parse_workload(key), tmp_path)
        assert (seat.outcome, seat.error) == (Outcome.OK, ""), key
        assert one.contestant.mean_s(3) > 0
    assert one.contestant.version == "13.0.2"


@pytest.mark.parametrize(("name", "key", "reason"), REJECTED)
def test_rejections_have_a_reason(name: str, key: str, reason: str) -> None:
    rejection = PEERS[name].form(parse_workload(key))
    assert isinstance(rejection, Rejection)
    assert reason in rejection.reason


@pytest.mark.parametrize("peer", GPU_PEERS, ids=lambda peer: peer.name)
def test_forms_have_the_same_work(peer: object) -> None:
    forms = [(layer, peer.form(layer)) for layer in choose_layers([])]  # type: ignore[attr-defined]
    taken = [(layer, form) for layer, form in forms if not isinstance(form, Rejection)]
    assert len(taken) > 30
    for layer, form in taken:
        assert (form.macs, form.data_shape, form.weight_shape) == (layer.macs, layer.data_shape, layer.weight_shape)
        assert form.output_shape == layer.output_shape
        assert peer.form(form) == form  # type: ignore[attr-defined]


def test_every_layer_that_is_no_group_has_a_product() -> None:
    for layer in choose_layers(["resnet50", "bert_base"]):
        assert any(not isinstance(peer.form(layer), Rejection) for peer in CUBLASLT_PEERS)


@pytest.mark.parametrize(
    ("features", "environment", "rate"),
    [
        ({"avx2", "cuda_sm_80"}, {"gpu_multiprocessors": "108", "gpu_clock_khz": "1410000"}, 623.8e12),
        ({"cuda_sm_75"}, {"gpu_multiprocessors": "40", "gpu_clock_khz": "1590000"}, 130.3e12),
        (
            {"cuda_sm_80", "cuda_sm_86", "cuda_sm_89"},
            {"gpu_multiprocessors": "58", "gpu_clock_khz": "2040000"},
            242.3e12,
        ),
        ({"cuda_sm_100"}, {"gpu_multiprocessors": "148", "gpu_clock_khz": "1860000"}, 4510.2e12),
        ({"cuda_sm_200"}, {"gpu_multiprocessors": "148", "gpu_clock_khz": "1860000"}, None),
        ({"cuda_sm_80"}, {"gpu_multiprocessors": "many", "gpu_clock_khz": "1410000"}, None),
        ({"avx2"}, {}, None),
    ],
)
def test_rates_are_those_of_data_sheets(features: set[str], environment: dict[str, str], rate: float | None) -> None:
    device = Capabilities("x86_64", "", "", "", frozenset(features), (0,), {}, environment)
    found = gpu_rates(device)
    assert [float(found[name]) for name in found] == ([] if rate is None else [pytest.approx(rate, rel=1e-3)])


@pytest.mark.skipif(find_library(CUBLASLT) is None, reason="needs the extra `gpu-peers`: no libcublasLt is installed")
def test_attributes_are_those_of_the_real_library() -> None:
    """What needs no GPU: it refuses an attribute of another size, and says what was set."""
    path = find_library(CUBLASLT)
    assert path is not None
    real = lt.Lt(path)
    described = real.make("cublasLtMatmulDescCreate", lt.CUBLAS_COMPUTE_32I, lt.DataType.CUDA_R_32F)
    taken = ctypes.c_int32(lt.CUBLAS_OP_T)
    real.set("cublasLtMatmulDescSetAttribute", described, lt.CUBLASLT_MATMUL_DESC_TRANSA, taken)
    with pytest.raises(PeerError, match="cublasLtMatmulDescSetAttribute: CUBLAS_STATUS_INVALID_VALUE"):
        real.set("cublasLtMatmulDescSetAttribute", described, lt.CUBLASLT_MATMUL_DESC_TRANSA, ctypes.c_int64(1))
    preference = real.make("cublasLtMatmulPreferenceCreate")
    limit = ctypes.c_uint64(1 << 25)
    real.set("cublasLtMatmulPreferenceSetAttribute", preference, lt.CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, limit)
    for element in lt.DataType:
        assert real.make("cublasLtMatrixLayoutCreate", element, 64, 32, 64).value
    assert real.version.split(".")[0] in ("12", "13")


@pytest.mark.alone
@pytest.mark.thorough
def test_the_fastest_algorithm_is_taken(
    contestants: Contestants, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one that the emulated library names takes three times as long as the last."""
    taken_s = []
    for _ in range(2):
        one = player(contestants, "cublaslt")
        assert seat_peer(one, parse_workload("dense-u8s8-64x64-o64-float.c-u8"), tmp_path).error == ""
        taken_s.append(min(one.contestant.mean_s(2) for _ in range(30)))
        monkeypatch.setenv("PLAYED_ALGORITHMS", "1")
    assert taken_s[1] > 1.7 * taken_s[0]


@pytest.mark.thorough
def test_own_kernels_are_judged_and_timed(contestants: Contestants, kernels: Kernels) -> None:
    own = contestants.add(CORES)
    assert load(own, kernels, "increment") == (0, 0), own.failure
    assert (load(own, kernels, "skips_last") or (0, 0))[0] == 1
    assert load(own, kernels, "increment") == (0, 0)
    times_s, calls = time_in_turn([own], replace(BRIEF, min_repeat_s=0.01))
    assert len(times_s[0]) == BRIEF.repeats
    assert calls[0] > 1
    assert all(0 < time_s < 0.01 for time_s in times_s[0])


@pytest.mark.thorough
def test_after_a_kernel_that_broke_the_gpu_the_next_layer_has_a_new_process(
    contestants: Contestants, kernels: Kernels
) -> None:
    own = contestants.add(CORES)
    assert load(own, kernels, "wild") is None
    assert "illegal memory access" in own.failure
    assert math.isnan(own.mean_s(1))
    assert load(own, kernels, "increment") == (0, 0), own.failure


@pytest.mark.parametrize(
    ("settings", "number", "fault"),
    one_in(
        2,
        [
            ({"driver": 12040}, 0, "its driver is too old: of CUDA 12.4, needed 13.0"),
            ({"driver": 0}, 0, "this machine has no driver of NVIDIA's"),
            ({"gpus": 3}, 3, "there is no GPU 3, of 3 the last is 2"),
            ({"gpus": 0}, 0, "the driver finds no GPU"),
        ],
    ),
)
def test_a_gpu_that_can_not_be_used_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, int], number: int, fault: str
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(install(tmp_path / "gpu", **settings)))
    with Contestants(MODULE, gpu=number) as contestants:
        one = player(contestants, "cublaslt")
        seat = seat_peer(one, parse_workload(PRODUCTS[0]), tmp_path)
    assert (seat.outcome, seat.error) == (Outcome.RUN_FAILED, f"CudaError: {fault}")


@pytest.mark.thorough
def test_memory_that_is_not_there_is_said_and_what_was_there_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace takes 32 MiB: of 40 there is room for one layer at a time, and for none that takes 8 itself."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(install(tmp_path / "gpu", memory=40 << 20)))
    with Contestants(MODULE, gpu=0) as contestants:
        one = player(contestants, "cublaslt")
        for key in (PRODUCTS[0], PRODUCTS[2], PRODUCTS[0]):
            assert seat_peer(one, parse_workload(key), tmp_path).error == ""
        seat = seat_peer(one, parse_workload("dense-u8s8-64x4096-o2048-float.c-u8"), tmp_path)
        assert seat.error.startswith("CudaError: no memory left on the GPU for 33554432 bytes: ")
        assert seat_peer(one, parse_workload(PRODUCTS[0]), tmp_path).error == ""
