"""ONNX files that are damaged, or have what is not supported: one line each, and never a crash."""

from __future__ import annotations

import builtins
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind
from int8tune.compiler.obstacles import obstacles, obstructed_network_of, refuse_obstacles
from int8tune.compiler.onnx_reader import quantization
from int8tune.compiler.onnx_reader.file import NEWEST_OPSET
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import IslandWriter
from tests.support.models.onnx_models import MODELS, Writer, quantized, quantized_layer

pytestmark = pytest.mark.promise(16)

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

Change = Callable[[Any], None]
MUTANTS, SLOW_MUTANTS = 300, 6000


def message_of(data: bytes) -> str:
    def read() -> None:
        graph = read_onnx(data, "tiny")
        refuse_obstacles(graph)
        obstructed_network_of(graph)

    with pytest.raises(ModelError) as caught:
        read()
    text = str(caught.value).replace("\n", "; ")
    assert text.startswith("tiny: ")
    assert text.isprintable()
    assert len(text) < 400
    return text


def node(model: Any, output: str) -> Any:
    return next(each for each in model.graph.node if each.output[0] == output)


def constant(name: str, values: Any, dtype: Any = np.float32) -> Change:
    """Replaces an initializer."""

    def change(model: Any) -> None:
        tensor = next(each for each in model.graph.initializer if each.name == name)
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(values, dtype), name))

    return change


def without_constant(name: str) -> Change:
    def change(model: Any) -> None:
        model.graph.initializer.remove(next(each for each in model.graph.initializer if each.name == name))

    return change


def tensor(name: str, **fields: Any) -> Change:
    """Sets fields of an initializer."""

    def change(model: Any) -> None:
        (found,) = (each for each in model.graph.initializer if each.name == name)
        for field, value in fields.items():
            if isinstance(value, list):
                del getattr(found, field)[:]
                getattr(found, field).extend(value)
            elif value is None:
                found.ClearField(field)
            else:
                setattr(found, field, value)

    return change


def reads(output: str, index: int, name: str) -> Change:
    def change(model: Any) -> None:
        node(model, output).input[index] = name

    return change


def attribute(output: str, **values: Any) -> Change:
    def change(model: Any) -> None:
        node(model, output).attribute.extend(onnx.helper.make_attribute(*item) for item in values.items())

    return change


