"""LiteRT: a model of one operator, which its XNNPACK delegate computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from int8tune.schedules.operands import Operands
from int8tune.schedules.template import Rejection
from int8tune.schedules.workload import Dense, Workload
from int8tune.tuner.bench.peers.base import Array, LoadedLayer
from int8tune.tuner.bench.peers.forms import same_padding, usual_form
from int8tune.tuner.bench.peers.tflite_model import layer_model


class LiteRt:
    """Takes s8 data; of paddings, SAME and none."""

    name = "litert"
    requires = ("ai-edge-litert", "flatbuffers")

    def form(self, workload: Workload) -> Workload | Rejection:
        form = usual_form(workload, "s8")
        if isinstance(form, Rejection | Dense) or not any(form.window.padding):
            return form
        same = replace(form, window=same_padding(form))
        if same.output_shape != form.output_shape:
            return Rejection(f"padding must be none or TFLite's SAME: {form.window.key}")
        return same

    def version(self) -> str:
        from importlib.metadata import version

        return version("ai-edge-litert")

    def load(self, workload: Workload, operands: Operands, threads: int) -> LoadedLayer:
        from ai_edge_litert.interpreter import Interpreter

        runner = Interpreter(model_content=layer_model(workload, operands, operands.scale), num_threads=threads)
        runner.allocate_tensors()
        runner.set_tensor(0, operands.data)
        return _Layer(runner)


class _Layer:
    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def run(self) -> None:
        self._runner.invoke()

    def output(self) -> Array:
        output: Array = self._runner.get_tensor(self._runner.get_output_details()[0]["index"])
        return output
