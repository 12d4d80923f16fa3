"""TFLite models: the layers of real ones, bit for bit as LiteRT's reference kernels compute them, and bad files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind
from int8tune.compiler.layer_operands import layer_operands
from int8tune.compiler.model import read_model
from int8tune.compiler.network_file import load_network
from int8tune.compiler.quantized_layers import network_of, quantized_layers
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bench.peers.tflite_model import layer_model
from tests.support.models.shared_models import FOLDER, V1, V1_SMALL, V2, V2_INT8, model_path
from tests.support.run.thinned import one_in

pytest.importorskip("tflite", reason="needs the extra `models`")
litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs the extra `oracle`")

Array = npt.NDArray[Any]
MUTANTS = 300


def tensors_of(path: Path, data: Array) -> dict[str, Array]:
    """Every tensor of a run of LiteRT's reference kernels, by its index."""
    interpreter = litert.Interpreter(
        model_path=str(path),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], data)
    interpreter.invoke()
    return {detail["name"]: interpreter.get_tensor(detail["index"]) for detail in interpreter.get_tensor_details()}


@pytest.mark.parametrize("name", one_in(4, [V1_SMALL, V1, V2, V2_INT8]))
def test_every_layer_is_litert_s_bit_for_bit(name: str) -> None:
    path = model_path(name)
    graph = read_model(path)
    (size,) = {graph.values[value].shape for value in graph.inputs}
    tensors = tensors_of(path, np.random.default_rng(0).integers(0, 256, size).astype(np.uint8))
    layers = quantized_layers(graph)
    for layer in layers:
        data, residual = layer.operator.inputs[0], layer.residual
        operands = layer_operands(graph, layer, tensors[data], None if residual is None else tensors[residual])
        output = (layer.addition or layer.operator).outputs[0]
        ours = reference(layer.workload, operands)
        np.testing.assert_array_equal(ours.reshape(tensors[output].shape), tensors[output], str(layer.names))
    assert len(layers) >= 28


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "table"), [(V2, "mobilenet_v2"), (V2_INT8, "mobilenet_v2")])
def test_layers_are_those_of_the_published_network(name: str, table: str) -> None:
    """But for the types and rules: the table has those of an ONNX model."""
    found, published = network_of(read_model(model_path(name))), load_network(table)
    assert found.macs == published.macs
    assert found.input_shape == published.input_shape
    shapes = [
        [row.workload.output_shape for row in network.layers for _ in range(row.count) if row.workload.op == "dwconv2d"]
        for network in (found, published)
    ]
    assert sorted(shapes[0]) == sorted(shapes[1])


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "data", "weight"), [(V2, "u8", "wz"), (V2_INT8, "s8", ".c")])
def test_residuals_are_fused_and_all_names_kept(name: str, data: str, weight: str) -> None:
    graph = read_model(model_path(name))
    layers = quantized_layers(graph)
    fused = [layer for layer in layers if layer.addition]
    assert len(fused) == 10
    assert all(f"add{data}" in layer.workload.key and weight in layer.workload.key for layer in fused)
    assert {operator.kind for operator in graph.operators} >= {Kind.RESHAPE, Kind.SOFTMAX}
    assert all(any("add" in part for part in layer.names) for layer in fused)
    assert all(layer.names and all(layer.names) for layer in layers)
    assert sum(layer.operator.rule == "fused" for layer in layers) > 40


@pytest.mark.parametrize(
    "key",
    [
        "conv2d-s8s8-1x10x8x6-k3x3x10-s2x1-p0.1.1.1-fixed.c-s8",
        "conv2d-s8s8-2x9x8x6-k3x3x10-s1-p2-d2-g2-fixed.c-clamp-s8",
        "conv2d-u8u8-1x8x8x5-k1x1x7-s1-p0-wz-fixed.t-u8",
        "dwconv2d-s8s8-1x9x8x6-k3x3x2-s1-p0-fixed.c-s8",
        "dwconv2d-u8u8-1x9x8x6-k5x5x1-s1-p2-wz-fixed.t-u8",
        "dense-s8s8-3x40-o10-fixed.t-s8",
    ],
)
def test_a_layer_comes_back_as_it_was_written(key: str) -> None:
    workload = parse_workload(key)
    _, operands = adversarial_operands(workload, 0)[0]
    scales = np.full(workload.out_channels if "fixed.c" in key else 1, 0.5, np.float32)
    activation = 3 if workload.numerics.clamp else 0
    graph = read_tflite(layer_model(workload, operands, scales, 0.25, 0.125, activation), "layer")
    (layer,) = quantized_layers(graph)
    assert layer.workload.key == key
    back = layer_operands(graph, layer, operands.data)
    np.testing.assert_array_equal(back.weight, operands.weight)
    np.testing.assert_array_equal(back.bias, operands.bias)
    assert (back.multiplier == 1 << 30).all()
    assert (back.shift == 1).all()
    zero_points = operands.data_zero_point, operands.weight_zero_point, operands.output_zero_point
    assert (back.data_zero_point, back.weight_zero_point, back.output_zero_point) == zero_points
    if activation:
        assert back.clamp_low == back.output_zero_point
        assert back.clamp_high == min(127, back.output_zero_point + 48)


