"""How long operators of bytes between layers take beside ONNX Runtime and OpenVINO, on one thread.

`python -m tests.byte_speed`. Each is a model of its own, whose input and output are u8. Ours is the time of the
operator's kernel, as in a network, where values have their channels last; the others' is that of a run, less a run of a
model that has a single value. All take turns.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.island_speed import PEERS, ROUNDS, RUNS, Timed, print_table
from tests.support.models.compiled import compile_once
from tests.support.models.onnx_islands import IslandWriter
from tests.support.run.probes import host_target

BETWEEN = ("transpose", "Transpose")


class ByteWriter(IslandWriter):
    """A model of u8: `data` is its input as numbers."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self.nodes.clear()
        self.inputs[0] = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, shape)
        self.data = self.node("DequantizeLinear", ["x", *self.parameters], "d")

    def bytes_of(self, name: str, scale: float = 0.03) -> str:
        """A value as u8, of another scale than the input's or of the same."""
        steps = [self.constant("made.s", scale), self.constant("made.z", 120, np.uint8)]
        return self.node("QuantizeLinear", [name, *steps], "made")


Build = Callable[[ByteWriter], str]
KINDS: dict[str, tuple[tuple[int, ...], Build]] = {
    "MaxPool 3x3 192x28x28": (
        (1, 192, 28, 28),
        lambda w: w.bytes_of(w.apply("MaxPool", w.data, kernel_shape=[3, 3], pads=[1, 1, 1, 1])),
    ),
    "MaxPool 3x3 s2 64x112x112": (
        (1, 64, 112, 112),
        lambda w: w.bytes_of(w.apply("MaxPool", w.data, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
    ),
    "AveragePool 3x3 192x35x35": (
        (1, 192, 35, 35),
        lambda w: w.bytes_of(w.apply("AveragePool", w.data, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), 0.0271),
    ),
    "AveragePool 3x3 768x17x17": (
        (1, 768, 17, 17),
        lambda w: w.bytes_of(w.apply("AveragePool", w.data, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), 0.0271),
    ),
    "AveragePool 2x2 s2 128x56x56": (
        (1, 128, 56, 56),
        lambda w: w.bytes_of(w.apply("AveragePool", w.data, kernel_shape=[2, 2], strides=[2, 2]), 0.0271),
    ),
    "GlobalAveragePool 512x14x14": (
        (1, 512, 14, 14),
        lambda w: w.bytes_of(w.apply("GlobalAveragePool", w.data), 0.01),
    ),
    "Sigmoid 96x56x56": ((1, 96, 56, 56), lambda w: w.bytes_of(w.apply("Sigmoid", w.data), 0.004)),
    "Softmax 197x197": ((1, 1, 197, 197), lambda w: w.bytes_of(w.apply("Softmax", w.data, axis=-1), 0.004)),
}


def line(name: str, folder: Path) -> str:
    shape, build = KINDS[name]
    w, nothing = ByteWriter(shape), ByteWriter((1,))
    files = [w.file(build(w)), nothing.file(nothing.bytes_of(nothing.data))]
    feeds = [np.random.default_rng(0).integers(0, 256, each, np.uint8) for each in (shape, (1,))]
    onnx_files = [folder / f"{index}.onnx" for index in range(2)]
    for path, file in zip(onnx_files, files, strict=True):
        path.write_bytes(file)
    compile_once(read_onnx(files[0], "bytes"), host_target(), folder / "bytes.so")
    model = CompiledModel(folder / "bytes.so")
    peers = [Timed(peer, list(zip(onnx_files, feeds, strict=True))) for peer in PEERS]
    rounds = [[kernel_s(model, feeds[0]), *(each.run_s() for each in peers)] for _ in range(ROUNDS)]
    ours, *theirs = (statistics.median(times) for times in zip(*rounds, strict=True))
    moved = feeds[0].nbytes + math.prod(model.about.outputs[0]["shape"])
    shown = " | ".join(f"{each * 1e6:,.1f}" for each in (ours, *theirs))
    return f"| {name} | {shown} | {min(theirs) / ours:.2f} | {moved / ours / 1e9:.0f} |"


def kernel_s(model: CompiledModel, feed: Any) -> float:
    """What the kernels take but for those that bring the file's order of axes."""
    calls = [call for call in model.profile([feed], RUNS) if call.computes not in BETWEEN]
    return sum(statistics.median(call.times_s) for call in calls)


if __name__ == "__main__":
    peers = "ONNX Runtime, us | OpenVINO, us | the best of these, times ours"
    print_table(f"| operator | ours, us | {peers} | ours, GB/s |", KINDS, line)
