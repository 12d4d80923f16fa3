"""From training to a tuned library: handwritten digits, by three ways to calibrate.

    python examples/digits.py [FOLDER]

Trains a small network on handwritten digits, quantizes it, compiles that, and prints which share of
the test images each form gets right, and how many of their outputs differ between ONNX Runtime and here.
Then tunes the last one for at most 40 seconds, and compiles it with what was found. `FOLDER` (`digits-model`, if left
out) has the models, the records and the tuned library in the end. All of it takes less than two minutes.

Needs `pip install 'int8tune[peers]'`.

The images are beside this file, a line of 64 values between 0 and 16 and a class for each: E. Alpaydin and C. Kaynak,
"Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998, doi:10.24432/C50P49, CC BY 4.0.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import onnx
    import onnxruntime
except ImportError as missing:
    sys.exit(f"error: {missing}\nhint: pip install 'int8tune[peers]'")

import int8tune as it
from int8tune.compiler.compile import compile_model
from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.model import read_model
from int8tune.compiler.schedule_choice import Schedules
from int8tune.tuner.models.schedules import device_target

Array = npt.NDArray[Any]
IMAGES = Path(__file__).parent / "digits.csv.gz"
TEST_IMAGES, CALIBRATION_IMAGES, CLASSES = 500, 200, 10
EPOCHS, BATCH, RATE, MOMENTUM = 12, 32, 0.02, 0.9
METHODS = ("max", "percentile", "mse")
TRIALS, TUNING_S, ROUNDS, RUNS = 16, 40.0, 15, 200


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How a network does on the test images.

    Attributes:
        unquantized, theirs, ours: share of images it gets right, in float32, with 8 bits by ONNX Runtime, and here.
        differing: outputs that are not the same with 8 bits by both, of `outputs`.
    """

    calibration: str
    unquantized: float
    theirs: float
    ours: float
    differing: int
    outputs: int


def measure(folder: Path) -> list[Accuracy]:
    """Train, quantize and compile in a folder; the accuracy by each calibration."""
    images, classes = digits()
    train, test = slice(None, -TEST_IMAGES), slice(-TEST_IMAGES, None)
    model = folder / "digits.onnx"
    onnx.save(as_onnx(trained(images[train], classes[train])), model)
    unquantized = run_onnxruntime(model, images[test])
    found = []
    for name in METHODS:
        path = folder / f"digits_{name}.onnx"
        quantize(model, path, name, images[:CALIBRATION_IMAGES])
        theirs, ours = run_onnxruntime(path, images[test]), run_compiled(path, images[test])
        right, int8, compiled = (_share_right(made, classes[test]) for made in (unquantized, theirs, ours))
        found.append(Accuracy(name, right, int8, compiled, int(np.count_nonzero(theirs != ours)), ours.size))
    return found


def _share_right(outputs: Array, classes: Array) -> float:
    return float(np.mean(outputs.argmax(axis=1) == classes))


def digits() -> tuple[Array, Array]:
    """Images [N, 1, 8, 8] of values between 0 and 1, and their classes, in an order of chance."""
    rows = np.loadtxt(IMAGES, dtype=np.int64, delimiter=",")
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return (rows[:, :-1].reshape(-1, 1, 8, 8) / 16).astype(np.float32), rows[:, -1]


# The network: two convolutions of 3 x 3, the second with a stride, each with a ReLU; then a dense layer.
# Here, images are [N, H, W, C] and a convolution's weights [3, 3, C, OC].

STRIDES = (1, 2)
SHAPES = {"conv1": (3, 3, 1, 16), "conv2": (3, 3, 16, 32), "fc": (4 * 4 * 32, CLASSES)}
Parameters = dict[str, tuple[Array, Array]]


