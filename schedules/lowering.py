"""From a kernel's TIR to code for a target. This module imports TVM."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi

from int8tune.schedules.target import Target

AS_WRITTEN = "int8tune.as_written"
"""The attribute of functions whose loops and statements are those that are to run."""

SIMPLIFIED = "int8tune.simplified"
"""The attribute of such functions whose buffers have one axis, whose divisions are a CPU's (`truncdiv`), and which bind
what they use more than once."""

# Passes of TVM's pipeline that find nothing to do in such functions, and take half of a long one's compile time. Only
# StorageRewrite would do something: drop the annotation that keeps sums on the stack
# (`schedules.written.accumulators`).
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

# Those that have nothing to do where expressions, too, are as they are to run. They take most of a long function's
# compile time: they write out what is bound wherever it is used, only to find that it is the same everywhere.
_FOR_SIMPLIFIED_FUNCTIONS = (
    "tirx.CommonSubexprElim",
    "tirx.FlattenBuffer",
    "tirx.LowerIntrin",
    "tirx.RemoveNoOp",
    "tirx.StmtSimplify",
)


# The CPU that launches a GPU's kernels: any.
GPU_HOST = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"}
_CUDA_FACTORY = "ffi.Module.create.cuda"


# Loops of fewer than 16 turns may end with a masked vector. Of a masked store of one shortened lane, LLVM 22 writes the
# whole lane on AVX-512: three bytes too many of a byte made of an int32. Single turns end such loops instead.
_NO_MASKED_ENDS = "-vectorizer-min-trip-count:uint=0"
_LANES_OF_AVX512 = 16


def llvm_options(target: Target) -> dict[str, Any]:
    """TVM's options for a CPU's code."""
    return {**target.tvm, **({"cl-opt": [_NO_MASKED_ENDS]} if target.vector_lanes == _LANES_OF_AVX512 else {})}


def compile_function(function: Any, target: Target) -> Any:
    """The executable of a PrimFunc; of a GPU's, the code that launches its kernels, which imports their CUDA C++.

    It does not check the types and shapes of its arguments: the code for that is longer than many a kernel's own, and
    LLVM's time with it.
    """
    with tvm.transform.PassContext(
        instruments=tvm.transform.PassContext.current().instruments, **pass_options(function)
    ):
        if target.gpu is None:
            return tvm.compile(function, target=tvm.target.Target(llvm_options(target)))
        # Where TVM finds a driver it would compile the kernels now, its own way, for which it needs NVIDIA's headers.
        if tvm_ffi.get_global_func(_CUDA_FACTORY, allow_missing=True) is not None:
            tvm_ffi.registry.remove_global_func(_CUDA_FACTORY)
        return tvm.compile(function, target=tvm.target.Target({**target.tvm, "host": GPU_HOST}))


def pass_options(function: Any) -> dict[str, Any]:
    """Which passes of TVM a PrimFunc does without, and the options of the others."""
    attributes = function.attrs or {}
    skipped = [
        *(AS_WRITTEN in attributes) * _FOR_SCHEDULED_FUNCTIONS,
        *(SIMPLIFIED in attributes) * _FOR_SIMPLIFIED_FUNCTIONS,
    ]
    return {
        "disabled_pass": skipped,
        "config": {**tvm.transform.PassContext.current().config, "tirx.disable_assert": True},
    }
