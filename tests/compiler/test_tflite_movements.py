"""TFLite operators that move values: as a graph's, one or several; and files of operators that are damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.graph import Kind
from int8tune.compiler.interpreter import run_reference
from int8tune.compiler.tflite_reader.model import read_tflite
from tests.compiler.test_tflite_operators import BYTES, LOWEST, Form, exact, exact_one, reason, values, written
from tests.support.models.tflite_models import DTYPES, Writer, values_of

pytest.importorskip("tflite", reason="needs the extra `models`")

Array = npt.NDArray[Any]

MUTANTS = 800


@BYTES
def test_what_only_moves(kind: str) -> None:
    def form(*shape: int) -> Form:
        return kind, shape, 0.02, LOWEST[kind] + 7

    moved = [
        ("RESHAPE", form(2, 1, 6), form(3, 4), "Reshape", [("s32", [3, 4])]),
        ("SQUEEZE", form(2, 1, 6), form(2, 6), "Squeeze", []),
        ("EXPAND_DIMS", form(2, 6), form(2, 1, 6), "ExpandDims", [("s32", [1])]),
        ("TRANSPOSE", form(2, 3, 4, 5), form(2, 5, 3, 4), "Transpose", [("s32", [0, 3, 1, 2])]),
        ("PAD", form(1, 3, 4, 5), form(1, 6, 8, 5), "Pad", [("s32", [[0, 0], [1, 2], [3, 1], [0, 0]])]),
        ("SLICE", form(2, 5, 6, 8), form(1, 3, 6, 5), "Slice", [("s32", [1, 1, 0, 2]), ("s32", [1, 3, -1, 5])]),
    ]
    kinds = [exact_one(*each, version=2 if each[0] in ("PAD", "SLICE") else 1).kind for each in moved]
    assert kinds == [Kind.RESHAPE] * 3 + [Kind.TRANSPOSE, Kind.PAD, Kind.SLICE]
    filled = ("s32", [[0, 1], [2, 0]]), (kind, [9], 0.02, LOWEST[kind] + 7)
    assert exact_one("PADV2", form(3, 4), form(4, 6), "PadV2", filled, version=2).attributes["value"] == 9
    places = ("s32", [9, 1, -4, 3]), ("s32", [0, 7, -1, 100]), ("s32", [1, 2, 1, 1])
    masks = {"beginMask": 1, "endMask": 1, "version": 2}
    strided = exact_one("STRIDED_SLICE", form(2, 9, 6, 8), form(2, 3, 3, 5), "StridedSlice", places, **masks)
    assert strided.attributes == {"begin": (0, 1, 2, 3), "end": (2, 7, 5, 8), "strides": (1, 2, 1, 1)}


def form(*shape: int) -> Form:
    return "s8", shape, 0.02, -121


MOVEMENTS: list[tuple[str, Form, Form, str, list[Any], dict[str, Any], Kind]] = [
    ("GATHER", form(2, 3, 4, 5), form(2, 2, 4, 5), "Gather", [[2, 0]], {"axis": 1}, Kind.GATHER),
    ("GATHER", form(2, 3, 4, 5), form(2, 4, 5), "Gather", [1], {"axis": 1}, Kind.RESHAPE),
    ("GATHER", form(2, 3, 4), form(2, 3, 2, 2), "Gather", [[[0, 1], [3, 3]]], {"axis": -1}, Kind.RESHAPE),
    ("GATHER_ND", form(2, 3, 4), form(3, 4), "GatherNd", [[[0, 1], [1, 2], [1, 0]]], {}, Kind.GATHER),
    ("GATHER_ND", form(2, 3), form(2, 2), "GatherNd", [[[[0, 1], [1, 2]], [[1, 1], [0, 0]]]], {}, Kind.RESHAPE),
    ("TILE", form(2, 3, 4), form(2, 6, 12), "Tile", [[1, 2, 3]], {}, Kind.GATHER),
    ("BROADCAST_TO", form(3, 1), form(2, 3, 4), "BroadcastTo", [[2, 3, 4]], {"version": 3}, Kind.GATHER),
    ("MIRROR_PAD", form(3, 4), form(6, 8), "MirrorPad", [[[1, 2], [3, 1]]], {"mode": 0}, Kind.GATHER),
    ("MIRROR_PAD", form(3, 4), form(6, 8), "MirrorPad", [[[1, 2], [3, 1]]], {"mode": 1}, Kind.GATHER),
    ("REVERSE_V2", form(3, 4, 5), form(3, 4, 5), "ReverseV2", [[1]], {"version": 3}, Kind.GATHER),
    ("DEPTH_TO_SPACE", form(2, 3, 4, 8), form(2, 6, 8, 2), "DepthToSpace", [], {"blockSize": 2}, Kind.DEPTH_TO_SPACE),
    ("SPACE_TO_DEPTH", form(2, 4, 6, 3), form(2, 2, 3, 12), "SpaceToDepth", [], {"blockSize": 2}, Kind.SPACE_TO_DEPTH),
    (
        "SPACE_TO_BATCH_ND",
        form(2, 5, 6, 3),
        form(12, 3, 3, 3),
        "SpaceToBatchND",
        [[2, 3], [[0, 1], [2, 1]]],
        {"version": 2},
        Kind.RESHAPE,
    ),
    (
        "BATCH_TO_SPACE_ND",
        form(12, 3, 3, 3),
        form(2, 5, 6, 3),
        "BatchToSpaceND",
        [[2, 3], [[0, 1], [2, 1]]],
        {"version": 2},
        Kind.SLICE,
    ),
]
STRIDED: list[tuple[Form, list[list[int]], dict[str, int]]] = [
    (form(9, 1, 3), [[1, 0, 5, 0], [2, 9, 6, 3], [1, 1, 1, 1]], {"shrinkAxisMask": 1}),
    (form(2, 9, 1, 6, 8), [[0, 0, 0, 0], [2, 9, 1, 6], [1, 1, 1, 1]], {"newAxisMask": 4}),
    (form(2, 9, 6, 3), [[0, -1], [0, -4], [1, -1]], {"ellipsisMask": 1}),
    (form(2, 9, 6), [[0, -1], [0, 0], [1, 1]], {"ellipsisMask": 1, "shrinkAxisMask": 2}),
    (form(5, 6, 8), [[1, 8], [2, 0], [1, -2]], {"shrinkAxisMask": 1, "endMask": 2, "beginMask": 2}),
    (form(2, 6, 8), [[0, -3], [2, 9], [1, 1]], {"shrinkAxisMask": 2, "beginMask": 2}),
    (form(2, 6, 8), [[0, -30], [2, 9], [1, 3]], {"shrinkAxisMask": 2}),
]


@pytest.mark.parametrize("case", MOVEMENTS, ids=lambda case: f"{case[0]} {list(case[2][1])}")
def test_what_moves_by_constant_places(case: Any) -> None:
    word, data, made, options, constants, fields, kind = case
    assert exact_one(word, data, made, options, [("s32", each) for each in constants], **fields).kind is kind


@pytest.mark.parametrize("case", STRIDED, ids=lambda case: str(case[2]))
def test_slices_that_add_and_drop_axes_or_go_backwards(case: Any) -> None:
    made, places, masks = case
    masks, data = {"version": 2, **masks}, form(2, 9, 6, 8)
    exact_one("STRIDED_SLICE", data, made, "StridedSlice", [("s32", each) for each in places], **masks)


@pytest.mark.parametrize("places", [[[0, 9], [2, 9], [1, 1]], [[0, 3], [2, 9], [1, -1]]])
def test_a_place_of_a_slice_that_litert_does_not_take_is_refused(places: list[list[int]]) -> None:
    constants = [("s32", each) for each in places]
    data = written("STRIDED_SLICE", [form(2, 9)], form(2), "StridedSlice", constants, version=2, shrinkAxisMask=2)
    assert "it must take a place within 9 in ascending steps" in reason(data)


@BYTES
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_values_are_stacked_and_taken_apart(kind: str, axis: int) -> None:
    writer = Writer()
    data = [writer.input(f"x{index}", kind, (3, 4), 0.1, 3) for index in range(2)]
    data.append(writer.constant("c", kind, np.arange(12).reshape(3, 4), 0.1, 3))
    shape = list(np.stack([np.ones((3, 4))] * 3, axis).shape)
    whole = writer.tensor("whole", kind, shape, 0.1, 3)
    parts = [writer.tensor(f"y{index}", kind, (3, 4), 0.1, 3) for index in range(3)]
    writer.operator("PACK", data, [whole], "Pack", valuesCount=3, axis=axis)
    writer.operator("UNPACK", [whole], parts, "Unpack", num=3, axis=axis)
    exact(writer.model(*parts), {f"x{index}": values(kind, (3, 4), index) for index in range(2)})


@BYTES
@pytest.mark.parametrize("word", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize(("block", "padding"), [((2, 2), 0), ((2, 3), 0), ((2, 2), 1)])
def test_a_convolution_between_batches_is_dilated(kind: str, word: str, block: tuple[int, int], padding: int) -> None:
    """Where it has a border itself, the operators around it stay."""
    low, writer, rng = LOWEST[kind], Writer(), np.random.default_rng(0)
    rows, columns = (-(-(extent + 2 * step) // step) for extent, step in zip((9, 10), block, strict=True))
    batch, point = block[0] * block[1], low + 100
    wide = [extent * step for extent, step in zip((rows, columns), block, strict=True)]
    widths = [[step, total - extent - step] for total, extent, step in zip(wide, (9, 10), block, strict=True)]
    inner = (rows - 2, columns - 2) if padding else (rows, columns)
    whole = [extent * step for extent, step in zip(inner, block, strict=True)]
    crops = [[0, max(0, total - extent)] for total, extent in zip(whole, (9, 10), strict=True)]
    sizes = [total - sum(crop) for total, crop in zip(whole, crops, strict=True)]
    blocks = writer.constant("block", "s32", block)
    data = writer.input("x", kind, (1, 9, 10, 4), 0.03, point)
    spread = writer.tensor("spread", kind, (batch, rows, columns, 4), 0.03, point)
    writer.operator(
        "SPACE_TO_BATCH_ND", [data, blocks, writer.constant("p", "s32", widths)], [spread], "SpaceToBatchND"
    )
    zero, is_depthwise = 0 if kind == "s8" else 120, word.startswith("DEPTHWISE")
    shape = (1, 3, 3, 4) if is_depthwise else (6, 3, 3, 4)
    limits = (-127, 128) if kind == "s8" else (0, 256)
    weight = writer.constant("w", kind, rng.integers(*limits, shape), 0.01, zero)
    channels = 4 if is_depthwise else 6
    bias = writer.constant("b", "s32", rng.integers(-999, 999, channels), float(np.float32(0.03) * np.float32(0.01)))
    convolved = writer.tensor("c", kind, (batch, *inner, channels), 0.05, low + 90)
    fields = {"depthMultiplier": 1} if is_depthwise else {}
    options = "DepthwiseConv2D" if is_depthwise else "Conv2D"
    writer.operator(word, [spread, weight, bias], [convolved], options, strideH=1, strideW=1, padding=padding, **fields)
    made = writer.tensor("y", kind, (1, *sizes, channels), 0.05, low + 90)
    writer.operator(
        "BATCH_TO_SPACE_ND", [convolved, blocks, writer.constant("q", "s32", crops)], [made], "BatchToSpaceND"
    )
    graph, feeds = read_tflite(writer.model(made), "one"), {"x": values(kind, (1, 9, 10, 4))}
    expected = values_of(writer.model(made), feeds)["y"]
    np.testing.assert_array_equal(run_reference(graph, feeds)["y"], expected, strict=True)
    assert (len(graph.operators) == 1) == bool(padding)
    if padding:
        assert graph.operators[0].attributes["dilation"] == block


@BYTES
def test_a_split_is_slices(kind: str) -> None:
    for word, sizes in (("SPLIT", (4, 4, 4)), ("SPLIT_V", (2, 7, 3))):
        writer = Writer()
        axis = writer.constant("axis", "s32", [-1] if word == "SPLIT_V" else 3)
        data = writer.input("x", kind, (2, 3, 4, 12), 0.1, 3)
        parts = [writer.tensor(f"y{index}", kind, (2, 3, 4, size), 0.1, 3) for index, size in enumerate(sizes)]
        taken = [axis, data] if word == "SPLIT" else [data, writer.constant("sizes", "s32", sizes), axis]
        writer.operator(word, taken, parts, "Split" if word == "SPLIT" else "SplitV", numSplits=3)
        last = exact(writer.model(*parts), {"x": values(kind, (2, 3, 4, 12))})
        assert (last.kind, last.inputs, last.attributes["end"]) == (Kind.SLICE, ("x",), (2, 3, 4, 12))


def test_mutated_operators_run_or_say_why_not() -> None:
    form: Form = ("s8", (2, 6, 6, 4), 0.02, 3)
    half: Form = ("s8", (2, 3, 3, 4), 0.02, 3)
    pool = {"filterHeight": 2, "filterWidth": 2, "strideH": 2, "strideW": 2}
    writer = Writer()
    taken = [writer.constant("sizes", "s32", [2, 6, 6, 4]), writer.constant("w", "s8", np.ones((4, 3, 3, 4)), 0.01)]
    made = writer.tensor("y", *form)
    inputs = [*taken, writer.input("x", *half)]
    writer.operator("TRANSPOSE_CONV", inputs, [made], "TransposeConv", 3, strideH=2, strideW=2)
    transposed = writer.model(made)
    files = [
        written("MAX_POOL_2D", [form], half, "Pool2D", **pool),
        written("AVERAGE_POOL_2D", [form], half, "Pool2D", **pool),
        written("MEAN", [form], ("s8", (2, 1, 1, 4), 0.02, 3), "Reducer", [("s32", [1, 2])], keepDims=True),
        written("TRANSPOSE", [form], form, "Transpose", [("s32", [0, 2, 1, 3])]),
        written("PAD", [half], form, "Pad", [("s32", [[0, 0], [1, 2], [2, 1], [0, 0]])]),
        written("RESIZE_BILINEAR", [half], form, "ResizeBilinear", [("s32", [6, 6])]),
        written("MUL", [form, ("s8", (4,), 0.1, 0)], form, "Mul"),
        *(
            written(word, [data], made, options, [("s32", each) for each in constants], **fields)
            for word, data, made, options, constants, fields, _ in MOVEMENTS
        ),
        written("STRIDED_SLICE", [form], half, "StridedSlice", [("s32", each) for each in ([0, 0], [6, 6], [2, 2])]),
        written("ARG_MAX", [form], ("s32", (2, 6, 6)), "ArgMax", [("s32", [3])], outputType=2),  # type: ignore[list-item]
        written("REDUCE_MAX", [form], ("s8", (2, 4), 0.02, 3), "Reducer", [("s32", [1, 2])]),
        transposed,
    ]
    rng, ran, messages = np.random.default_rng(0), 0, []
    for index in range(MUTANTS):
        mutant = np.frombuffer(files[index % len(files)], np.uint8).copy()
        mutant[rng.integers(0, len(mutant), 2)] = rng.integers(0, 9, 2)
        try:
            graph = read_tflite(mutant.tobytes(), "mutant")
            if all(np.prod(value.shape, dtype=np.float64) < 1e5 for value in graph.values.values()):
                dtypes = {name: DTYPES[graph.values[name].type] for name in graph.inputs}
                run_reference(graph, {name: np.ones(graph.values[name].shape, dtypes[name]) for name in dtypes})
            ran += 1
        except ModelError as error:
            messages.append(str(error))
    assert all(text.isprintable() and len(text) < 400 for text in messages)
    assert min(ran, len(messages)) > 0.1 * MUTANTS