def trained(images: Array, classes: Array) -> Parameters:
    """Weights and biases after some epochs of gradient descent with momentum."""
    rng = np.random.default_rng(1)
    parameters, speed = {}, {}
    for name, shape in SHAPES.items():
        weights = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[:-1]))
        parameters[name] = weights, np.zeros(shape[-1])
        speed[name] = np.zeros(shape), np.zeros(shape[-1])
    rows = images.transpose(0, 2, 3, 1).astype(np.float64)
    for _ in range(EPOCHS):
        for batch in np.array_split(rng.permutation(len(rows)), len(rows) // BATCH):
            gradients = _gradients(parameters, rows[batch], classes[batch])
            for name, pair in gradients.items():
                for values, moving, gradient in zip(parameters[name], speed[name], pair, strict=True):
                    moving *= MOMENTUM
                    moving -= RATE * gradient
                    values += moving
    return parameters


def _gradients(parameters: Parameters, images: Array, classes: Array) -> Parameters:
    """The gradients of the mean cross-entropy of a batch."""
    made = [images]
    for stride, name in zip(STRIDES, SHAPES, strict=False):
        weights, bias = parameters[name]
        made.append(np.maximum(_conv(made[-1], weights, stride) + bias, 0))
    flat, (weights, bias) = made[-1].reshape(len(images), -1), parameters["fc"]
    logits = flat @ weights + bias
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    error = (shares / shares.sum(axis=1, keepdims=True) - np.eye(CLASSES)[classes]) / len(images)
    gradients = {"fc": (flat.T @ error, error.sum(axis=0))}
    back = (error @ weights.T).reshape(made[-1].shape)
    for stride, name, data, output in zip(STRIDES[::-1], ("conv2", "conv1"), made[1::-1], made[:0:-1], strict=True):
        back = back * (output > 0)
        change, onward = _conv_gradients(data, parameters[name][0], stride, back)
        gradients[name], back = (change, back.sum(axis=(0, 1, 2))), onward
    return gradients


def _conv(images: Array, weights: Array, stride: int) -> Array:
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    made: Array = np.sum([padded[window] @ weights[tap] for tap, window in _taps(images, stride)], axis=0)
    return made


def _conv_gradients(images: Array, weights: Array, stride: int, back: Array) -> tuple[Array, Array]:
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    change, onward = np.zeros_like(weights), np.zeros_like(padded)
    for tap, window in _taps(images, stride):
        change[tap] = np.tensordot(padded[window], back, axes=((0, 1, 2), (0, 1, 2)))
        onward[window] += back @ weights[tap].T
    return change, onward[:, 1:-1, 1:-1]


def _taps(images: Array, stride: int) -> Iterator[tuple[tuple[int, int], tuple[slice, ...]]]:
    """Each tap of a 3 x 3 window, and what it meets of images with a border of one."""
    _, height, width, _ = images.shape
    for row in range(3):
        for column in range(3):
            down, across = slice(row, row + height, stride), slice(column, column + width, stride)
            yield (row, column), (slice(None), down, across)


def as_onnx(parameters: Parameters) -> Any:
    """The network as ONNX has it: images [N, C, H, W], weights [OC, C, 3, 3]."""
    make, constants = onnx.helper.make_node, []
    for name, (weights, bias) in parameters.items():
        moved = weights.transpose(3, 2, 0, 1) if weights.ndim == 4 else _of_file_order(weights)
        for suffix, values in (("weight", moved), ("bias", bias)):
            constants.append(onnx.numpy_helper.from_array(values.astype(np.float32), f"{name}.{suffix}"))
    nodes, data = [], "images"
    for name, stride in zip(SHAPES, STRIDES, strict=False):
        inputs = [data, f"{name}.weight", f"{name}.bias"]
        nodes.append(make("Conv", inputs, [name], name, strides=[stride] * 2, pads=[1] * 4))
        nodes.append(make("Relu", [name], [f"{name}.relu"], f"{name}.relu"))
        data = f"{name}.relu"
    nodes.append(make("Flatten", [data], ["flat"], "flat"))
    nodes.append(make("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc"))
    images = onnx.helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, ["batch", 1, 8, 8])
    logits = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", CLASSES])
    graph = onnx.helper.make_graph(nodes, "digits", [images], [logits], constants)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def _of_file_order(weights: Array) -> Array:
    """A dense layer's weights for values that come as [C, H, W], not [H, W, C]."""
    return weights.reshape(4, 4, 32, CLASSES).transpose(2, 0, 1, 3).reshape(weights.shape)


def quantize(model: Path, quantized: Path, calibration: str, images: Array) -> None:
    """Write the 8-bit form of a model: u8 activations, s8 weights with a scale for each channel."""
    it.quantize(model, images, quantized, calibration=calibration)


def run_onnxruntime(model: Path, images: Array) -> Array:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"images": images})[0])


def run_compiled(model: Path, images: Array) -> Array:
    """What int8tune makes of the images, one by one, with the schedules that need no tuning."""
    target, library = device_target(None, threads=1), model.with_suffix(".so")
    compile_model(read_model(model), target, Schedules(target), library)
    compiled = CompiledModel(library)
    return np.concatenate([compiled.run([image[None]])[0] for image in images])


def tuned(folder: Path, model: Path, time_limit_s: float = TUNING_S) -> Path:
    """A library of a model with schedules that are tuned on this machine; called again, it goes on."""
    it.tune(model, results=folder / "results", trials=TRIALS, time_limit_s=time_limit_s)
    return it.compile(model, folder / "digits.so", results=folder / "results").library


def medians_us(libraries: list[Path], image: Array) -> list[float]:
    """Microseconds of a run of each library, the median of rounds that are taken in turn."""
    models, times_us = [CompiledModel(library) for library in libraries], []
    for _ in range(ROUNDS):
        for model in models:
            started_s = time.perf_counter()
            for _ in range(RUNS):
                model.run([image])
            times_us.append((time.perf_counter() - started_s) / RUNS * 1e6)
    return [float(np.median(times_us[number :: len(models)])) for number in range(len(models))]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "digits-model")
    folder.mkdir(parents=True, exist_ok=True)
    rows = measure(folder)
    print("calibration  float32  ONNX Runtime  int8tune  outputs that differ")
    for row in rows:
        shares = f"{row.unquantized:7.1%}  {row.theirs:12.1%}  {row.ours:8.1%}"
        print(f"{row.calibration:11}  {shares}  {row.differing} of {row.outputs}")
    default = folder / f"digits_{METHODS[-1]}.so"
    library = tuned(folder, default.with_suffix(".onnx"))
    before_us, after_us = medians_us([default, library], digits()[0][:1])
    print(f"{library}: {after_us:.1f} us a run, called from Python; {before_us:.1f} us before it was tuned")


if __name__ == "__main__":
    main()
