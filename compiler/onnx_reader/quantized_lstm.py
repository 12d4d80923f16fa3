"""DynamicQuantizeLSTM of ONNX Runtime: an LSTM whose data and states are quantized when the model runs.

What the data of all steps is multiplied by is an int8 layer, which `dynamic.unfused_lstm` has written before this one.
What a state is multiplied by is a product of integers in each step of an island, exact in f32 below 2^24.
"""

from __future__ import annotations

import math

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_writer import FloatWriter
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError
from int8tune.compiler.onnx_reader.recurrent import Direction, write_directions
from int8tune.compiler.onnx_reader.run_time import bytes_at_run_time

# Where scales and zero points of the weights of states are.
SCALES, POINTS = 8, 9
_FLOAT = 1


def write_quantized_lstm(writer: FloatWriter, file: OnnxFile, node: Node) -> None:
    if node.input(4):
        raise UnsupportedNodeError("lengths of sequences decide what its data is quantized to")
    weights = file.forms[node.input(1)][1]
    if len(weights) != 3:
        raise UnsupportedNodeError(f"its weights must have three axes: {list(weights)}")
    directions, _, rows = weights
    for index in (SCALES, POINTS):
        if node.input(index) and math.prod(file.forms[node.input(index)][1]) not in (directions, directions * rows):
            raise UnsupportedNodeError("its weights must have one scale, or one for each row of gates")
    write_directions(writer, file, node, _QuantizedDirection)


class _QuantizedDirection(Direction):
    """Its data are products already, those of all directions one behind the other."""

    @staticmethod
    def weight_shapes(count: int, rows: int, hidden: int, wide: int) -> tuple[tuple[int, ...], ...]:
        return ((count, hidden, rows if wide == count * rows else 0),) * 2

    def _of_data(self, data: str) -> str:
        rows = self._form.gates * self._form.hidden
        places = (np.array([each]) for each in (self._index * rows, (self._index + 1) * rows, 2))
        return self._writer.apply("Slice", data, *places)

    def _weight_of_state(self) -> str:
        apply = self._writer.apply
        self._scale = apply("Reshape", self._own(SCALES), np.array([-1]))
        numbers = apply("Cast", self._own(2), to=_FLOAT)
        if not self._node.input(POINTS):
            return numbers
        return apply("Sub", numbers, apply("Reshape", apply("Cast", self._own(POINTS), to=_FLOAT), np.array([-1])))

    def _of_state(self, state: str) -> str:
        apply, found = self._writer.apply, bytes_at_run_time(self._writer, state, self._opset)
        sums = apply("MatMul", apply("Sub", found.stored, found.point), self._recurrence)
        return apply("Mul", sums, apply("Mul", found.scale, self._scale))
