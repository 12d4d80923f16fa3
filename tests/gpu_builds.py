"""Builds for an emulated GPU: whatever schedule is asked for, one plain product of matrices."""

from __future__ import annotations

import functools
import operator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
import tvm
from gpu_kernels import build_emulated_library, build_gpu_kernels
from rpc_kernels import sha256_of
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from results.record import Outcome
from rpc.request import Case, Program
from schedules.operands import Operands
from schedules.workload import Workload, parse_workload
from tuner.bench.gpu.peers.matrices import matrices_of
from tuner.build.job import Built, Job
from tuner.verify import read_case

# What a probe says that it does; it only adds ones.
PROBE_WORK = 1_000_000


class EmulatedPool:
    """A pool that builds in this process, when it is asked. It takes usual layers: the float rule, and u8 out of it.

    Attributes:
        probes: that were asked for, of all pools.
    """

    width = 1
    probes: ClassVar[list[str]] = []

    def __init__(self, *_given: object) -> None:
        self._built: list[Built] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...

    @property
    def pending(self) -> int:
        return len(self._built)

    def submit(self, job: Job) -> None:
        if job.probe:
            folder = Path(job.folder)
            folder.mkdir(parents=True)
            (program,) = build_gpu_kernels(folder).request("increment").programs
            self.probes.append(str(job.probe))
            self._built.append(Built(job.id, Outcome.OK, program, work=PROBE_WORK))
            return
        folder = Path(job.suite if job.candidate is None else job.folder)
        folder.mkdir(parents=True)
        program = None if job.candidate is None else _build(parse_workload(job.workload), Path(job.suite), folder)
        self._built.append(Built(job.id, Outcome.OK, program))

    def collect(self, _limit_s: float, _wake: int | None = None) -> list[Built]:
        built, self._built = self._built, []
        return built

    def hush(self, _wanted: bool) -> None: ...

    def close(self) -> None: ...


def _build(workload: Workload, suite: Path, folder: Path) -> Program:
    library = folder / "kernel.so"
    operands, expected = read_case(suite / "0.npz")
    inputs = _inputs(workload, operands)
    function = _product(*inputs[0].shape, inputs[1].shape[0], int(operands.output_zero_point))
    build_emulated_library(library, tvm.IRModule({"main": function}))
    arrays = [*inputs, expected.reshape(inputs[0].shape[0], inputs[1].shape[0])]
    files = [folder / f"{position}.npy" for position in range(len(arrays))]
    for file, array in zip(files, arrays, strict=True):
        np.save(file, array)
    case = Case(tuple(map(str, files[:-1])), str(files[-1]))
    return Program(str(library), sha256_of(library), "main", (case,))


def _inputs(workload: Workload, operands: Operands) -> list[Any]:
    """Both matrices without zero points, in int32; the border is 0 then."""
    centred = operands.data.astype(np.int32) - operands.data_zero_point
    matrices = matrices_of(workload, replace(operands, data=centred))
    scale = np.broadcast_to(operands.scale, matrices.channels).astype(np.float32)
    weight = matrices.weight[: matrices.channels].astype(np.int32)
    return [np.ascontiguousarray(array) for array in (matrices.data, weight, operands.bias, scale)]


def _product(rows: int, depth: int, columns: int, zero_point: int) -> Any:
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        T.func_attr({"global_symbol": "main"})
        data = T.arg("data", T.buffer((rows, depth), "int32"))
        weight = T.arg("weight", T.buffer((columns, depth), "int32"))
        bias = T.arg("bias", T.buffer((columns,), "int32"))
        scale = T.arg("scale", T.buffer((columns,), "float32"))
        made = T.arg("made", T.buffer((rows, columns), "uint8"))
        with T.launch_thread("blockIdx.x", rows) as row, T.launch_thread("threadIdx.x", columns) as column:
            products = [data[row, step] * weight[column, step] for step in range(depth)]
            total = functools.reduce(operator.add, products, bias[column])
            scaled = T.Cast("int32", T.nearbyint(T.Cast("float32", total) * scale[column])) + T.int32(zero_point)
            T.buffer_store(made, T.Cast("uint8", T.max(T.min(scaled, T.int32(255)), T.int32(0))), (row, column))
    return builder.get()
