"""ONNX's own tests of its operators, compiled: each gives what ONNX says, or is refused in one line."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.compile import compile_model
from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Schedules
from tests.support.run.probes import host_target

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

REFUSED = Path(__file__).parent.parent / "data" / "onnx_backend_refused.txt"


@cache
def cases() -> dict[str, Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name.removeprefix("test_"): case for case in load_model_tests(kind="node")}


def said_of(case: Any, folder: Path) -> str:
    """Why a case is refused; nothing if it is compiled and all of its outputs are right."""
    model = with_something_quantized(case.model)
    try:
        graph = read_onnx(model.SerializeToString(), "case")
        refuse_obstacles(graph)
        library, target = folder / f"{case.name}.so", host_target()
        compile_model(graph, target, Schedules(target), library)
    except ModelError as fault:
        return str(fault)
    compiled = CompiledModel(library)
    for inputs, outputs in case.data_sets:
        named = dict(zip([info.name for info in model.graph.input], inputs, strict=False))
        named["quantized input"] = np.zeros(1, np.float32)
        made = compiled.run([np.asarray(named[form["name"]]) for form in compiled.about.inputs])
        for form, ours, expected in zip(compiled.about.outputs, made, outputs, strict=False):
            expected = onnx.numpy_helper.to_array(expected) if isinstance(expected, onnx.TensorProto) else expected
            assert ours.dtype == np.asarray(expected).dtype, form["name"]
            np.testing.assert_allclose(ours, expected, case.rtol, max(case.atol, 1e-6), err_msg=form["name"])
    return ""


def with_something_quantized(source: Any) -> Any:
    """The model with one more output, as nothing that is all float is compiled."""
    model = onnx.ModelProto.FromString(source.SerializeToString())
    graph = model.graph
    graph.initializer.append(onnx.numpy_helper.from_array(np.ones((), np.float32), "quantized scale"))
    graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((), np.uint8), "quantized zero"))
    graph.input.append(onnx.helper.make_tensor_value_info("quantized input", 1, (1,)))
    taken = ["quantized input", "quantized scale", "quantized zero"]
    graph.node.append(onnx.helper.make_node("QuantizeLinear", taken, ["quantized output"]))
    graph.output.append(onnx.helper.make_tensor_value_info("quantized output", 2, (1,)))
    return model