# Files that are refused.


def unpacked(data: bytes) -> tuple[Any, Callable[[], bytes]]:
    """A model as objects that can be changed, and what makes a file of them again."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)

    def packed() -> bytes:
        builder = flatbuffers.Builder(4096)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    return model, packed


def small_model() -> bytes:
    workload = parse_workload("conv2d-s8s8-1x8x8x4-k3x3x6-s1-p1-fixed.c-s8")
    _, operands = adversarial_operands(workload, 0)[0]
    return layer_model(workload, operands, np.full(6, 0.5, np.float32), 0.25, 0.125)


def changed(change: Callable[[Any], None]) -> bytes:
    model, packed = unpacked(small_model())
    change(model)
    return packed()


FLOAT, INT16, INT32, UINT32 = 0, 7, 2, 15
WHILE = 119


def set_types(*types: int | None) -> Callable[[Any], None]:
    """Sets the types of data, weights, bias and output."""

    def change(model: Any) -> None:
        for tensor, code in zip(model.subgraphs[0].tensors, types, strict=True):
            if code is not None:
                tensor.type = code
            if code == FLOAT:
                tensor.quantization = None

    return change


def with_scale(tensor: int, scales: list[float], axis: int = 0) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        quantization = model.subgraphs[0].tensors[tensor].quantization
        quantization.scale, quantization.zeroPoint = scales, [0] * len(scales)
        quantization.quantizedDimension = axis

    return change


def with_field(path: str, value: object) -> Callable[[Any], None]:
    """Sets a field of the operator, its options or its first tensor, such as `builtinOptions.strideH`."""

    def change(model: Any) -> None:
        place: Any = model.subgraphs[0]
        *parents, last = path.split(".")
        for parent in parents:
            place = place[int(parent)] if parent.isdigit() else getattr(place, parent)
        setattr(place, last, value)

    return change


def with_second_subgraph(model: Any) -> None:
    """A loop, and the operator that runs it."""
    first = model.subgraphs[0]
    model.subgraphs.append(type(first)())
    first.name, model.subgraphs[1].name = "main", "loop"
    model.operatorCodes.append(type(model.operatorCodes[0])())
    model.operatorCodes[1].builtinCode = model.operatorCodes[1].deprecatedBuiltinCode = WHILE
    first.operators.append(type(first.operators[0])())
    first.operators[1].opcodeIndex = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_types(None, UINT32, None, None), "tensor `tensor1`: type UINT32 is not supported, known: f32, u8"),
        (
            set_types(INT16, None, None, None),
            "(CONV_2D): its output must have 16 bits as its data has: s8",
        ),
        (with_field("tensors.0.quantization", None), "`tensor0` is s8 without a scale"),
        (with_field("tensors.1.quantization", None), "`tensor1` is s8 without a scale"),
        (with_field("tensors.3.quantization", None), "its output must have one scale"),
        (with_scale(0, [0.0]), "tensor `tensor0`: scales must be positive and finite: 0"),
        (with_scale(0, [float("nan")]), "tensor `tensor0`: scales must be positive and finite: nan"),
        (with_scale(1, [1.0, 2.0]), "tensor `tensor1`: 2 scales for axis 0, which has 6 channels: (6, 3, 3, 4)"),
        (with_scale(1, [1.0] * 6, axis=9), "tensor `tensor1`: 6 scales for axis 9, which it does not have: (6,"),
        (with_field("tensors.0.quantization.zeroPoint", [300]), "zero points must be within -128 and 127: 300"),
        (
            with_field("tensors.0.shape", [1, 8, 0, 4]),
            "shape must be positive, of at most 2^31 values: (1, 8, 0, 4)",
        ),
        (with_field("tensors.0.shape", [1, 1 << 14, (1 << 15) + 1, 4]), "its shape must be positive, of at most 2^31"),
        (with_field("tensors.0.shape", [1, 1 << 14, 1 << 15, 4]), "have shape (1, 16384, 32768, 6): (1, 8, 8, 6)"),
        (with_field("tensors.0.shape", [1] * 9), "tensor `tensor0`: it must have at most 8 axes: 9"),
        (with_field("outputs", [1]), "its output `tensor1` is a constant"),
        (with_field("tensors.0.shape", [8, 8, 4]), "its data must have 4 axes: (8, 8, 4)"),
        (with_field("tensors.3.shape", [1, 2, 2, 6]), "its output must have shape (1, 8, 8, 6): (1, 2, 2, 6)"),
        (with_field("tensors.0.shape", [1, 8, 8, 5]), "5 channels can't be shared by filters of 4"),
        (with_field("tensors.1.buffer", 0), "its weights must be constant"),
        (with_field("tensors.2.buffer", 0), "its bias must be a constant of 32 bits"),
        (
            with_field("operators.0.builtinOptions.strideH", 0),
            "stride (0, 1), dilation (1, 1) or padding 0",
        ),
        (with_field("operators.0.builtinOptions.fusedActivationFunction", 5), "fused activation 5 is not supported"),
        (with_field("operators.0.inputs", [0, 99, 2]), "an operator names tensor 99 of 4"),
        (with_field("operators.0.inputs", [0]), "it must have data, weights and perhaps a bias: 1 inputs"),
        (with_field("operators.0.outputs", []), "operator 0 (CONV_2D) makes nothing"),
        (with_field("tensors.0.quantization.zeroPoint", [1, 2]), "is needed: 2 zero points for 1 scales"),
        (
            with_second_subgraph,
            "operator 1 (WHILE) makes nothing",
        ),
        (lambda model: model.subgraphs.clear(), "a model must have a subgraph, not none"),
    ],
)
def test_what_is_not_supported_is_named_in_one_line(change: Callable[[Any], None], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        quantized_layers(read_tflite(changed(change), "tiny"))
    text = str(caught.value)
    assert text.startswith("tiny: ")
    assert message in text
    assert text.isprintable()
    assert len(text) < 300


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no TFLite model"),
        (b"PK\3\4" + bytes(100), "no TFLite model"),
        (small_model()[:40], "the file is damaged"),
        (small_model()[:-200], "the file is damaged"),
    ],
)
def test_files_that_are_no_whole_model(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read_tflite(data, "tiny")


def test_a_float_model_has_no_layers() -> None:
    def to_float(model: Any) -> None:
        set_types(FLOAT, FLOAT, FLOAT, FLOAT)(model)
        for tensor in model.subgraphs[0].tensors[1:3]:
            model.buffers[tensor.buffer].data = np.zeros(4 * int(np.prod(tensor.shape)), np.uint8)

    with pytest.raises(ModelError, match=r"on quantized values, the first that should is `tensor3` \(CONV_2D\)"):
        read_tflite(changed(to_float), "tiny")


def test_paths_that_are_no_model(tmp_path: Path) -> None:
    (tmp_path / "folder.tflite").mkdir()
    for name, message in (("folder.tflite", "this is a folder"), ("nowhere.tflite", "this is no such file")):
        with pytest.raises(ModelError, match=message):
            load_network(str(tmp_path / name))


MUTATE = """
import sys
import numpy as np
from int8tune.compiler.errors import ModelError
from int8tune.compiler.quantized_layers import network_of
from int8tune.compiler.tflite_reader.model import read_tflite

whole, count = open(sys.argv[1], "rb").read(), int(sys.argv[2])
rng, refused = np.random.default_rng(0), 0
for _ in range(count):
    mutant = np.frombuffer(whole, np.uint8).copy()
    # Most of the file is weights, which may be anything: half of the flips are in the tables behind and before them.
    places = rng.integers(0, len(mutant), 4)
    edge = min(4000, len(mutant))
    places[:2] = rng.choice([rng.integers(0, min(400, edge)), len(mutant) - 1 - rng.integers(0, edge)], 2)
    mutant[places] = rng.integers(0, 256, 4)
    cut = rng.integers(8, len(mutant)) if rng.random() < 0.2 else len(mutant)
    try:
        network_of(read_tflite(mutant[:cut].tobytes(), "mutant"))
    except ModelError as error:
        assert str(error).isprintable() and len(str(error)) < 400, error
        refused += 1
print(refused)
"""


@pytest.mark.thorough
def test_mutated_files_end_in_a_network_or_one_line(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(small_model() if not FOLDER.exists() else model_path(V1_SMALL).read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", MUTATE, str(path), str(MUTANTS)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert 0.2 * MUTANTS < int(done.stdout) < MUTANTS
