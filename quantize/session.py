"""A model in ONNX Runtime, with all its tensors as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.quantize.errors import FloatModelError
from int8tune.quantize.float_model import one_line, shown

Array = npt.NDArray[Any]

_FATAL_ONLY = 4


def start_session(path: Path, proto: Any, outputs: Sequence[str] = ()) -> Any:
    """An `InferenceSession` on this CPU; `outputs` are tensors that it returns beside the model's own.

    Raises:
        FloatModelError: ONNX Runtime can't run the model.
    """
    import onnx
    import onnxruntime

    graph = onnx.ModelProto()
    graph.CopyFrom(proto)
    own = {value.name for value in graph.graph.output}
    graph.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if name not in own)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    # The other cores take statistics meanwhile.
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes are not public
        raise FloatModelError(f"{shown(path)}: ONNX Runtime can't run it: {one_line(error)}") from None


def run_session(path: Path, session: Any, names: Sequence[str], values: Mapping[str, Array]) -> list[Array]:
    """The tensors of these names.

    Raises:
        FloatModelError: the run fails.
    """
    if not names:
        return []
    try:
        return [np.asarray(each) for each in session.run(list(names), dict(values))]
    except FloatModelError:
        raise
    except Exception as error:  # its classes are not public
        raise FloatModelError(f"{shown(path)}: ONNX Runtime can't run it on the samples: {one_line(error)}") from None