def more(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Change:
    def change(model: Any) -> None:
        model.graph.node.append(onnx.helper.make_node(operator, inputs, outputs, name="more", **attributes))

    return change


def external(model: Any) -> None:
    tensor("w", data_location=1, raw_data=None)(model)
    entry = next(each for each in model.graph.initializer if each.name == "w").external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"


def branch(model: Any) -> None:
    body = onnx.helper.make_graph([], "g", [], [onnx.ValueInfoProto(name="y")])
    more("If", ["x"], ["z"], then_branch=body, else_branch=body)(model)


def dimension(axis: int, value: int | str) -> Change:
    def change(model: Any) -> None:
        extent = model.graph.input[0].type.tensor_type.shape.dim[axis]
        extent.Clear()
        if isinstance(value, str):
            extent.dim_param = value
        else:
            extent.dim_value = value

    return change


def opset(version: int) -> Change:
    def change(model: Any) -> None:
        model.opset_import[0].version = version

    return change


def float4(model: Any) -> None:
    tensor("w", data_type=23, raw_data=bytes(108))(model)


def twice(model: Any) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def zero_points_of_channels(model: Any) -> None:
    constant("w.scale", [0.01] * 6)(model)
    constant("w.zero", range(6), np.int8)(model)
    attribute("wd", axis=0)(model)


def two_inputs(model: Any) -> None:
    model.graph.input.append(model.graph.input[0])


def large_input(model: Any) -> None:
    """Refused before onnx infers shapes, which takes memory for each of so many values in some operators."""
    for axis, extent in enumerate((1, 4, 1, (1 << 31) - 1)):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = extent


def renamed(model: Any) -> None:
    node(model, "c").name = "red \x1b[31m"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_constant("x.scale"), "node `xq node` (QuantizeLinear): it reads `x.scale`, which nothing makes"),
        (reads("xq", 1, ""), "node `xq node` (QuantizeLinear): it has no scale"),
        (large_input, "`x` of shape [1, 4, 1, 2147483647] has over 2147483648 values"),
        (reads("c", 0, "nowhere"), "node `conv` (Conv): it reads `nowhere`, which nothing makes"),
        (reads("xd", 0, "yq"), "it needs its own output: `xd node` -> `yq node` -> `conv` -> `xd node`"),
        (reads("xq", 0, "xq"), "node `xq node` (QuantizeLinear): it needs its own output: `xq node` -> `xq node`"),
        (constant("x.scale", 0), "node `xq node` (QuantizeLinear): scales must be positive and finite: 0.0"),
        (constant("w.scale", -1), "node `wd node` (DequantizeLinear): scales must be positive and finite: -1.0"),
        (constant("y.scale", np.inf), "node `yq node` (QuantizeLinear): scales must be positive and finite: inf"),
        (constant("y.scale", np.nan), "node `yq node` (QuantizeLinear): scales must be positive and finite: nan"),
        (constant("x.scale", 1, np.float64), "its scale must be one f32, or one per channel: f64 []"),
        (constant("x.scale", 1, np.int32), "its scale must be one f32, or one per channel: s32 []"),
        (
            constant("w.scale", [1.0] * 5),
            "`wd node` (DequantizeLinear): 5 scales for axis 1, which has 4 channels: [6, 4, 3, 3]",
        ),
        (zero_points_of_channels, "1 Conv: its weights have 6 zero points, a kernel takes one; `conv`"),
        (constant("w.scale", [0.01] * 4), "1 Conv: scales of weights must be those of output channels; `conv`"),
        (
            constant("x.scale", [0.02] * 4),
            "1 QuantizeLinear: its scales are computed, or belong to channels or blocks; `xq node`",
        ),
        (
            constant("w.zero", 300, np.int32),
            "its zero point must be of type s8 like the values, one for each scale: s32",
        ),
        (tensor("x.zero", int32_data=[300], raw_data=None), "`x.zero` has values outside of its type, u8"),
        (constant("w.zero", [0, 0], np.int8), "its zero point must be of type s8 like the values, one for each scale"),
        (constant("b.scale", 0.0003), "node `conv` (Conv): the scale of bias `b` must be that of the data times"),
        (
            constant("b.scale", 0.0002 * 1.0001),
            "the scale of bias `b` must be that of the data times that of the weights",
        ),
        (constant("b", [1, 2, 3], np.int32), "node `conv` (Conv): a bias must have 6 values: [3]"),
        (reads("c", 2, "x"), "1 Conv: its bias must be constant: `x`; `conv`"),
        (constant("w", np.zeros((6, 5, 3, 3)), np.int8), "weights [6, 5, 3, 3] in 1 groups don't fit 4 channels"),
        (attribute("c", group=3), "node `conv` (Conv): weights [6, 4, 3, 3] in 3 groups don't fit 4 channels"),
        (attribute("c", kernel_shape=[2, 2]), "its kernel_shape must be that of its weights: [6, 4, 3, 3]"),
        (attribute("c", strides=[0, 1]), "node `conv` (Conv): the shape of its output `c` can't be inferred"),
        (attribute("c", dilations=[9, 9]), "node `conv` (Conv): the shape of its output `c` can't be inferred"),
        (attribute("c", pads=[-1, 0, 0, 0]), "node `conv` (Conv): the shape of its output `c` can't be inferred"),
        (attribute("c", auto_pad="OTHER"), "node `conv` (Conv): auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LO"),
        (
            attribute("xq", block_size=2),
            "1 QuantizeLinear: blocks of 2 must have scales and zero points of shape [1, 2, 5, 6]: []",
        ),
        (float4, "`w` has elements of type FLOAT4E2M1, supported are FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64"),
        (external, "`w` is in another file (external data), of which nothing is known here"),
        (tensor("w", dims=[6, 4, 3, 4]), "`w` can't be read: "),
        (tensor("w", dims=[1 << 40, 1 << 40]), "`w` can't be read: "),
        (branch, "`z`: the condition of an If must be one truth value: f32 [1, 4, 5, 6]"),
        (more("Relu", ["x"], ["c"]), "node `more` (Relu): it makes `c`, which something else makes, too"),
        (more("Relu", ["x"], ["x"]), "node `more` (Relu): it makes `x`, which something else makes, too"),
        (more("Constant", [], ["w"], value_int=1), "node `more` (Constant): it makes `w`, which something else makes"),
        (more("Relu", ["x"], [""]), "node `more` (Relu): it must make a value"),
        (more("NoSuchOperator", ["x"], ["z"]), "node `more` (NoSuchOperator): the shape of its output `z` can't be"),
        (
            more("Cast", ["x"], ["z"], to=16),
            "the output `z` of node `more` has elements of type BFLOAT16, supported are",
        ),
        (
            more("DequantizeLinear", ["xq", "y.scale", "x.zero"], ["z"]),
            "`more` (DequantizeLinear): `xq` has two scales",
        ),
        (twice, "two initializers have one name: `x.scale`"),
        (two_inputs, "two inputs of the model have one name"),
        (lambda model: model.graph.output.add(name="none"), "the model's output `none` is made by no node"),
        (lambda model: model.graph.output.add(name="w"), "the model's output `w` is a constant"),
        (dimension(2, "height"), "`x` has an unknown extent, height of axis 2: give its shape, --shape x=1x4xNx6 with"),
        (dimension(2, -1), "`x` has an unknown extent, ? of axis 2: give its shape, --shape x=1x4xNx6 with"),
        (dimension(2, 0), "the model's input `x` has an extent that is not positive: 0"),
        (dimension(2, -5), "the model's input `x` has an extent that is not positive: -5"),
        (dimension(0, 1 << 30), "`x` of shape [1073741824, 4, 5, 6] has over 2147483648 values"),
        (constant("x.scale", np.ones([1] * 9)), "`x.scale` must have at most 8 axes: 9"),
        (dimension(2, 1 << 62), f"`x` of shape [1, 4, {1 << 62}, 6] has over 2147483648 values"),
        (lambda model: model.graph.input[0].type.tensor_type.ClearField("shape"), "the model's input `x` has no shape"),
        (lambda model: model.graph.input[0].ClearField("type"), "the model's input `x` has no shape"),
        (opset(9), f"the operator set must be 10 to {NEWEST_OPSET}: 9"),
        (opset(9999), f"the operator set must be 10 to {NEWEST_OPSET}: 9999"),
        (lambda model: model.ClearField("opset_import"), "a model must name one version of ONNX's operators: []"),
        (lambda model: setattr(model, "ir_version", 999), "the file's IR version must be 3 to"),
        (renamed, "a name has characters that can't be printed: `red \\x1b[31m`"),
        (lambda model: model.graph.sparse_initializer.add(), "sparse initializers are not supported"),
        (lambda model: model.graph.ClearField("node"), "no ONNX file, or a truncated one: it has no graph with nodes"),
    ],
)
def test_what_is_not_supported_is_named_in_one_line(change: Change, message: str) -> None:
    model = quantized_layer()
    read_onnx(model.SerializeToString(), "tiny")
    change(model)
    assert message in message_of(model.SerializeToString())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            quantized_layer(shape=(2, 4, 9, 9, 9), weight=np.ones((6, 4, 3, 3, 3))),
            "1 Conv: a 3-D convolution must have a batch of 1: 2; `conv`",
        ),
        (
            quantized_layer("Gemm", shape=(3, 4), weight=np.ones((4, 4)), alpha=0.5),
            "1 Gemm: Gemm must have transA = 0 and alpha = beta = 1; `conv`",
        ),
        (quantized_layer("Gemm", shape=(4, 4), weight=np.ones((4, 4)), transA=1), "Gemm must have transA = 0"),
        (quantized_layer(activation="Clip", bounds=(0.0, np.nan)), "node `activation` (Clip): its bounds must be numb"),
        (MODELS["head"](), "no node computes on quantized values, the first that should is `stem` (Conv): quantize"),
    ],
)
def test_layers_that_no_kernel_computes(model: Any, message: str) -> None:
    assert message in message_of(model.SerializeToString())


