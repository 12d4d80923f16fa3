"""One build, in a process of its own: LLVM may abort it, and nothing else is lost."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

# What templates import when they are applied: loaded here once, and not in every child again.
import int8tune.schedules.arm.blocked_kernel
import int8tune.schedules.arm.conv_kernel
import int8tune.schedules.arm.depthwise_kernel
import int8tune.schedules.arm.peak_kernel
import int8tune.schedules.compute_probes
import int8tune.schedules.cuda.depthwise_kernel
import int8tune.schedules.cuda.first_kernel
import int8tune.schedules.cuda.gemm_kernel
import int8tune.schedules.generic.depthwise_schedule
import int8tune.schedules.generic.direct_schedule
import int8tune.schedules.intrinsics.x86_vectors
import int8tune.schedules.x86.amx_kernel
import int8tune.schedules.x86.conv_kernel
import int8tune.schedules.x86.depthwise_kernel
import int8tune.schedules.x86.grouped_kernel
import int8tune.schedules.x86.peak_kernel  # noqa: F401
from int8tune.compiler.toolchain.gpu_library import link_gpu_module
from int8tune.compiler.toolchain.linker import link_module
from int8tune.compiler.toolchain.nvrtc import compile_cubin
from int8tune.results.record import Candidate, Outcome
from int8tune.rpc.mca.estimate import estimate_cycles
from int8tune.rpc.request import Case, Program
from int8tune.schedules.errors import ConfigError
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.probes import bandwidth_probe, peak_probe, word_probe
from int8tune.schedules.target import Target
from int8tune.schedules.upgrades import with_same_kernel
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.builder.holes import save_with_holes
from int8tune.tuner.builder.job import RESULT_FILE, Built, Job, built_to_json
from int8tune.tuner.verify import write_cases, write_suite

ENTRY = "main"


def build(job: Job) -> None:
    """Do the job and leave its result in the folder, whole or not at all."""
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if job.candidate:
            built = _build_candidate(job, job.candidate, folder)
        elif job.probe:
            built = _build_probe(job, folder)
        else:
            write_suite(parse_workload(job.workload), Path(job.suite))
            built = Built(job.id, Outcome.OK)
    except ConfigError as error:
        built = _failed(job, Outcome.REJECTED, error)
    except Exception as error:  # whatever a template or the compiler raises says something about this candidate only
        built = _failed(job, Outcome.BUILD_FAILED, error)
    text = json.dumps(built_to_json(built))
    partial = folder / f"{RESULT_FILE}.partial"
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, folder / RESULT_FILE)  # noqa: PTH105


def link(function: Any, target: Target, library: Path) -> tuple[str, ...]:
    """Generate code for the target and link it into a shared library; what a GPU's compiler says of slow code.

    Raises:
        NoCudaCompilerError, CudaCompileError: from `compiler.toolchain.nvrtc.compile_cubin`, where the target is a GPU.
    """
    module = compile_function(function, target).mod
    advice: list[str] = []
    if target.gpu is None:
        link_module(module, library)
    else:
        link_gpu_module(module, library, partial(compile_cubin, arch=target.gpu.arch, advise=advice.append))
    return tuple(advice)


def _build_probe(job: Job, folder: Path) -> Built:
    loops = {"peak": peak_probe, "words": word_probe}
    probe = loops[job.probe](job.target) if isinstance(job.probe, str) else bandwidth_probe(job.target, job.probe)
    library = folder / "probe.so"
    link(probe.function, job.target, library)
    files = [folder / f"{position}.npy" for position in range(len(probe.inputs) + 1)]
    for file, array in zip(files, (*probe.inputs, probe.expected), strict=True):
        save_with_holes(file, array)
    case = Case(tuple(map(str, files[:-1])), str(files[-1]))
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    return Built(job.id, Outcome.OK, Program(str(library), digest, ENTRY, (case,)), work=probe.work)


def _build_candidate(job: Job, candidate: Candidate, folder: Path) -> Built:
    workload = parse_workload(job.workload)
    found = with_same_kernel(candidate.template, candidate.template_version, candidate.config)
    if rejection := found.template.rejects(workload, job.target):
        raise ConfigError(rejection.reason)
    kernel = found.template.apply(workload, job.target, found.config)
    library = folder / "kernel.so"
    advice = link(kernel.function, job.target, library)
    cycles = estimate_cycles(library, job.estimate_cpu, limit_s=job.limit_s).cycles if job.estimate_cpu else None
    cases = write_cases(workload, kernel, Path(job.suite), folder)
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    program = Program(str(library), digest, ENTRY, cases)
    return Built(job.id, Outcome.OK, program, _binary(digest, cases), estimated_cycles=cycles, advice=advice)


def _binary(library_digest: str, cases: tuple[Case, ...]) -> str:
    """One name for what is measured: the code and the weights in the order it reads them."""
    digest = hashlib.sha256(library_digest.encode())
    digest.update(Path(cases[0].inputs[1]).read_bytes())
    return digest.hexdigest()


def _failed(job: Job, outcome: Outcome, error: Exception) -> Built:
    """One line for a person: TVM's messages show the whole program first and the reason last."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith("Error message:")]
    text = (reasons or lines or [type(error).__name__])[-1 if reasons else 0]
    return Built(job.id, outcome, error_class=type(error).__name__, error=text[:300])
