"""How long kinds of islands take beside ONNX Runtime and OpenVINO, on one thread: `python -m tests.island_speed`.

Each is a model of its own, whose input are numbers. What is timed is a run of it, less a run of a model that has a
single value. All take turns. OpenVINO is told to compute in binary32, as the file says.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.tuner.models.runtimes import Int8Tune, OnnxRuntime, OpenVino, Runtime
from tests.support.kernels.medians import median_s
from tests.support.models.compiled import compile_once
from tests.support.models.onnx_islands import IslandWriter, feed_of
from tests.support.run.probes import host_target

ROUNDS, RUNS = 10, 20
PEERS: tuple[Runtime, ...] = (OnnxRuntime(), OpenVino(precision="f32"))
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def root_mean_square(w: IslandWriter) -> str:
    """A normalization as exporters write it where they know no operator for it."""
    mean = w.apply("ReduceMean", w.apply("Pow", w.data, 2.0), np.array([-1]))
    root = w.apply("Sqrt", w.apply("Add", mean, 1e-6))
    return w.apply("Mul", w.apply("Div", w.data, root), normal(768))


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
    "AveragePool 3x3 s2 64x56x56": (
        (1, 64, 56, 56),
        lambda w: w.apply("AveragePool", w.data, kernel_shape=[3, 3], strides=[2, 2]),
    ),
    "Resize, linear, to 64x56x56": (
        (1, 64, 28, 28),
        lambda w: w.apply("Resize", w.data, "", np.array([1, 1, 2, 2], np.float32), mode="linear"),
    ),
    "InstanceNormalization 64x56x56": (
        (1, 64, 56, 56),
        lambda w: w.apply("InstanceNormalization", w.data, normal(64), normal(64)),
    ),
    "LogSoftmax 197x1000": ((197, 1000), lambda w: w.apply("LogSoftmax", w.data, axis=-1)),
    "Softmax of channels, 21x65x65": ((1, 21, 65, 65), lambda w: w.apply("Softmax", w.data, axis=1)),
    "ArgMax of channels, 21x65x65": ((1, 21, 65, 65), lambda w: w.apply("ArgMax", w.data, axis=1)),
    "ReduceMax of the last axis, 197x768": ((1, 197, 768), lambda w: w.apply("ReduceMax", w.data, np.array([-1]))),
    "DynamicQuantizeLinear 197x3072": ((197, 3072), lambda w: w.apply("DynamicQuantizeLinear", w.data, outputs=3)),
    "Transpose 197x12x64": ((197, 12, 64), lambda w: w.apply("Transpose", w.data, perm=[1, 0, 2])),
    "Softplus and Tanh (Mish) 64x56x56": (
        (1, 64, 56, 56),
        lambda w: w.apply("Mul", w.data, w.apply("Tanh", w.apply("Softplus", w.data))),
    ),
    "Log, Sqrt, Pow 197x768": (
        (1, 197, 768),
        lambda w: w.apply("Log", w.apply("Add", w.apply("Sqrt", w.apply("Pow", w.data, 2.0)), 1.0)),
    ),
    "Cube 64x56x56": ((1, 64, 56, 56), lambda w: w.apply("Pow", w.data, 3.0)),
    "PRelu of channels, 64x56x56": ((1, 64, 56, 56), lambda w: w.apply("PRelu", w.data, normal(64, 1, 1))),
    "Einsum bij,bkj->bik, 12x197x64": (
        (12, 197, 64),
        lambda w: w.apply("Einsum", w.data, normal(12, 197, 64), equation="bij,bkj->bik"),
    ),
    "MaxPool 3x3 64x56x56, padded": (
        (1, 64, 56, 56),
        lambda w: w.apply("MaxPool", w.data, kernel_shape=[3, 3], pads=[1] * 4),
    ),
    "AveragePool 3x3 64x56x56, padded": (
        (1, 64, 56, 56),
        lambda w: w.apply("AveragePool", w.data, kernel_shape=[3, 3], pads=[1] * 4),
    ),
    "Conv 5x5 32x28x28->64": ((1, 32, 28, 28), lambda w: w.apply("Conv", w.data, normal(64, 32, 5, 5), pads=[2] * 4)),
    "Conv 7x7 s2 3x224x224->64": (
        (1, 3, 224, 224),
        lambda w: w.apply("Conv", w.data, normal(64, 3, 7, 7), pads=[3] * 4, strides=[2, 2]),
    ),
    "Conv 3x3, 4 groups, 64x28x28->64": (
        (1, 64, 28, 28),
        lambda w: w.apply("Conv", w.data, normal(64, 16, 3, 3), pads=[1] * 4, group=4),
    ),
    "Conv 7x7 depthwise 96x56x56": (
        (1, 96, 56, 56),
        lambda w: w.apply("Conv", w.data, normal(96, 1, 7, 7), pads=[3] * 4, group=96),
    ),
    "ConvTranspose 3x3 s2 64x28x28->32": (
        (1, 64, 28, 28),
        lambda w: w.apply("ConvTranspose", w.data, normal(64, 32, 3, 3), strides=[2, 2]),
    ),
    "ReduceL2 of the last axis, 197x768": ((1, 197, 768), lambda w: w.apply("ReduceL2", w.data, np.array([-1]))),
    "RMS normalization by its parts, 197x768": ((1, 197, 768), root_mean_square),
    "LRN of 5 channels, 64x28x28": ((1, 64, 28, 28), lambda w: w.apply("LRN", w.data, size=5)),
    "Sin 197x768": ((1, 197, 768), lambda w: w.apply("Sin", w.data)),
    "Cast to int32 and back, 64x56x56": (
        (1, 64, 56, 56),
        lambda w: w.apply("Cast", w.apply("Cast", w.data, to=6), to=1),
    ),
    "LSTM, 49 steps of 40, 64 wide": (
        (49, 1, 40),
        lambda w: w.apply("LSTM", w.data, normal(1, 256, 40), normal(1, 256, 64), hidden_size=64),
    ),
}


class Timed:
    """A model in a runtime, and one of a single value, whose time is that of a call."""

    def __init__(self, runtime: Runtime, files: Sequence[tuple[Path, Any]]) -> None:
        """Load both files, each with what it is given."""
        self._models = [runtime.load(path, 1) for path, _ in files]
        for model, (_, feed) in zip(self._models, files, strict=True):
            model.bind([feed])

    def run_s(self) -> float:
        whole, call = (median_s(model.run, RUNS) for model in self._models)
        return whole - call


def line(name: str, folder: Path) -> str:
    shape, build = KINDS[name]
    w, nothing = IslandWriter(shape), IslandWriter((1,))
    w.data = "x"
    feeds = [feed_of(shape), feed_of((1,))]
    onnx_files, libraries = [], []
    for index, file in enumerate((w.file(build(w)), nothing.file(nothing.data))):
        onnx_files.append(folder / f"{index}.onnx")
        libraries.append(folder / f"{index}.so")
        onnx_files[-1].write_bytes(file)
        compile_once(read_onnx(file, "island"), host_target(), libraries[-1])
    runtimes = [Timed(Int8Tune(), list(zip(libraries, feeds, strict=True)))]
    runtimes += [Timed(peer, list(zip(onnx_files, feeds, strict=True))) for peer in PEERS]
    rounds = [[each.run_s() for each in runtimes] for _ in range(ROUNDS)]
    ours, *theirs = (statistics.median(times) for times in zip(*rounds, strict=True))
    shown = " | ".join(f"{each * 1e6:,.1f}" for each in (ours, *theirs))
    return f"| {name} | {shown} | {min(theirs) / ours:.2f} |"


def print_table(header: str, names: Iterable[str], line: Callable[[str, Path], str]) -> None:
    """Markdown, a line for each name that has one of the words that the program is given, or for all."""
    print(f"{header}\n|{'-|' * (header.count('|') - 1)}")
    for name in names:
        if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
            with tempfile.TemporaryDirectory() as folder:
                print(line(name, Path(folder)), flush=True)


if __name__ == "__main__":
    print_table("| island | ours, us | ONNX Runtime, us | OpenVINO, us | the best of these, times ours |", KINDS, line)