def with_attribute(folder: Path, name: str, **fields: Any) -> bytes:
    """A quantized convolution of ONNX Runtime's with an attribute of this name."""
    model = onnx.load_from_string(quantized(MODELS["head"](), folder, "u8", "s8", False, form="QOperator"))
    layer = next(each for each in model.graph.node if each.op_type == "QLinearConv")
    for each in [each for each in layer.attribute if each.name == name]:
        layer.attribute.remove(each)
    layer.attribute.add(name=name, **fields)
    data: bytes = model.SerializeToString()
    return data


def test_attributes_of_any_name_change_nothing(tmp_path: Path) -> None:
    for name in ("name", "domain", "operator", "inputs"):
        data = with_attribute(tmp_path, name, type=onnx.AttributeProto.STRING, s=b"x")
        assert len(obstructed_network_of(read_onnx(data, "tiny")).layers) == 4


def test_lists_without_values_are_faults_of_the_file(tmp_path: Path) -> None:
    data = with_attribute(tmp_path, "pads", type=onnx.AttributeProto.INTS)
    assert "(QLinearConv): pads must be four integers of 0 to 1048576" in message_of(data)


def test_weights_alone_are_quantized_and_no_layer() -> None:
    model = quantized_layer()
    reads("c", 0, "x")(model)
    for output in ("xd", "xq", "y", "yq"):
        model.graph.node.remove(node(model, output))
    model.graph.output[0].name = "c"
    file = model.SerializeToString()
    assert [each.kind for each in read_onnx(file, "tiny").operators] == [Kind.FLOAT]
    assert "no layer of it is computed with 8-bit integers; 1 Conv: its data is not quantized; `conv`" in message_of(
        file
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty (0 bytes)"),
        (b"\x89PNG\r\n\x1a\n" + bytes(90), "not an ONNX file, it begins with 89 50 4e 47"),
        (b"\x00" * 50, "not an ONNX file, it begins with 00 00 00 00"),
        (b"{}", "not an ONNX file, it begins with 7b 7d"),
        (quantized_layer().SerializeToString()[:-20], "truncated, it must have at least"),
        (quantized_layer().SerializeToString()[:60], "truncated, it must have at least"),
        (quantized_layer().SerializeToString()[:2], "no ONNX file, or a truncated one"),
        (b"\x08\x08\x3a\x02\xff\xff", "damaged"),
        (quantized_layer().SerializeToString().replace(b"conv", b"\xff\xfe\xfdv"), "can't be printed: `b'\\xff"),
    ],
)
def test_files_that_are_no_whole_model(data: bytes, message: str) -> None:
    assert message in message_of(data)


