"""ONNX Runtime: QLinearConv with channels last, and QGemm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Workload
from int8tune.tuner.bench.peers.base import Array, LoadedLayer
from int8tune.tuner.bench.peers.forms import float_form
from int8tune.tuner.bench.peers.onnx_model import layer_model

ERRORS_ONLY = 3


class OnnxRuntime:
    """Weights may be u8 and have a zero point; outputs have the data's type."""

    name = "onnxruntime"
    requires = ("onnxruntime", "onnx")

    def form(self, workload: Workload) -> Workload | Rejection:
        if workload.numerics.types == "s8u8":
            return Rejection("s8 data needs s8 weights: u8")
        return float_form(workload, workload.numerics.data)

    def version(self) -> str:
        import onnxruntime

        return str(onnxruntime.__version__)

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        session = session_of(layer_model(workload, operands, channels_last=True), threads)
        return _Layer(session, workload, operands.data)


def session_of(
    model: bytes | str, threads: int, optimizes: bool = True, keeps_int8: bool = False, written: Path | None = None
) -> Any:
    """A session on CPUs of a model, or of the file of that path, with so many threads.

    Args:
        keeps_int8: s8 data stays s8, as on Arm. On x86 ONNX Runtime makes it u8 where it can, and computes layers and
            sums in float where only some of their values could be changed.
        written: a file for the model as it is after all optimizations.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not optimizes:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if keeps_int8:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    if written is not None:
        options.optimized_model_filepath = str(written)
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class _Layer:
    """A session with input and output bound to memory that stays."""

    def __init__(self, session: Any, workload: Workload, data: Array) -> None:
        self._session = session
        self._data = np.ascontiguousarray(data)
        self._out = np.zeros(workload.output_shape, data.dtype)
        self._binding = session.io_binding()
        for bind, name, array in (
            (self._binding.bind_input, "data", self._data),
            (self._binding.bind_output, "out", self._out),
        ):
            bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def output(self) -> Array:
        return self._out
