"""TFLite files with islands that somebody else wrote: read, or refused in one line, in bounded time and memory."""

from __future__ import annotations

import random
import resource
import tracemalloc
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.obstacles import obstacle_lines, obstacles
from int8tune.compiler.tflite_reader.floats.operators import READERS
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.support.models.emitted import said_of
from tests.support.models.tflite_detections import file_with_detections
from tests.support.models.tflite_flow import file_with_loop
from tests.support.models.tflite_islands import SHAPE, IslandWriter
from tests.support.models.tflite_models import TYPES, packed, schema
from tests.support.models.tflite_recurrent import file_with_fixed_recurrent, file_with_recurrent
from tests.support.run.probes import host_target

pytest.importorskip("tflite", reason="needs the extra `models`")

MUTANTS = 40
ROW = np.ones(SHAPE[-1])
ONCE = {"strideH": 1, "strideW": 1}


def integers(*values: Any) -> Any:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("word", "inputs", "shape", "options", "fields", "message"),
    [
        ("UNIQUE", (), SHAPE, "Unique", {}, "the shape of what it makes depends on values"),
        ("ADD", (np.ones(5),), SHAPE, "Add", {}, "its inputs don't fit each other"),
        ("ADD", (ROW,), (2, 5, 8, 7), "Add", {}, "its output must be f32 [2, 5, 8, 6]: f32 [2, 5, 8, 7]"),
        ("MUL", (ROW,), SHAPE, "Mul", {"fusedActivationFunction": 5}, "fused activation 5 is not supported"),
        ("MEAN", (integers(4),), SHAPE, "Reducer", {}, "its axis must be one of 4: 4"),
        ("GATHER", (integers(0, 8),), (2, 5, 2, 6), "Gather", {"axis": 2}, "its indices must be within [8]"),
        ("TOPK_V2", (integers(9),), (2, 5, 8, 9), "TopKV2", {}, "it must take 1 to 6 values"),
        ("MAX_POOL_2D", (), SHAPE, "Pool2D", {"strideH": 0}, "is out of range"),
        ("CONV_2D", (np.ones((4, 3, 3, 4)), ROW), SHAPE, "Conv2D", ONCE, "can't be shared by filters of 4"),
        ("PAD", (integers([0, -1], [0, 0], [0, 0], [0, 0]),), SHAPE, "Pad", {}, "two widths for each axis"),
    ],
)
def test_what_an_island_can_not_have_says_why(
    word: str, inputs: Any, shape: Any, options: str, fields: Any, message: str
) -> None:
    w = IslandWriter()
    (found,) = obstacles(read_tflite(w.model(w.apply(word, [w.data, *inputs], shape, options, **fields)), "one"))
    assert message in found.reason


def test_all_operators_that_are_refused_are_named_at_once() -> None:
    w = IslandWriter()
    made = [w.apply(word, [w.data], SHAPE, options) for word, options in (("UNIQUE", "Unique"), ("WHERE", "Where"))]
    lines = obstacle_lines(read_tflite(w.model(*made, w.apply("UNIQUE", [made[1]], SHAPE, "Unique")), "net"))
    assert lines[0].startswith("net: 3 of 4 operators can't be compiled")
    assert [line.split(":")[0] for line in lines[1:]] == ["2 UNIQUE", "1 WHERE"]


