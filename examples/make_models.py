"""Networks as ONNX models, and their 8-bit form by ONNX Runtime: what whole models are measured with.

    python examples/make_models.py resnet50 -o models     # models/resnet50.onnx and models/resnet50_int8.onnx

Topologies are those of the layer tables in `compiler/networks` (ResNets as in torchvision, MobileNets and Inceptions
as in TF-slim), with batch normalization folded into the convolutions. Weights are random, of sizes that keep
activations in range: the time of a network depends on its shapes alone, its classes mean nothing.

Needs `pip install 'int8tune[peers]'`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process
except ImportError as missing:
    sys.exit(f"error: {missing}\nhint: pip install 'int8tune[peers]'")

from inceptions import inception_v1, inception_v2, inception_v3, inception_v4

Array = npt.NDArray[Any]
FLOAT, INPUT, OUTPUT = onnx.TensorProto.FLOAT, "input", "logits"
OPSET, FILE_VERSION = 17, 8
CALIBRATION_SAMPLES = 4
# A convolution behind which no activation stands keeps the variance; one in a residual branch adds a little.
LINEAR, RELU, RESIDUAL = 1.0, 2.0, 0.1


class Writer:
    """Writes a network node by node; values are called like the nodes that make them."""

    input = INPUT

    def __init__(self, size: int) -> None:
        self._rng = np.random.default_rng(0)
        self._input = onnx.helper.make_tensor_value_info(INPUT, FLOAT, [1, 3, size, size])
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._channels = {INPUT: 3}

    def conv(
        self,
        data: str,
        name: str,
        channels: int,
        kernel: tuple[int, int] = (1, 1),
        stride: int = 1,
        pads: Sequence[int] | None = None,
        groups: int = 1,
        variance: float = RELU,
    ) -> str:
        """A convolution with a bias; without `pads` (top, left, bottom, right) the window's middle is padded."""
        before = [extent // 2 for extent in kernel]
        weights = self._weights(name, (channels, self._channels[data] // groups, *kernel), variance)
        window = {"kernel_shape": kernel, "strides": [stride] * 2, "pads": pads or before * 2}
        return self._node("Conv", [data, *weights], name, channels, group=groups, **window)

    def relu(self, data: str) -> str:
        return self._node("Relu", [data], f"{data}.relu", self._channels[data])

    def relu6(self, data: str) -> str:
        limits = [self._constant("zero", np.float32(0)), self._constant("six", np.float32(6))]
        return self._node("Clip", [data, *limits], f"{data}.relu6", self._channels[data])

    def add(self, one: str, other: str, name: str) -> str:
        return self._node("Add", [one, other], name, self._channels[one])

    def concat(self, parts: Sequence[str], name: str) -> str:
        return self._node("Concat", parts, name, sum(self._channels[part] for part in parts), axis=1)

    def pool(
        self,
        data: str,
        name: str,
        operator: str,
        stride: int,
        pads: Sequence[int],
        extent: int = 3,
        **attributes: Any,
    ) -> str:
        """A window of `extent` x `extent`; `pads` are top, left, bottom, right."""
        window = {"kernel_shape": [extent] * 2, "strides": [stride] * 2, "pads": list(pads)}
        return self._node(operator, [data], name, self._channels[data], **window, **attributes)

    def classifier(self, data: str, classes: int) -> None:
        """The mean of each channel, and a dense layer."""
        channels = self._channels[data]
        mean = self._node("GlobalAveragePool", [data], "mean", channels)
        flat = self._node("Flatten", [mean], "flat", channels)
        self._node("Gemm", [flat, *self._weights("fc", (classes, channels), LINEAR)], OUTPUT, classes, transB=1)

    def model(self, name: str) -> Any:
        output = onnx.helper.make_tensor_value_info(OUTPUT, FLOAT, [1, self._channels[OUTPUT]])
        graph = onnx.helper.make_graph(self._nodes, name, [self._input], [output], self._constants)
        imports = [onnx.helper.make_opsetid("", OPSET)]
        return onnx.helper.make_model(graph, opset_imports=imports, ir_version=FILE_VERSION)

    def _weights(self, name: str, shape: tuple[int, ...], variance: float) -> list[str]:
        """Weights whose sums have `variance` times the mean square of the data (He et al. 2015, arXiv:1502.01852)."""
        weights = self._rng.standard_normal(shape, np.float32) * np.sqrt(variance / np.prod(shape[1:]))
        bias = self._rng.standard_normal(shape[0], np.float32) * 0.1
        return [self._constant(f"{name}.weight", weights), self._constant(f"{name}.bias", bias)]

    def _constant(self, name: str, values: Any) -> str:
        if all(constant.name != name for constant in self._constants):
            self._constants.append(onnx.numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def _node(self, operator: str, inputs: Sequence[str], name: str, channels: int, **attributes: Any) -> str:
        self._nodes.append(onnx.helper.make_node(operator, inputs, [name], name, **attributes))
        self._channels[name] = channels
        return name


# ResNet: https://github.com/pytorch/vision/blob/main/torchvision/models/resnet.py


def resnet18(net: Writer) -> str:
    return _resnet(net, _basic_block, expansion=1, depths=(2, 2, 2, 2))


def resnet50(net: Writer) -> str:
    return _resnet(net, _bottleneck, expansion=4, depths=(3, 4, 6, 3))


def _resnet(net: Writer, block: Callable[..., str], expansion: int, depths: Sequence[int]) -> str:
    data = net.relu(net.conv(INPUT, "conv1", 64, (7, 7), stride=2))
    data = net.pool(data, "maxpool", "MaxPool", stride=2, pads=[1] * 4)
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for index in range(depth):
            name, stride = f"layer{stage + 1}.{index}", 2 if stage and not index else 1
            shortcut = data
            if index == 0 and (stage or expansion > 1):
                shortcut = net.conv(data, f"{name}.downsample", width * expansion, stride=stride, variance=LINEAR)
            data = net.relu(net.add(block(net, data, name, width, stride), shortcut, f"{name}.add"))
    return data


def _basic_block(net: Writer, data: str, name: str, width: int, stride: int) -> str:
    data = net.relu(net.conv(data, f"{name}.conv1", width, (3, 3), stride))
    return net.conv(data, f"{name}.conv2", width, (3, 3), variance=RESIDUAL)


def _bottleneck(net: Writer, data: str, name: str, width: int, stride: int) -> str:
    data = net.relu(net.conv(data, f"{name}.conv1", width))
    data = net.relu(net.conv(data, f"{name}.conv2", width, (3, 3), stride))
    return net.conv(data, f"{name}.conv3", 4 * width, variance=RESIDUAL)


# MobileNet: https://github.com/tensorflow/models/tree/master/research/slim/nets, mobilenet_v1.py and mobilenet/

# Channels and stride of each pair of a depthwise and a pointwise convolution.
V1_PAIRS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
# Expansion, channels, blocks, and the first one's stride.
V2_BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v1(net: Writer) -> str:
    data, width = net.relu6(_same_conv(net, INPUT, "Conv2d_0", 32, stride=2)), 32
    for index, (channels, stride) in enumerate(V1_PAIRS, 1):
        data = net.relu6(_same_conv(net, data, f"Conv2d_{index}_depthwise", width, stride, groups=width))
        data, width = net.relu6(net.conv(data, f"Conv2d_{index}_pointwise", channels)), channels
    return data


def mobilenet_v2(net: Writer) -> str:
    data, width = net.relu6(_same_conv(net, INPUT, "Conv", 32, stride=2)), 32
    strides = [
        (expansion, channels, stride if index == 0 else 1)
        for expansion, channels, count, stride in V2_BLOCKS
        for index in range(count)
    ]
    for index, (expansion, channels, stride) in enumerate(strides):
        name = f"expanded_conv_{index}" if index else "expanded_conv"
        data, width = _inverted_residual(net, data, name, (width, width * expansion, channels), stride), channels
    return net.relu6(net.conv(data, "Conv_1", 1280))


def _inverted_residual(net: Writer, data: str, name: str, widths: tuple[int, int, int], stride: int) -> str:
    before, wide, after = widths
    inner = net.relu6(net.conv(data, f"{name}/expand", wide)) if wide != before else data
    inner = net.relu6(_same_conv(net, inner, f"{name}/depthwise", wide, stride, groups=wide))
    residual = stride == 1 and before == after
    made = net.conv(inner, f"{name}/project", after, variance=RESIDUAL if residual else LINEAR)
    return net.add(made, data, f"{name}/add") if residual else made


def _same_conv(net: Writer, data: str, name: str, channels: int, stride: int, groups: int = 1) -> str:
    """3 x 3 with TensorFlow's padding: of two, which a stride of two needs on even images only once, behind."""
    return net.conv(data, name, channels, (3, 3), stride, [0, 0, 1, 1] if stride == 2 else None, groups)


@dataclass(frozen=True, slots=True)
class Network:
    """A network: what writes it up to its classifier, the extent of its images, and how many classes it has."""

    write: Callable[[Writer], str]
    size: int
    classes: int

    def model(self, name: str) -> Any:
        net = Writer(self.size)
        net.classifier(self.write(net), self.classes)
        return net.model(name)


NETWORKS = {
    "resnet18": Network(resnet18, 224, 1000),
    "resnet50": Network(resnet50, 224, 1000),
    "inception_v1": Network(inception_v1, 224, 1001),
    "inception_v2": Network(inception_v2, 224, 1001),
    "inception_v3": Network(inception_v3, 299, 1001),
    "inception_v4": Network(inception_v4, 299, 1001),
    "mobilenet_v1": Network(mobilenet_v1, 224, 1001),
    "mobilenet_v2": Network(mobilenet_v2, 224, 1001),
}


class RandomImages(quantization.CalibrationDataReader):  # type: ignore[misc]
    """A few images of noise, which show ONNX Runtime how large activations become."""

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(1)
        images = rng.standard_normal((CALIBRATION_SAMPLES, 1, 3, size, size), np.float32)
        self._feeds = iter([{INPUT: image} for image in images])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._feeds, None)


def quantize(model: Path, quantized: Path, size: int) -> None:
    """Write the 8-bit form of a model: u8 activations, s8 weights with a scale for each channel, as QDQ."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / model.name
        quant_pre_process(model, prepared, skip_symbolic_shape=True)  # all shapes are numbers
        quantization.quantize_static(
            prepared,
            quantized,
            RandomImages(size),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            calibrate_method=quantization.CalibrationMethod.MinMax,
        )


def write_network(name: str, folder: Path) -> tuple[Path, Path]:
    """Write a network and its 8-bit form into a folder; both paths."""
    model, quantized = folder / f"{name}.onnx", folder / f"{name}_int8.onnx"
    onnx.save(NETWORKS[name].model(name), model)
    quantize(model, quantized, NETWORKS[name].size)
    return model, quantized


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write networks as ONNX models, and their 8-bit forms.")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{', '.join(NETWORKS)}; all if left out")
    parser.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR", help="folder to write to")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.networks if name not in NETWORKS]:
        parser.error(f"unknown network `{unknown[0]}`, known: {', '.join(NETWORKS)}")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        for name in options.networks or NETWORKS:
            for path in write_network(name, options.output):
                print(f"{path} ({path.stat().st_size / 2**20:.1f} MiB)", flush=True)
    except OSError as error:
        parser.exit(1, f"error: {error.strerror}: {error.filename}\n")


if __name__ == "__main__":
    main()
