"""Small float models, such as somebody would quantize, and samples for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.models.onnx_models import Writer, onnx

Array = npt.NDArray[Any]


def small() -> Any:
    """Two convolutions with an addition, a pool and a dense layer, of pictures [n, 3, 8, 8]; logits [n, 5]."""
    writer = Writer(["n", 3, 8, 8])
    first = writer.node("Relu", [writer.conv("x", "stem", (8, 3, 3, 3), pads=[1] * 4)], "first", "relu1")
    body = writer.node("Add", [writer.conv(first, "body", (8, 8, 3, 3), pads=[1] * 4), first], "sum", "add")
    second = writer.node("Relu", [body], "second", "relu2")
    pooled = writer.node("Flatten", [writer.node("GlobalAveragePool", [second], "pooled", "pool")], "flat", "flatten")
    weights = [writer.weight("dense.w", 5, 8), writer.weight("dense.b", 5)]
    return writer.model(writer.node("Gemm", [pooled, *weights], "logits", "dense", transB=1))


def saved(model: Any, folder: Path, name: str = "m.onnx") -> Path:
    """A model as a file."""
    onnx.save(model, folder / name)
    return folder / name


def pictures(count: int, seed: int = 0) -> Array:
    """Samples [count, 3, 8, 8] for `small`."""
    return np.random.default_rng(seed).standard_normal((count, 3, 8, 8)).astype(np.float32)


def run(model: Path | Any, values: Array) -> Array:
    """The first output of a model, a file or a `ModelProto`, in ONNX Runtime."""
    import onnxruntime

    content = model if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: values})[0])


def sqnr_db(right: Array, seen: Array) -> float:
    """Signal to noise: squares of the right values over those of the differences, in decibels."""
    return float(10 * np.log10((right**2).sum() / max(((right - seen) ** 2).sum(), 1e-30)))
