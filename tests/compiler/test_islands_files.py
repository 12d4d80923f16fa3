"""Files with islands that somebody else wrote: what is refused, in one line, and what is never done."""

from __future__ import annotations

import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.islands.supported import STANDARD
from int8tune.compiler.obstacles import obstacle_lines, obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.emitted import said_of
from tests.support.models.onnx_islands import IslandWriter
from tests.support.run.probes import host_target

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

MUTANTS = 24


def reason_of(build: Any, opset: int = 18) -> str:
    w = IslandWriter()
    graph = read_onnx(w.file(build(w), opset=opset), "one")
    (found,) = obstacles(graph)
    return found.reason


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        ("Bernoulli", (), {}, "it draws random numbers"),
        ("Mod", (0.7,), {"fmod": 0}, "its fmod must be 1"),
        ("ConvTranspose", (np.ones((6, 1, 2, 2)),), {"output_shape": [7, 9]}, "padding must be given"),
        ("Resize", ("", np.array([1.0, 1, 1.3, 1])), {"mode": "linear"}, "must give whole numbers"),
        ("Resize", ("", np.array([1.0, 1, 2, 1])), {"mode": "nearest", "antialias": 1}, "linear or cubic: nearest"),
        ("Gather", (np.array([0, 6]),), {"axis": 1}, "its indices must be within 6"),
        ("LeakyRelu", (), {"nonsense": 1}, "ONNX does not define it so"),
    ],
)
def test_what_an_island_can_not_have_says_why(operator: str, inputs: Any, attributes: Any, message: str) -> None:
    assert message in reason_of(lambda w: w.apply(operator, w.data, *inputs, **attributes))


def test_operators_of_other_domains_are_not_those_of_onnx() -> None:
    w = IslandWriter()
    made = w.quantized(w.apply("Relu", w.data))
    node = next(node for node in w.nodes if node.op_type == "Relu")
    node.domain = "somebody.else"
    model = onnx.ModelProto.FromString(w.file(made))
    model.opset_import.append(onnx.helper.make_opsetid("somebody.else", 1))
    model.graph.value_info.append(onnx.helper.make_tensor_value_info(node.output[0], 1, (2, 6, 5, 8)))
    (found,) = obstacles(read_onnx(model.SerializeToString(), "one"))
    assert (found.operator, found.reason) == ("Relu", "no kernel computes it")


@pytest.mark.parametrize("operator", ["Expand", "Tile", "ConstantOfShape"])
def test_a_small_file_does_not_ask_for_gigabytes(operator: str) -> None:
    """Values that are known before the model runs are computed while it is compiled."""
    w = IslandWriter((1, 1))
    many = np.array([1 << 14, 1 << 14])
    constant = w.constant("one", np.ones((1, 1)))
    wide = w.apply("ConstantOfShape", many) if operator == "ConstantOfShape" else w.apply(operator, constant, many)
    file = w.file(w.apply("ReduceMax", w.apply("Mul", w.data, wide), np.array([0, 1])))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = obstacle_lines(read_onnx(file, "wide"))
    assert any("at most" in line or "ConstantOfShape: no kernel" in line for line in lines)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19


def model_with_many() -> Any:
    w = IslandWriter()
    curve = w.apply("Softmax", w.apply("LayerNormalization", w.data, np.ones(8), np.zeros(8)), axis=2)
    image = w.apply("Conv", curve, np.ones((4, 6, 3, 3)), pads=[1] * 4)
    part = w.apply("Slice", image, np.array([1]), np.array([4]), np.array([2]))
    index = w.apply("Cast", w.apply("ArgMax", part, axis=1, keepdims=0), to=7)
    taken = w.apply("Gather", w.apply("Transpose", curve, perm=[0, 2, 1, 3]), index, axis=3)
    pooled = w.apply("MaxPool", w.apply("Pad", image, np.array([0, 0, 1, 1, 0, 0, 1, 1])), kernel_shape=[2, 2])
    return onnx.ModelProto.FromString(w.file(w.quantized(taken), w.apply("ReduceMean", pooled, np.array([-1]))))


def mutant(rng: random.Random) -> bytes:
    """A file with another operator, number, attribute or name; or with other bytes."""
    model = model_with_many()
    node = rng.choice(model.graph.node)
    match rng.randrange(6):
        case 0:
            node.op_type = rng.choice(sorted(STANDARD))
        case 1 if node.attribute:
            attribute = rng.choice(node.attribute)
            attribute.i = rng.choice([-(1 << 62), -9, -1, 0, 3, 9, 1 << 40])
            attribute.ints[:] = [rng.choice([-3, 0, 1, 2, 5]) for _ in attribute.ints]
        case 2 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(rng.choice(model.graph.node).output)
        case 3:
            tensor = rng.choice(model.graph.initializer)
            array = onnx.numpy_helper.to_array(tensor).copy()
            flat = array.reshape(-1)
            if flat.size:
                flat[rng.randrange(flat.size)] = rng.choice([0, 1, 3, 100])
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        case 4:
            node.attribute.append(onnx.helper.make_attribute("axis", rng.choice([1.5, -100, [1, 2], "x"])))
    data = bytearray(model.SerializeToString())
    if rng.randrange(3) == 0:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 6))])
@pytest.mark.thorough
def test_changed_files_are_read_or_refused_in_one_line(seed: int) -> None:
    rng, target, compiled = random.Random(seed), host_target("generic"), 0
    for _ in range(MUTANTS):
        data = mutant(rng)
        said = said_of(read_onnx, data, target)
        compiled += said == ""
        assert said == "" or (said.startswith("mutant: ") and "\n" not in said), said
    assert compiled > MUTANTS // 10


def test_what_the_importer_can_not_convert_is_one_line(tmp_path: Path) -> None:
    from int8tune.compiler.compile import compile_model
    from int8tune.compiler.schedule_choice import Schedules

    w = IslandWriter((1, 2, 4, 4, 4, 4))
    made = w.apply("Conv", w.data, np.ones((6, 2, 2, 2, 2, 2)))
    graph, target = read_onnx(w.file(made), "odd"), host_target("generic")
    with pytest.raises(ModelError) as caught:
        compile_model(graph, target, Schedules(target), tmp_path / "model.so")
    assert str(caught.value).startswith("odd: `Conv.")
    assert "can't be compiled in float: " in str(caught.value)
    assert "\n" not in str(caught.value)
