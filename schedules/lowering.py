"""From a kernel's TIR to code for a target. This module imports TVM."""

from __future__ import annotations

from typing import Any

import tvm

from schedules.target import Target

AS_WRITTEN = "int8tune.as_written"
"""The attribute of functions whose loops and statements are those that are to run."""

# Passes of TVM's pipeline that find nothing to do in such functions, and take half of a long one's compile time. Only
# StorageRewrite would do something: drop the annotation that keeps sums on the stack (`schedules.x86.accumulators`).
_FOR_SCHEDULED_FUNCTIONS = (
    "s_tir.CompactBufferAllocation",
    "s_tir.HoistIfThenElse",
    "s_tir.InferFragment",
    "s_tir.InjectDoubleBuffer",
    "s_tir.InjectPermutedLayout",
    "s_tir.InjectSoftwarePipeline",
    "s_tir.InjectVirtualThread",
    "s_tir.InsertHoistIfThenElse",
    "s_tir.LoopPartition",
    "s_tir.RenormalizeSplitPattern",
    "s_tir.RewriteUnsafeSelect",
    "s_tir.StmtSimplify",
    "s_tir.ThreadSync",
    "s_tir.TransformMmaBufferLayout",
    "tirx.NarrowDataType",
    "tirx.StorageRewrite",
    "tirx.UnrollLoop",
)


def compile_function(function: Any, target: Target) -> Any:
    """The executable of a PrimFunc."""
    around = tvm.transform.PassContext.current()
    skipped = _FOR_SCHEDULED_FUNCTIONS if AS_WRITTEN in (function.attrs or {}) else ()
    with tvm.transform.PassContext(disabled_pass=list(skipped), instruments=around.instruments):
        return tvm.compile(function, target=tvm.target.Target(dict(target.tvm)))
