"""Islands by ONNX Runtime: what their results are compared with. They are not defined bit for bit.

A sum in float depends on its order, and each runtime has its own exponential function, so that no two agree in the last
bits. ONNX Runtime is what a file's numbers mean elsewhere in this package; here it computes node by node, unfused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Operator, Value
from int8tune.compiler.islands.island import Array, onnx_model
from int8tune.results.text import clipped


def run_island(operator: Operator, values: Mapping[str, Value], arrays: Sequence[Array]) -> list[Array]:
    """The outputs of an island.

    Args:
        arrays: one for each input, of its shape and type.

    Raises:
        ModelError: ONNX Runtime is not installed, or can't run the nodes.
    """
    try:
        import onnxruntime
    except ImportError:
        raise ModelError(
            f"the float operator `{clipped(operator.layers[0])}` is compared with ONNX Runtime: pip install onnxruntime"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = onnx_model(operator, values)
    names = [info.name for info in model.graph.input]
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        # Without axes, what operators make may be a scalar of numpy, which is no array.
        feeds = {name: np.asarray(array) for name, array in zip(names, arrays, strict=True)}
        made = [np.asarray(array) for array in session.run(None, feeds)]
    except Exception as error:  # of C++, which has several kinds of it
        reason = clipped((str(error).splitlines() or [type(error).__name__])[0])
        raise ModelError(f"ONNX Runtime can't compute `{clipped(operator.layers[0])}`: {reason}") from None
    return made
