"""A search on this machine's CPU: TVM's rules for x86, but with an exact dot product. This module imports TVM.

Source of the rules: TVM, src/s_tir/meta_schedule/schedule_rule/schedule_rule.cc and postproc/postproc.cc. Kernels have
one thread here, so no rule makes loops parallel.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from tvm.driver import build as build_module
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule import mutator, postproc, schedule_rule
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from int8tune.compiler.toolchain.linker import link_module
from int8tune.tuner.campaign.candidate_builder import BUILD_LIMIT_S
from int8tune.tuner.campaign.measuring import SESSION_LIMIT_S, TRIAL_TIMING
from int8tune.tuner.metaschedule.intrinsic import register_dot
from int8tune.tuner.metaschedule.job import SearchJob
from int8tune.tuner.metaschedule.search_setup import SearchSetup, end_with_parent

UNROLL_STEPS = [0, 16, 64, 512]
MOST_INNERMOST = 64


def cpu_setup(job: SearchJob) -> SearchSetup:
    """The setup of a search that builds on a job's cores and times on the last of them."""
    target = tvm.target.Target({**job.target.tvm, "num-cores": job.target.threads})

    def link(module: Any, library: Path) -> None:
        link_module(build_candidate(module, target, None), library)

    space = _space(job.intrinsic or register_dot(job.target))
    return SearchSetup(target, space, _builder(len(job.cores)), _runner(job.cores[-1]), link)


def build_candidate(module: Any, target: Any, _params: Any) -> Any:
    """Code of a scheduled module. TVM's own function loads its intrinsics for GPUs first, which takes 15 s."""
    return build_module(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), target=target)


def export_candidate(module: Any) -> str:
    """Link code in a new folder; the path of the library."""
    library = Path(tempfile.mkdtemp()) / "candidate.so"
    link_module(module, library)
    return str(library)


def _space(intrinsic: str | None) -> Any:
    """All that TVM's rules for x86 make; without an intrinsic what those for any CPU make."""
    rules = schedule_rule
    reuse = rules.ReuseType(req="may", levels=[1, 2], scope="global")
    tiling = {"structure": "SSRSRS", "max_innermost_factor": MOST_INNERMOST, "reuse_write": reuse}
    tensorized = [rules.MultiLevelTilingWithIntrin(intrinsic, **tiling)] if intrinsic else []
    return ms.space_generator.PostOrderApply(
        sch_rules=[
            rules.ApplyCustomRule(),
            rules.InlineConstantScalars(),
            rules.AutoInline(
                into_producer=False,
                into_consumer=True,
                inline_const_tensor=True,
                disallow_if_then_else=True,
                require_injective=True,
                require_ordered=True,
                disallow_op=["tirx.exp"],
            ),
            rules.AddRFactor(max_jobs_per_core=16, max_innermost_factor=MOST_INNERMOST),
            *tensorized,
            rules.MultiLevelTiling(**tiling),
            rules.ParallelizeVectorizeUnroll(
                max_jobs_per_core=-1, max_vectorize_extent=64, unroll_max_steps=UNROLL_STEPS, unroll_explicit=True
            ),
            rules.RandomComputeLocation(),
        ],
        postprocs=[
            postproc.DisallowDynamicLoop(),
            postproc.RewriteParallelVectorizeUnroll(),
            postproc.RewriteReductionBlock(),
            postproc.RewriteTensorize(vectorize_init_loop=True),
            postproc.RewriteLayout(),
        ],
        mutator_probs=mutator.Mutator.create("llvm"),
    )


def _builder(workers: int) -> Any:
    return ms.builder.LocalBuilder(
        max_workers=workers,
        timeout_sec=BUILD_LIMIT_S,
        f_build=build_candidate,
        f_export=export_candidate,
        initializer=end_with_parent,
    )


def _runner(core: int) -> Any:
    """Times candidates as trials of a campaign are timed."""
    timing = ms.runner.EvaluatorConfig(
        number=1, repeat=TRIAL_TIMING.repeats, min_repeat_ms=round(TRIAL_TIMING.min_repeat_s * 1e3)
    )
    return ms.runner.LocalRunner(
        timeout_sec=SESSION_LIMIT_S, evaluator_config=timing, initializer=partial(_bind_to, core)
    )


def _bind_to(core: int) -> None:
    end_with_parent()
    os.sched_setaffinity(0, [core])
