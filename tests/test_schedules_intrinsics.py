"""Each tensor intrinsic against numpy on extreme operands, and what it takes from TVM and LLVM."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from kernels import compile_function
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.target import codegen

from schedules.intrinsics.x86_vnni import register_dot_16x4, register_dot_16x4_packed
from schedules.target import Target

ROWS = 24
LANES, TAPS = 16, 4


def broadcast_dot() -> Any:
    """`out[row, lane] = sum(data[row] * weight[row, lane])`: four bytes for all lanes."""

    @T.prim_func(s_tir=True)
    def dot(
        data: T.Buffer((ROWS, TAPS), "uint8"),
        weight: T.Buffer((ROWS, LANES, TAPS), "int8"),
        out: T.Buffer((ROWS, LANES), "int32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        for row, lane, tap in T.grid(ROWS, LANES, TAPS):
            with T.sblock("dot"):
                vr, vl, vt = T.axis.remap("SSR", [row, lane, tap])
                with T.init():
                    out[vr, vl] = 0
                out[vr, vl] = out[vr, vl] + T.cast(data[vr, vt], "int32") * T.cast(weight[vr, vl, vt], "int32")

    return dot


def packed_dot() -> Any:
    """`out[row, lane] = sum(bytes(data[row, lane]) * weight[row, lane])`: a word of four bytes for each lane."""

    @T.prim_func(s_tir=True)
    def dot(
        data: T.Buffer((ROWS, LANES), "uint32"),
        weight: T.Buffer((ROWS, LANES, TAPS), "int8"),
        out: T.Buffer((ROWS, LANES), "int32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        for row, lane, tap in T.grid(ROWS, LANES, TAPS):
            with T.sblock("dot"):
                vr, vl, vt = T.axis.remap("SSR", [row, lane, tap])
                with T.init():
                    out[vr, vl] = 0
                out[vr, vl] = out[vr, vl] + T.cast(
                    T.bitwise_and(T.shift_right(data[vr, vl], T.cast(vt * 8, "uint32")), T.uint32(255)), "int32"
                ) * T.cast(weight[vr, vl, vt], "int32")

    return dot


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """An intrinsic, a computation that is nothing but it, and the shape of its data in bytes."""

    register: Callable[[], str]
    computation: Callable[[], Any]
    data_shape: tuple[int, ...]

    def schedule(self) -> Any:
        schedule = Schedule(self.computation())
        block = schedule.get_sblock("dot")
        row, *_ = schedule.get_loops(block)
        schedule.decompose_reduction(block, row)
        schedule.tensorize(schedule.get_loops(block)[-2], self.register())
        return schedule.mod["main"]

    def build(self, target: Target) -> Any:
        return compile_function(self.schedule(), target)

    def run(self, executable: Any, data: npt.NDArray[np.uint8], weight: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
        values = np.ascontiguousarray(data).view(np.uint32)[..., 0] if data.ndim == 3 else data
        out = tvm.runtime.tensor(np.full((ROWS, LANES), -1, np.int32))
        executable.jit()["main"](
            tvm.runtime.tensor(np.ascontiguousarray(values)), tvm.runtime.tensor(np.ascontiguousarray(weight)), out
        )
        result: npt.NDArray[np.int32] = out.numpy()
        return result

    def expected(self, data: npt.NDArray[np.uint8], weight: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
        rows = data if data.ndim == 3 else data[:, None, :]
        result: npt.NDArray[np.int64] = (rows.astype(np.int64) * weight.astype(np.int64)).sum(axis=2)
        return result


INTRINSICS = {
    "dot_16x4": Intrinsic(register_dot_16x4, broadcast_dot, (ROWS, TAPS)),
    "dot_16x4_packed": Intrinsic(register_dot_16x4_packed, packed_dot, (ROWS, LANES, TAPS)),
}


def test_tensorize_survives() -> None:
    """In a process of its own: with an FFI newer than the pinned one, which TVM's metadata allow, it dies."""
    code = "from test_schedules_intrinsics import INTRINSICS; INTRINSICS['dot_16x4'].schedule()"
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={**os.environ, "PYTHONPATH": path})


def test_installed_versions_are_the_pinned_ones() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    pins = dict(dependency.split("==") for dependency in project["project"]["dependencies"] if "==" in dependency)
    assert set(pins) == {"apache-tvm[rpc]", "apache-tvm-ffi"}
    assert {name: importlib.metadata.version(name.split("[")[0]) for name in pins} == pins


@pytest.fixture(params=INTRINSICS, scope="module")
def intrinsic(request: pytest.FixtureRequest) -> Intrinsic:
    return INTRINSICS[request.param]


@pytest.fixture(scope="module")
def executable(intrinsic: Intrinsic, vnni: Target) -> Any:
    return intrinsic.build(vnni)


@pytest.mark.parametrize("data_value", [0, 1, 127, 128, 255])
@pytest.mark.parametrize("weight_value", [-128, -127, -1, 1, 127])
def test_constant_operands_are_exact(intrinsic: Intrinsic, executable: Any, data_value: int, weight_value: int) -> None:
    data = np.full(intrinsic.data_shape, data_value, np.uint8)
    weight = np.full((ROWS, LANES, TAPS), weight_value, np.int8)
    assert np.array_equal(intrinsic.run(executable, data, weight), intrinsic.expected(data, weight))


@pytest.mark.parametrize("phase", [0, 1])
def test_alternating_operands_are_exact(intrinsic: Intrinsic, executable: Any, phase: int) -> None:
    turns = np.arange(TAPS) % 2
    data = np.broadcast_to(np.where(turns, 255, 0), intrinsic.data_shape).astype(np.uint8)
    weight = np.broadcast_to(np.where(turns == phase, 127, -128), (ROWS, LANES, TAPS)).astype(np.int8)
    assert np.array_equal(intrinsic.run(executable, data, weight), intrinsic.expected(data, weight))


@pytest.mark.parametrize("seed", range(4))
def test_random_operands_are_exact(intrinsic: Intrinsic, executable: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 255, intrinsic.data_shape, np.uint8, endpoint=True)
    weight = rng.integers(-128, 127, (ROWS, LANES, TAPS), np.int8, endpoint=True)
    assert np.array_equal(intrinsic.run(executable, data, weight), intrinsic.expected(data, weight))


def test_code_is_the_512_bit_instruction(executable: Any) -> None:
    assert re.search(r"vpdpbusd\s.*%zmm\d+", executable.mod.inspect_source("asm"))


def test_llvm_knows_the_instruction() -> None:
    assert codegen.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.512") > 0
    assert codegen.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.1024") == 0


@pytest.mark.parametrize("intrinsic", INTRINSICS)
def test_tensorize_needs_no_machine_of_its_own(intrinsic: str) -> None:
    """A builder may lack the instructions of the device that it builds for."""
    options = {"kind": "llvm", "mcpu": "cascadelake", "mtriple": "x86_64-linux-gnu"}
    target = Target("x86-avx512vnni", "x86-avx512vnni", options, 16, 32)
    assert "vpdpbusd" in INTRINSICS[intrinsic].build(target).mod.inspect_source("asm")