def test_without_onnx_the_message_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def missing(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "onnx":
            raise ImportError(name)
        return original(name, *arguments, **named)

    data = quantized_layer().SerializeToString()
    monkeypatch.setattr(builtins, "__import__", missing)
    assert "pip install 'int8tune[models]'" in message_of(data)


def long_chain(length: int) -> Any:
    """Layers of one set of weights, behind each other, last ones first in the file."""
    model = quantized_layer(weight=np.ones((4, 4, 1, 1)), activation="Relu")
    make = onnx.helper.make_node
    nodes = list(model.graph.node)
    before = "yq"
    for index in range(length):
        names = [f"{part}{index}" for part in "dcrq"]
        nodes += [
            make("DequantizeLinear", [before, "y.scale", "y.zero"], [names[0]]),
            make("Conv", [names[0], "wd"], [names[1]]),
            make("Relu", [names[1]], [names[2]]),
            make("QuantizeLinear", [names[2], "y.scale", "y.zero"], [names[3]]),
        ]
        before = names[3]
    nodes.append(make("DequantizeLinear", [before, "y.scale", "y.zero"], ["z"]))
    model.graph.output[0].name = "z"
    model.graph.output[0].ClearField("type")
    model.graph.ClearField("node")
    model.graph.node.extend(reversed(nodes))
    return model


def relus(length: int) -> Any:
    """Activations behind each other on what one layer stores."""
    model = quantized_layer()
    make = onnx.helper.make_node
    before = "y"
    for index in range(length):
        names = [f"{part}{index}" for part in "rqd"]
        model.graph.node.append(make("Relu", [before], [names[0]]))
        model.graph.node.append(make("QuantizeLinear", [names[0], "y.scale", "y.zero"], [names[1]]))
        model.graph.node.append(make("DequantizeLinear", [names[1], "y.scale", "y.zero"], [names[2]]))
        before = names[2]
    model.graph.output[0].name = before
    return model


@pytest.mark.thorough
@pytest.mark.parametrize("make", [long_chain, relus])
def test_time_grows_like_the_file(make: Callable[[int], Any]) -> None:
    times = []
    for length in (500, 5000):
        data = make(length).SerializeToString()
        started = time.process_time()
        read_onnx(data, "long")
        times.append(time.process_time() - started)
    assert times[1] < 40 * times[0] + 1


@pytest.mark.slow
def test_a_hundred_thousand_nodes() -> None:
    data = long_chain(25_000).SerializeToString()
    started = time.monotonic()
    assert len(read_onnx(data, "long").operators) > 25_000
    assert time.monotonic() - started < 60


def test_many_nodes_that_read_one_large_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that asks for gigabytes."""
    monkeypatch.setattr(quantization, "MAX_READ", 1 << 22)
    writer = Writer([1, 4])
    writer.constant("s", 0.1)
    writer.constant("large", np.zeros(1 << 16))
    for index in range(100):
        writer.node("QuantizeLinear", ["large", "s"], f"q{index}")
    model = writer.model("q1")
    assert "nodes read over" in message_of(model.SerializeToString())


MUTATE = """
import random, resource, sys, time
from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.quantized_layers import network_of

whole, count, seed = open(sys.argv[1], "rb").read(), int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
draw, refused = random.Random(seed), 0
for index in range(count):
    mutant = bytearray(whole)
    for _ in range(draw.choice([1, 1, 4, 16])):
        mutant[draw.randrange(len(mutant))] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
    if draw.random() < 0.2:
        del mutant[draw.randrange(len(mutant)) :]
    if draw.random() < 0.1:
        start, length = draw.randrange(len(mutant) + 1), draw.randrange(40)
        mutant[start:start] = mutant[start : start + length]
    print(index, file=sys.stderr, flush=True)
    started = time.monotonic()
    try:
        network_of(read_onnx(bytes(mutant), "mutant"))
    except ModelError as error:
        assert str(error).isprintable() and len(str(error)) < 500, error
        refused += 1
    assert time.monotonic() - started < 5
print(refused)
"""


def mutate(path: Path, count: int, seed: int) -> int:
    """How many of some mutants of a file are refused, in a process of their own."""
    command = [sys.executable, "-c", MUTATE, str(path), str(count), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


@pytest.mark.parametrize("name", ["residual", "head", "layer"])
def test_mutated_files_end_in_a_network_or_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "mutated.onnx"
    make = quantized_layer().SerializeToString
    path.write_bytes(make() if name == "layer" else quantized(MODELS[name](), tmp_path, "u8", "s8", True))
    assert 0.1 * MUTANTS / 3 < mutate(path, MUTANTS // 3, 1) < MUTANTS / 3


@pytest.mark.slow
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", ["residual", "head", "concat"])
def test_many_mutated_files(name: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / "mutated.onnx"
    path.write_bytes(quantized(MODELS[name](), tmp_path, "u8", "s8", form == "QDQ", form=form))
    assert 0.1 * SLOW_MUTANTS / 6 < mutate(path, SLOW_MUTANTS // 6, 2) < SLOW_MUTANTS / 6


def test_a_product_of_three_values_is_refused() -> None:
    w = IslandWriter((4, 4))
    (found,) = obstacles(read_onnx(w.file(w.quantized(w.apply("MatMul", w.data, w.data, w.data))), "three"))
    assert found.reason.startswith("ONNX does not define it so")


@pytest.mark.parametrize("values", [{"floats": []}, {"floats": [1.0, 2.0]}, {"ints": [1]}, {"s": b"x"}, {"i": 1}])
@pytest.mark.parametrize("operator", ["Elu", "LeakyRelu", "HardSigmoid"])
def test_attributes_of_another_type_are_refused(operator: str, values: dict[str, Any]) -> None:
    """ONNX Runtime refuses them, too: nothing says what such a number is."""
    w = IslandWriter((3, 40))
    w.quantized(w.apply(operator, w.data))
    model = onnx.ModelProto.FromString(w.file(w.quantized(w.apply(operator, w.data))))
    changed = next(each for each in model.graph.node if each.op_type == operator)
    kinds = {"floats": onnx.AttributeProto.FLOATS, "ints": onnx.AttributeProto.INTS}
    kinds |= {"s": onnx.AttributeProto.STRING, "i": onnx.AttributeProto.INT}
    (key,) = values
    changed.attribute.append(onnx.AttributeProto(name="alpha", type=kinds[key], **values))
    message = message_of(model.SerializeToString())
    assert "its attribute `alpha` has another type than ONNX says" in message
