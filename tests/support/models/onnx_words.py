"""ONNX models of layers of 8-bit weights, and of 16-bit data in most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tests.support.models.onnx_models import Writer

Array = npt.NDArray[Any]
OPSET = 21
DATA_SCALE, MADE_SCALE = np.float32(0.000237), np.float32(0.00071)
U16, S16, U8, S8 = np.uint16, np.int16, np.uint8, np.int8
POINTS = {U16: 31234, S16: -345, U8: 117, S8: -3}


@dataclass(frozen=True, slots=True)
class Form:
    """A layer; `channel` is the axis of weights that output channels are on."""

    operator: str
    data: tuple[int, ...]
    weight: tuple[int, ...]
    channel: int
    attributes: tuple[tuple[str, Any], ...] = ()


IMAGE = (2, 6, 5, 8)
FORMS = {
    "conv": Form("Conv", IMAGE, (7, 6, 3, 3), 0, (("pads", [1, 0, 1, 2]), ("strides", [2, 1]))),
    "groups": Form("Conv", IMAGE, (8, 3, 3, 3), 0, (("group", 2), ("dilations", [1, 2]))),
    "depthwise": Form("Conv", IMAGE, (6, 1, 3, 3), 0, (("group", 6), ("pads", [1, 1, 1, 1]))),
    "row": Form("Conv", (2, 6, 11), (5, 6, 3), 0, (("pads", [1, 1]),)),
    "transposed": Form("ConvTranspose", IMAGE, (6, 5, 3, 3), 1, (("strides", [2, 2]), ("pads", [1, 1, 0, 0]))),
    "blocks": Form("ConvTranspose", IMAGE, (6, 5, 2, 2), 1, (("strides", [2, 2]),)),
    "product": Form("MatMul", (3, 4, 40), (40, 17), 1),
    "gemm": Form("Gemm", (9, 40), (17, 40), 0, (("transB", 1),)),
}


class Layer(Writer):
    """A layer that reads stored values `x`, and makes `y`."""

    def __init__(self, form: Form, data: Any, made: Any = None, bias: Any = None, weight: Any = S8) -> None:
        super().__init__(form.data)
        self.form = form
        kinds = {U16: onnx.TensorProto.UINT16, S16: onnx.TensorProto.INT16, U8: onnx.TensorProto.UINT8}
        self.inputs = [onnx.helper.make_tensor_value_info("x", kinds[data], form.data)]
        channels = form.weight[form.channel] * (dict(form.attributes).get("group", 1) if form.channel else 1)
        self.weights = self.rng.integers(np.iinfo(weight).min + 1, np.iinfo(weight).max + 1, form.weight)
        self.scales = self.rng.uniform(0.002, 0.006, channels).astype(np.float32)
        self.weight_point = 0 if weight is S8 else 131
        self.bias: Array = np.zeros(channels)
        x = [self.constant("x.s", DATA_SCALE), self.constant("x.z", POINTS[data], data)]
        w = [self.constant("w.s", self.scales), self.constant("w.z", np.full(channels, self.weight_point), weight)]
        self.node("DequantizeLinear", ["x", *x], "x.d")
        self.node("DequantizeLinear", [self.constant("w", self.weights, weight), *w], "w.d", axis=form.channel)
        taken = ["x.d", "w.d"]
        if bias is not None and form.operator != "MatMul":
            taken.append(self._bias(bias, channels))
        made_name = "y" if made is None else "c"
        self.node(form.operator, taken, made_name, "layer", **dict(form.attributes))
        if made is not None:
            y = [self.constant("y.s", MADE_SCALE), self.constant("y.z", POINTS[made], made)]
            self.node("QuantizeLinear", [self.activated("c"), *y], "y")

    def activated(self, name: str) -> str:
        return name

    def _bias(self, dtype: Any, channels: int) -> str:
        if dtype is np.float32:
            self.bias = self.rng.normal(0, 3, channels).astype(np.float32)
            return self.constant("b", self.bias)
        stored = self.rng.integers(-(1 << 24), 1 << 24, channels)
        scales = DATA_SCALE * self.scales
        self.bias = stored * scales.astype(np.float64)
        parameters = [self.constant("b.s", scales), self.constant("b.z", np.zeros(channels), np.int32)]
        return self.node("DequantizeLinear", [self.constant("b", stored, np.int32), *parameters], "b.d", axis=0)

    def file(self) -> bytes:
        data: bytes = self.model("y", opset=OPSET).SerializeToString()
        return data


def feeds(form: Form, data: Any) -> list[Array]:
    """Noise, values around the zero point, and both ends of the type."""
    rng, ends = np.random.default_rng(3), (np.iinfo(data).min, np.iinfo(data).max)
    near = np.clip(rng.normal(POINTS[data], 300, form.data), ends[0], ends[1])
    made = [rng.integers(ends[0], ends[1] + 1, form.data), near, rng.choice(ends, form.data)]
    return [each.astype(data) for each in (*made, np.full(form.data, ends[0]), np.full(form.data, ends[1]))]
