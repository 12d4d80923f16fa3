"""Sums that ONNX Runtime computes in float, and this library in integers: of layers, means and reductions."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from int8tune.compiler.errors import CompilerDiedError
from int8tune.compiler.report import Report
from int8tune.tuner.bench.peers.onnxruntime import session_of
from int8tune.tuner.models.compiling import answer_apart

LIMIT_S = 300.0
# By the operators of an optimized model.
LAYERS: Mapping[str, str] = {
    "Conv": "Conv",
    "FusedConv": "Conv",
    "ConvTranspose": "ConvTranspose",
    "Gemm": "MatMul or Gemm",
    "FusedGemm": "MatMul or Gemm",
    "MatMul": "MatMul or Gemm",
    "FusedMatMul": "MatMul or Gemm",
    "MatMulNBits": "MatMul or Gemm",
    "AveragePool": "AveragePool",
    "GlobalAveragePool": "GlobalAveragePool",
    "ReduceMean": "ReduceMean",
    "ReduceSum": "ReduceSum",
}


def more_in_float(model: Path, ours: Mapping[str, int], keeps_int8: bool) -> Mapping[str, int]:
    """How many layers more than this library ONNX Runtime computes in float, by kind; none where it can't say.

    Its optimized model is looked through: it has float operators where there is no integer kernel, or where the types
    or biases of the file's layers are not those of its kernels.

    Args:
        ours: how many of each of the file's operators this library computes in float.
        keeps_int8: as `session_of` has it.
    """

    def look(_: Report) -> dict[str, object]:
        import onnx

        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "optimized.onnx"
            session_of(str(model), 1, keeps_int8=keeps_int8, written=written)
            nodes = onnx.load(written, load_external_data=False).graph.node
        return dict(Counter(node.op_type for node in nodes))

    try:
        theirs = answer_apart(look, LIMIT_S)
    except CompilerDiedError:
        return {}
    return dict(_layers(theirs) - _layers(ours))


def _layers(counts: Mapping[str, object]) -> Counter[str]:
    found: Counter[str] = Counter()
    for operator, count in counts.items():
        if operator in LAYERS and isinstance(count, int):
            found[LAYERS[operator]] += count
    return found
