"""ONNX models of float operators behind a quantized input, and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.islands.supported import MICROSOFT
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.schedules.target import Target
from tests.support.models.compiled import compile_once
from tests.support.models.onnx_models import FILE_VERSION, FLOAT, Writer, values_of
from tests.support.run.probes import host_target

Array = npt.NDArray[Any]
SHAPE = (2, 6, 5, 8)
INT64 = 7
# Before, Gelu is ONNX Runtime's own.
GELU_IN_ONNX = 20
# A sum of n products differs by n roundings at most, of which ours and ONNX Runtime's are in another order; functions
# are right to four units in the last place, 4.8e-7, in both.
RELATIVE, OF_LARGEST = 4e-6, 2e-6

Build = Callable[["IslandWriter"], str]


class IslandWriter(Writer):
    """A model whose input is quantized and dequantized: `d` is what its float nodes read."""

    keeps_shape = True

    def __init__(self, shape: tuple[int, ...] = SHAPE) -> None:
        super().__init__(shape)
        self.made: dict[str, str] = {}
        self.parameters = [self.constant("s", 0.03), self.constant("z", 120, np.uint8)]
        self.node("QuantizeLinear", ["x", *self.parameters], "q")
        self.data = self.node("DequantizeLinear", ["q", *self.parameters], "d")

    def apply(self, operator: str, *inputs: Any, outputs: int = 1, opset: int = 18, **attributes: Any) -> str:
        """A node on values by name and constants; the name of its first output."""
        name = f"{operator}.{len(self.nodes)}"
        taken = [each if isinstance(each, str) else self._constant(each, name) for each in inputs]
        self.node(operator, taken, name, **attributes)
        self.nodes[-1].output.extend(f"{name}.{index}" for index in range(1, outputs))
        if operator in MICROSOFT and opset < GELU_IN_ONNX:
            self.nodes[-1].domain = "com.microsoft"
        return name

    def _constant(self, values: Any, name: str) -> str:
        array = np.asarray(values)
        dtype = np.float32 if array.dtype.kind == "f" else array.dtype
        return self.constant(f"{name}.constant {len(self.constants)}", array, dtype)

    def quantized(self, name: str) -> str:
        """A value, quantized and dequantized."""
        self.node("QuantizeLinear", [name, *self.parameters], f"{name}.q")
        return self.node("DequantizeLinear", [f"{name}.q", *self.parameters], f"{name}.d")

    def integer_input(self, name: str, shape: tuple[int, ...]) -> str:
        import onnx

        self.inputs.append(onnx.helper.make_tensor_value_info(name, INT64, shape))
        return name

    def file(self, *outputs: str, opset: int = 18) -> bytes:
        import onnx

        # Onnx knows no shapes of ONNX Runtime's own operators; they are their inputs'.
        foreign = {node.output[0] for node in self.nodes if node.domain} if self.keeps_shape else ()
        known = {name: onnx.helper.make_tensor_value_info(name, FLOAT, SHAPE) for name in foreign}
        infos = [known.get(name, onnx.ValueInfoProto(name=name)) for name in outputs]
        graph = onnx.helper.make_graph(self.nodes, "g", self.inputs, infos, self.constants)
        imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=FILE_VERSION)
        data: bytes = model.SerializeToString()
        return data


class GivenWriter(IslandWriter):
    """Writes nodes on further inputs, and ONNX Runtime's own; `feeds` has what all inputs are given."""

    keeps_shape = False

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self.feeds: dict[str, Any] = {"x": feed_of(shape)}

    def own(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        name = self.apply(operator, *inputs, **attributes)
        self.nodes[-1].domain = "com.microsoft"
        return name

    def given(self, name: str, values: Any) -> str:
        import onnx

        element = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        self.inputs.append(onnx.helper.make_tensor_value_info(name, element, values.shape))
        self.feeds[name] = values
        return name


def feed_of(shape: Sequence[int] = SHAPE, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 1.5, shape).astype(np.float32)


def compiled(file: bytes, folder: Path, target: Target | None = None) -> CompiledModel:
    """A model of a file, compiled by this process."""
    target = target or host_target()
    library = folder / "model.so"
    compile_once(read_onnx(file, "islands"), target, library)
    return CompiledModel(library)


def outputs_of(
    file: bytes, folder: Path, feeds: dict[str, Array], optimized: bool = True
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Our outputs and ONNX Runtime's, by name."""
    model = compiled(file, folder)
    made = model.run([feeds[form["name"]] for form in model.about.inputs])
    names = [form["name"] for form in model.about.outputs]
    return dict(zip(names, made, strict=True)), values_of(file, names, feeds, optimized)


def assert_close(ours: dict[str, Array], theirs: dict[str, Array]) -> None:
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape, name
        assert ours[name].dtype == expected.dtype, name
        largest = float(np.abs(np.where(np.isfinite(expected), expected, 0)).max()) if expected.size else 0.0
        np.testing.assert_allclose(ours[name], expected, RELATIVE, OF_LARGEST * largest, err_msg=name)


def assert_equal(ours: dict[str, Array], theirs: dict[str, Array]) -> None:
    for name, expected in theirs.items():
        np.testing.assert_array_equal(ours[name], expected, name)
