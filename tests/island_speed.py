"""How long kinds of islands take beside ONNX Runtime, on one thread: `python -m tests.island_speed`.

Each is a model of its own: a quantized input, which the float nodes read dequantized. What is timed here are the calls
of the float kernels; of ONNX Runtime, the whole model less the same one without the float nodes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.models.onnx_islands import IslandWriter, compiled, feed_of

RUNS = 200
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


Build = Callable[[IslandWriter], str]
KINDS: dict[str, tuple[tuple[int, ...], Build]] = {
    "LayerNormalization 197x192": (
        (1, 197, 192),
        lambda w: w.apply("LayerNormalization", w.data, normal(192), normal(192)),
    ),
    "Softmax 12x197x197": ((12, 197, 197), lambda w: w.apply("Softmax", w.data, axis=-1)),
    "Erf 197x768": ((1, 197, 768), lambda w: w.apply("Erf", w.data)),
    "GELU, five nodes, 197x768": (
        (1, 197, 768),
        lambda w: w.apply(
            "Mul",
            w.apply("Mul", w.data, w.apply("Add", w.apply("Erf", w.apply("Div", w.data, 2.0**0.5)), 1.0)),
            0.5,
        ),
    ),
    "SiLU 64x56x56": ((1, 64, 56, 56), lambda w: w.apply("Mul", w.data, w.apply("Sigmoid", w.data))),
    "HardSwish 64x56x56": ((1, 64, 56, 56), lambda w: w.apply("HardSwish", w.data)),
    "Tanh 64x56x56": ((1, 64, 56, 56), lambda w: w.apply("Tanh", w.data)),
    "ReduceMean of the last axis, 197x768": ((1, 197, 768), lambda w: w.apply("ReduceMean", w.data, np.array([-1]))),
    "GlobalAveragePool 256x28x28": ((1, 256, 28, 28), lambda w: w.apply("GlobalAveragePool", w.data)),
    "Add, Mul, Relu with channels 64x56x56": (
        (1, 64, 56, 56),
        lambda w: w.apply("Relu", w.apply("Mul", w.apply("Add", w.data, normal(64, 1, 1)), normal(64, 1, 1))),
    ),
    "MatMul 12x197x64x197": ((12, 197, 64), lambda w: w.apply("MatMul", w.data, normal(12, 64, 197))),
    "MatMul 197x768x768": ((1, 197, 768), lambda w: w.apply("MatMul", w.data, normal(768, 768))),
    "Conv 3x3 64x56x56->64": ((1, 64, 56, 56), lambda w: w.apply("Conv", w.data, normal(64, 64, 3, 3), pads=[1] * 4)),
    "Conv 1x1 256x14x14->512": ((1, 256, 14, 14), lambda w: w.apply("Conv", w.data, normal(512, 256, 1, 1))),
    "Conv 3x3 s2 3x224x224->32": (
        (1, 3, 224, 224),
        lambda w: w.apply("Conv", w.data, normal(32, 3, 3, 3), pads=[1] * 4, strides=[2, 2]),
    ),
    "Conv 3x3 depthwise 128x28x28": (
        (1, 128, 28, 28),
        lambda w: w.apply("Conv", w.data, normal(128, 1, 3, 3), pads=[1] * 4, group=128),
    ),
    "ConvTranspose 2x2 s2 64x28x28->32": (
        (1, 64, 28, 28),
        lambda w: w.apply("ConvTranspose", w.data, normal(64, 32, 2, 2), strides=[2, 2]),
    ),
    "MaxPool 3x3 s2 64x56x56, in float": (
        (1, 64, 56, 56),
        lambda w: w.apply("MaxPool", w.apply("Exp", w.data), kernel_shape=[3, 3], strides=[2, 2]),
    ),
}


def ours_s(file: bytes, feed: Any, folder: Path) -> float:
    """Of the float calls, together."""
    model = compiled(file, folder)
    calls = [call for call in model.about.calls if call["kernel"]]
    times = model.profile([feed], RUNS)
    return sum(float(np.median(time_.times_s)) for call, time_ in zip(calls, times, strict=True) if call["float"])


def theirs_s(file: bytes, feed: Any) -> float:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", feed)
    for form in session.get_outputs():
        binding.bind_output(form.name, "cpu")
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        session.run_with_iobinding(binding)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def line(name: str, folder: Path) -> str:
    shape, build = KINDS[name]
    with_nodes, without = IslandWriter(shape), IslandWriter(shape)
    file, rest, feed = with_nodes.file(build(with_nodes)), without.file(without.data), feed_of(shape)
    theirs, ours = theirs_s(file, feed) - theirs_s(rest, feed), ours_s(file, feed, folder)
    return f"| {name} | {ours * 1e6:,.1f} | {theirs * 1e6:,.1f} | {theirs / ours:.2f} |"


def main() -> None:
    print("| island | ours, us | ONNX Runtime, us | times ours |\n|-|-|-|-|")
    for name in KINDS:
        if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
            with tempfile.TemporaryDirectory() as folder:
                print(line(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
