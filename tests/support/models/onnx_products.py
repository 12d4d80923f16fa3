"""ONNX models of a product of two quantized matrices."""

from __future__ import annotations

import numpy as np

from tests.support.models.onnx_models import Writer

Shape = tuple[int, ...]
DTYPES = {"u8": np.uint8, "s8": np.int8}
# Of the first and the second input, then the zero points of these and of the output.
Types = tuple[str, str, tuple[int, int, int]]


class ProductWriter(Writer):
    """Writes models of quantized values."""

    def quantized(self, name: str, element: str, zero_point: int, scale: float) -> str:
        """A value, quantized and dequantized."""
        parameters = [
            self.constant(f"{name}.scale", scale),
            self.constant(f"{name}.zero", zero_point, DTYPES[element]),
        ]
        self.node("QuantizeLinear", [name, *parameters], f"{name}.q")
        return self.node("DequantizeLinear", [f"{name}.q", *parameters], f"{name}.d")


def product(shapes: tuple[Shape, Shape], types: Types, is_quantized: bool = True) -> bytes:
    """A MatMul of two quantized inputs, `x` and `w`; its output is quantized, or a number."""
    import onnx

    (first, second), (one, other, zero_points) = shapes, types
    writer = ProductWriter(first)
    writer.inputs.append(onnx.helper.make_tensor_value_info("w", 1, second))
    inputs = [
        writer.quantized("x", one, zero_points[0], 0.02),
        writer.quantized("w", other, zero_points[1], 0.03),
    ]
    made = writer.node("MatMul", inputs, "y", "product")
    model = writer.model(writer.quantized("y", one, zero_points[2], 0.05) if is_quantized else made)
    data: bytes = model.SerializeToString()
    return data
