"""Layers of 16-bit data: how long they take, and how far ONNX Runtime's are from exact: `python -m tests.word_figures`.

Times are the least of medians on one thread, ours and LiteRT's in turn. Distances are of products of random stored
values, in steps of their 16-bit output.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.compiled_model import CompiledModel
from tests.support.kernels.medians import median_s
from tests.support.models import onnx_islands, onnx_words, tflite_models, tflite_words
from tests.support.models.onnx_models import values_of
from tests.support.models.onnx_words import U16, Layer
from tests.support.models.tflite_islands import compiled

Array = npt.NDArray[Any]
ROUNDS, RUNS = 12, 5
WINDOW = {"strideH": 1, "strideW": 1}
# Data, weights and output of each.
LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "Conv 3x3 64x56x56->64": (tflite_words.CONV, (1, 56, 56, 64), (64, 3, 3, 64), (1, 56, 56, 64)),
    "Conv 1x1 128x28x28->128": (tflite_words.CONV, (1, 28, 28, 128), (128, 1, 1, 128), (1, 28, 28, 128)),
    "Conv 3x3 depthwise 64x56x56": (tflite_words.DEPTHWISE, (1, 56, 56, 64), (1, 3, 3, 64), (1, 56, 56, 64)),
    "dense 197x768x768": (tflite_words.DENSE, (197, 768), (768, 768), (197, 768)),
    "dense 1x1024x1000": (tflite_words.DENSE, (1, 1024), (1000, 1024), (1, 1000)),
}
FEATURES = (16, 128, 1024, 4096)


def layer_file(name: str, bits: int) -> bytes:
    """A layer of 8-bit or 16-bit data."""
    (word, data, weight, made), w, rng = LAYERS[name], tflite_models.Writer(), np.random.default_rng(0)
    stored, scale = (f"s{bits}", 0.05 if bits == 8 else 0.0002)
    channels = weight[3] if word == tflite_words.DEPTHWISE else weight[0]
    taken = [
        w.input("x", stored, data, scale),
        w.constant("w", "s8", rng.integers(-127, 128, weight), 0.004),
        w.constant("b", "s32" if bits == 8 else "s64", rng.integers(-1000, 1000, channels), scale * 0.004),
    ]
    output = w.tensor("y", stored, made, 40 * scale)
    fields = {} if word == tflite_words.DENSE else WINDOW
    w.operator(word, taken, [output], tflite_words.OPTIONS[word], tflite_words.VERSIONS[word], **fields)
    return w.model(output)


def ours_s(model: CompiledModel, data: Array) -> float:
    """What all kernels of a run take."""
    return sum(float(np.median(call.times_s)) for call in model.profile([data], RUNS))


def speed(name: str, folder: Path) -> str:
    files, rng = {bits: layer_file(name, bits) for bits in (8, 16)}, np.random.default_rng(1)
    feeds = {bits: rng.integers(-100, 100, LAYERS[name][1]).astype(f"int{bits}") for bits in files}
    models = {bits: compiled(file, Path(tempfile.mkdtemp(dir=folder))) for bits, file in files.items()}
    theirs = tflite_models.litert.Interpreter(model_content=files[16], num_threads=1)
    theirs.allocate_tensors()
    theirs.set_tensor(theirs.get_input_details()[0]["index"], feeds[16])
    times: dict[str, list[float]] = {"8": [], "16": [], "LiteRT": []}
    for _ in range(ROUNDS):
        for bits, model in models.items():
            times[str(bits)].append(ours_s(model, feeds[bits]))
        times["LiteRT"].append(median_s(theirs.invoke, RUNS))
    eight, sixteen, other = (min(each) * 1e6 for each in times.values())
    return f"| {name} | {eight:,.1f} | {sixteen:,.1f} | {other:,.1f} | {other / sixteen:.1f} |"


def distance(features: int, folder: Path) -> str:
    form = replace(onnx_words.FORMS["product"], data=(200, features), weight=(features, 64))
    layer = Layer(form, U16, U16)
    file, feed = layer.file(), np.random.default_rng(2).integers(27_000, 35_000, form.data).astype(np.uint16)
    sums = (feed.astype(np.int64) - onnx_words.POINTS[U16]) @ layer.weights
    factor = np.float64(onnx_words.DATA_SCALE) * layer.scales / np.float64(onnx_words.MADE_SCALE)
    exact = np.clip(np.rint(sums * factor) + onnx_words.POINTS[U16], 0, 65535)
    made = [onnx_islands.compiled(file, Path(tempfile.mkdtemp(dir=folder))).run([feed])[0]]
    made += [values_of(file, ["y"], feed, optimized)["y"] for optimized in (False, True)]
    apart = [np.abs(each.astype(np.float64) - exact) for each in made]
    return f"| {features:,} | " + " | ".join(f"{(each > 0).mean():.2%}, {each.max():.0f}" for each in apart) + " |"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print("| layer | 8-bit data, us | 16-bit data, us | LiteRT, 16-bit data, us | times ours |\n|-|-|-|-|-|")
        for name in LAYERS:
            print(speed(name, Path(folder)), flush=True)
        print("\n| features | ours | ONNX Runtime without optimizations | with them |\n|-|-|-|-|")
        for features in FEATURES:
            print(distance(features, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
