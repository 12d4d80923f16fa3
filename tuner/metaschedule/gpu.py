"""A search on a GPU: TVM's rules for its tensor cores, builds by NVRTC, times from a board. This module imports TVM.

Of the lists that TVM has for GPUs this is the one it takes by itself for an architecture with tensor cores. Source:
TVM, src/s_tir/meta_schedule/space_generator/space_generator.cc and schedule_rule/schedule_rule.cc.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.mutator import Mutator
from tvm.s_tir.meta_schedule.postproc import Postproc
from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture
from tvm.s_tir.meta_schedule.schedule_rule import ScheduleRule
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from int8tune.compiler.toolchain.gpu_library import link_gpu_module
from int8tune.compiler.toolchain.nvrtc import compile_cubin
from int8tune.results.record import Outcome
from int8tune.results.stats import median
from int8tune.rpc.board.agent_route import route_from_json
from int8tune.rpc.request import Case, Program
from int8tune.rpc.transports.agent import AgentTransport
from int8tune.rpc.transports.base import Transport
from int8tune.schedules.gpus import MOST_THREADS, REGISTERS_OF_A_MULTIPROCESSOR, WARP
from int8tune.schedules.lowering import GPU_HOST, compile_function
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Workload, parse_workload
from int8tune.tuner.campaign.candidate_builder import BUILD_LIMIT_S
from int8tune.tuner.campaign.measuring import SESSION_LIMIT_S, trial_request
from int8tune.tuner.metaschedule.job import SearchJob
from int8tune.tuner.metaschedule.search_setup import INTRINSICS, TASK, SearchSetup, end_with_parent

KIND = "cuda-tensorcore"
# What TVM's own targets of these GPUs say, whatever the GPU could have.
SHARED_BYTES = 48 << 10

# One pass reuses shared memory of bytes for sums, and another one refuses what it made. This leaves it to the pass that
# lays out all shared memory in one piece, which reuses it, too.
MERGED = {"tirx.merge_static_smem": True}

# TVM writes vectors of 8 and 16 zero bytes with an argument for each, for constructors that take one for each word.
_ZERO_BYTES = re.compile(r"make_int([24])\((?:\(signed char\)0(?:, )?){8,16}\)")

CompileSource = Callable[[str, str], bytes]
"""Machine code of CUDA C++ for an architecture, as `compiler.toolchain.nvrtc.compile_cubin`."""


@contextmanager
def gpu_setup(
    job: SearchJob, cases: Sequence[Case], compile_source: CompileSource = compile_cubin
) -> Iterator[SearchSetup]:
    """The setup of a search whose candidates run on the board of a job.

    Args:
        cases: with the arguments of every candidate; the last one is verified and timed.

    Raises:
        DeviceStartError: the board can't be reached.
    """
    route = route_from_json("route", job.route)
    link = partial(link_candidate, target=job.target, compile_source=compile_source)
    with closing(AgentTransport(route.board, route.command, route.files)) as transport:
        transport.start()
        yield SearchSetup(
            target=tvm_target(job.target),
            space=tensor_core_space(),
            builder=_builder(job, compile_source),
            runner=BoardRunner(transport, job, cases[-1:]),
            link=link,
        )


def tvm_target(target: Target) -> Any:
    """A GPU as TVM's rules know it."""
    limits = {
        "max_threads_per_block": MOST_THREADS,
        "max_shared_memory_per_block": SHARED_BYTES,
        "registers_per_block": REGISTERS_OF_A_MULTIPROCESSOR,
        "thread_warp_size": WARP,
    }
    return tvm.target.Target({**target.tvm, **limits, "host": GPU_HOST})


def tensor_core_space() -> Any:
    """All that TVM's rules for tensor cores make."""
    # They look their intrinsics up when they are made.
    importlib.import_module(INTRINSICS)
    return ms.space_generator.PostOrderApply(
        sch_rules=ScheduleRule.create(KIND), postprocs=Postproc.create(KIND), mutator_probs=Mutator.create(KIND)
    )


def build_candidate(module: Any, _tvm_target: Any, _params: Any, target: Target) -> Any:
    """Code of a scheduled module, as this library's own kernels are compiled."""
    function = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)[TASK]
    with tvm.transform.PassContext(config=MERGED):
        return compile_function(function, target).mod


def export_candidate(module: Any, arch: str, compile_source: CompileSource) -> str:
    """Link code in a new folder; the path of the library."""
    library = Path(tempfile.mkdtemp()) / "candidate.so"
    _link(module, library, arch, compile_source)
    return str(library)


def link_candidate(module: Any, library: Path, target: Target, compile_source: CompileSource) -> None:
    """Make the library of a scheduled module."""
    assert target.gpu is not None
    _link(build_candidate(module, None, None, target), library, target.gpu.arch, compile_source)


def _link(module: Any, library: Path, arch: str, compile_source: CompileSource) -> None:
    link_gpu_module(module, library, lambda source: compile_source(mended(source), arch))


def mended(source: str) -> str:
    """TVM's CUDA C++, which compiles."""
    return _ZERO_BYTES.sub(lambda found: f"make_int{found[1]}({', '.join('0' * int(found[1]))})", source)


def _builder(job: SearchJob, compile_source: CompileSource) -> Any:
    assert job.target.gpu is not None
    return ms.builder.LocalBuilder(
        max_workers=len(job.cores),
        timeout_sec=BUILD_LIMIT_S,
        f_build=partial(build_candidate, target=job.target),
        f_export=partial(export_candidate, arch=job.target.gpu.arch, compile_source=compile_source),
        initializer=end_with_parent,
    )


class _Sessions:
    """Sessions as those of a campaign's trials."""

    session_limit_s = SESSION_LIMIT_S
    cold = None

    def __init__(self, probe: Program | None) -> None:
        self.probe = probe


@derived_object
class BoardRunner(ms.runner.PyRunner):  # type: ignore[misc]
    """Has candidates verified and timed on a board, one after the other, as a campaign's trials are."""

    def __init__(self, transport: Transport, job: SearchJob, cases: Sequence[Case]) -> None:
        super().__init__()
        self._transport = transport
        self._workload: Workload = parse_workload(job.workload)
        self._sessions = _Sessions(job.probe)
        self._cases = tuple(cases)
        self._best_s: float | None = None

    def run(self, runner_inputs: Sequence[Any]) -> list[Any]:
        """A future for each candidate, which is done.

        Raises:
            RuntimeError: the board was lost, twice in a row.
        """
        return [LocalRunnerFuture(*self._run(str(one.artifact_path))) for one in runner_inputs]

    def _run(self, library: str) -> tuple[list[float] | None, str | None]:
        """Seconds per call, or what went wrong."""
        program = Program(library, hashlib.sha256(Path(library).read_bytes()).hexdigest(), TASK, self._cases)
        request = trial_request(self._sessions, self._workload, program, self._best_s)
        reply = self._transport.run(request)
        if reply.outcome is Outcome.DEVICE_LOST or reply.was_killed:
            reply = self._transport.run(request)
        if reply.outcome is Outcome.DEVICE_LOST:
            raise RuntimeError(f"the device was lost: {reply.error}")
        if reply.outcome is not Outcome.OK:
            return None, f"{reply.outcome.value}: {reply.error}"
        (times_s,) = reply.times_s
        self._best_s = min(self._best_s or median(times_s), median(times_s))
        return list(times_s), None