@pytest.mark.parametrize("word", ["FILL", "ZEROS_LIKE", "BROADCAST_TO", "PADV2"])
def test_a_small_file_does_not_ask_for_gigabytes(word: str) -> None:
    """Values that are known before the model runs are computed while it is compiled."""
    w, many = IslandWriter((1, 1)), (1 << 14, 1 << 14)
    one = w.apply("RELU", [w.data], (1, 1))
    inputs = {
        "FILL": [integers(*many), np.array(1.0)],
        "ZEROS_LIKE": [w.tensor("wide", "f32", many)],
        "BROADCAST_TO": [np.ones((1, 1)), integers(*many)],
        "PADV2": [np.ones((1, 1)), integers([0, many[0] - 1], [0, many[1] - 1]), np.array(1.0)],
    }[word]
    wide = w.apply(word, inputs, many)
    file = w.model(w.apply("ADD", [one, wide], many, "Add"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        lines = obstacle_lines(read_tflite(file, "wide"))
    except ModelError as fault:
        lines = [str(fault)]
    assert lines
    assert "\n" not in lines[0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19


def test_values_that_are_too_large_are_refused_before_their_places_are_made() -> None:
    w, many = IslandWriter((1, 1)), (2, 1 << 22, 33)
    wide = w.apply("DEQUANTIZE", [w.data], many)
    lengths = integers(1, 2)
    file = w.model(w.apply("REVERSE_SEQUENCE", [wide, lengths], many, "ReverseSequence", seqDim=1, batchDim=0))
    tracemalloc.start()
    try:
        *_, last = obstacles(read_tflite(file, "wide"))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert last.reason == f"its values must be at most {1 << 27:,}: {list(many)}"
    assert peak_bytes < 8 << 20


def file_with_many() -> bytes:
    w = IslandWriter()
    curve = w.apply("SOFTMAX", [w.apply("L2_NORMALIZATION", [w.data], SHAPE, "L2Norm")], SHAPE, "Softmax", beta=0.5)
    image = w.apply("CONV_2D", [curve, np.ones((4, 3, 3, 6)), np.ones(4)], (2, 5, 8, 4), "Conv2D", **ONCE)
    padded = w.apply("PAD", [image, integers([0, 0], [1, 1], [0, 0], [0, 0])], (2, 7, 8, 4))
    window = {"filterHeight": 2, "filterWidth": 2, "strideH": 1, "strideW": 2, "padding": 1}
    pooled = w.apply("MAX_POOL_2D", [padded], (2, 6, 4, 4), "Pool2D", **window)
    index = w.apply("ARG_MAX", [image, integers(3)], (2, 5, 8), "ArgMax", kind="s32", outputType=2)
    row = w.apply("SLICE", [index, integers(0, 0, 0), integers(1, 1, 8)], (1, 1, 8), kind="s32")
    taken = w.apply("GATHER", [curve, row], (2, 1, 1, 8, 8, 6), "Gather", axis=1)
    dense = w.apply("FULLY_CONNECTED", [pooled, np.ones((3, 4)), np.ones(3)], (48, 3), "FullyConnected")
    mean = w.apply("MEAN", [taken, integers(-1)], (2, 1, 1, 8, 8), "Reducer")
    parts = w.apply("TOPK_V2", [mean, integers(2)], (2, 1, 1, 8, 2), "TopKV2", outputs=[("s32", (2, 1, 1, 8, 2))])
    return w.model(dense, parts, parts + 1)


def file_with_state() -> bytes:
    """A variable, which a layer that quantizes its data at run time reads."""
    w = IslandWriter()
    once, form, shape = w.other(), ("f32", SHAPE), (1, 1, 1, 6)
    handle, first = w.tensor("handle", "resource", ()), once.tensor("handle", "resource", ())
    w.operator("VAR_HANDLE", [], [handle], "VarHandle", 1, sharedName="memory")
    once.operator("VAR_HANDLE", [], [first], "VarHandle", 1, sharedName="memory")
    once.operator("ASSIGN_VARIABLE", [first, once.constant("first", "f32", np.ones(shape))], [], version=1)
    w.operator("CALL_ONCE", [], [], "CallOnce", 1, initSubgraphIndex=1)
    before = w.apply("READ_VARIABLE", [handle], shape)
    data = w.apply("ADD", [w.data, before], form[1], "Add")
    mean = w.apply("MEAN", [data, integers(0, 1, 2)], shape, "Reducer", keepDims=True)
    w.operator("ASSIGN_VARIABLE", [handle, mean], [], version=1)
    weight = w.constant("stored", "s8", np.arange(18).reshape(3, 6), 0.1)
    dense = w.apply(
        "FULLY_CONNECTED", [data, weight, np.ones(3)], (80, 3), "FullyConnected", asymmetricQuantizeInputs=True
    )
    return w.model(dense, others=[once])


def file_with_wide() -> bytes:
    """A layer of 16-bit data between numbers."""
    w = IslandWriter()
    wide, made, number = (
        w.tensor(name, *form)
        for name, form in {
            "wide": ("s16", SHAPE, 0.001),
            "conv": ("s16", (2, 5, 8, 4), 0.01),
            "number": ("f32", (2, 5, 8, 4)),
        }.items()
    )
    w.operator("QUANTIZE", [w.data], [wide])
    weight = w.constant("stored", "s8", np.arange(24).reshape(4, 1, 1, 6), 0.1)
    w.operator(
        "CONV_2D", [wide, weight, w.constant("bias", "s64", [1, -2, 3, 1 << 30], 0.0001)], [made], "Conv2D", **ONCE
    )
    w.operator("DEQUANTIZE", [made], [number])
    return w.model(number)


FILES = [
    *(file_with_many, file_with_state, file_with_wide),
    *(file_with_detections, file_with_recurrent, file_with_fixed_recurrent, file_with_loop),
]


def unpacked(file: bytes) -> Any:
    """A model as objects that can be changed."""
    model = schema.ModelT.InitFromPackedBuf(file, 0)
    parts = [each for graph in model.subgraphs for each in (*graph.tensors, *graph.operators)]
    for each in (*parts, *model.buffers):
        for name, value in vars(each).items():
            if isinstance(value, np.ndarray):
                setattr(each, name, value.copy())  # that of the file can't be changed
    return model


def mutant(rng: random.Random) -> bytes:
    """A file with another operator, option, number, shape, type or input; or with other bytes."""
    model = unpacked(rng.choice(FILES)())
    graph, numbers = rng.choice(model.subgraphs), [-(1 << 31), -9, -1, 0, 1, 2, 3, 9, 1 << 30]
    operator, tensor = rng.choice(graph.operators), rng.choice(graph.tensors)
    match rng.randrange(7):
        case 0:
            code = model.operatorCodes[operator.opcodeIndex]
            code.builtinCode = getattr(schema.BuiltinOperator, rng.choice(sorted(READERS)))
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        case 1 if operator.builtinOptions is not None and vars(operator.builtinOptions):
            name = rng.choice(sorted(vars(operator.builtinOptions)))
            value = getattr(operator.builtinOptions, name)
            if isinstance(value, bool):
                setattr(operator.builtinOptions, name, not value)
            elif isinstance(value, int):
                setattr(operator.builtinOptions, name, rng.choice(numbers[2:8]))
        case 6 if len(operator.inputs):
            operator.inputs[rng.randrange(len(operator.inputs))] = rng.randrange(len(graph.tensors))
        case 3:
            data = rng.choice([each for each in model.buffers if each.data is not None])
            data.data[4 * rng.randrange(len(data.data) // 4)] = rng.choice([0, 1, 3, 100])
        case 4 if len(tensor.shape):
            tensor.shape[rng.randrange(len(tensor.shape))] = rng.choice(numbers)
        case 2 if operator.customOptions is not None:
            operator.customOptions[rng.randrange(len(operator.customOptions))] = rng.choice([0, 1, 2, 255])
        case 5:
            tensor.type = rng.choice(sorted(TYPES.values()))
    changed = bytearray(packed(model))
    if rng.randrange(3) == 0:
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 6))])
@pytest.mark.thorough
def test_changed_files_are_read_or_refused_in_one_line(seed: int) -> None:
    rng, target, compiled = random.Random(seed), host_target("generic"), 0
    for _ in range(MUTANTS):
        said = said_of(read_tflite, mutant(rng), target)
        compiled += said == ""
        assert said == "" or (said.startswith("mutant: ") and "\n" not in said), said
    assert compiled > MUTANTS // 10
