"""Bytes of values whose least and most are known only when a model runs, as DynamicQuantizeLinear makes them."""

from __future__ import annotations

from dataclasses import dataclass

from int8tune.compiler.onnx_reader.float_writer import FloatWriter

MOST = 255


@dataclass(frozen=True, slots=True)
class RunTimeBytes:
    """Names of a scale, of the zero point and the stored values, these as numbers of f32."""

    scale: str
    point: str
    stored: str


def bytes_at_run_time(writer: FloatWriter, data: str, opset: int, scale: str = "") -> RunTimeBytes:
    """Bytes from the least to the most of all values and zero; as ONNX Runtime, a scale of 1 where all are zero.

    Args:
        scale: the name that the scale gets.
    """
    most = writer.positive(writer.apply("ReduceMax", data, keepdims=0))
    least = writer.negative(writer.apply("ReduceMin", data, keepdims=0))
    extent = writer.apply("Sub", most, least)
    is_none = writer.apply("Equal", extent, 0.0)
    scale = writer.apply("Where", is_none, 1.0, writer.apply("Div", extent, float(MOST)), output=scale)
    below = writer.apply("Neg", writer.apply("Div", least, scale))
    point = writer.clipped(writer.apply("Round", below), 0.0, float(MOST), opset)
    rounded = writer.apply("Add", writer.apply("Round", writer.apply("Div", data, scale)), point)
    return RunTimeBytes(scale, point, writer.clipped(rounded, 0.0, float(MOST), opset))
