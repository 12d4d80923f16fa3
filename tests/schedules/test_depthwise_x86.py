"""Depthwise convolutions on x86: all ways to make words and operands are exact, words are shared where they can be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Config
from int8tune.schedules.workload import DepthwiseConv2d, parse_workload
from int8tune.schedules.x86.depthwise import DepthwiseX86
from int8tune.schedules.x86.depthwise_form import DepthwiseForm, RowWords, Weights
from int8tune.schedules.x86.registers import REGISTERS
from tests.support.kernels.kernels import build
from tests.support.run.probes import VECTOR_PROFILES, any_target, host_target
from tests.support.run.thinned import one_in

TEMPLATE = DepthwiseX86()
# By what they need.
LAYERS = {
    "blocks of 4, 2 and 1 registers": "dwconv2d-u8s8-1x5x6x112-k3x3x1-s1-p1-float.c-u8",
    "a last block that overlaps": "dwconv2d-s8s8-1x5x6x23-k3x3x1-s1-p1-fixed.c-s8",
    "fewer channels than lanes": "dwconv2d-u8s8-1x5x6x5-k3x3x1-s1-p1-float.c-u8",
    "more outputs than channels": "dwconv2d-u8s8-1x5x6x12-k3x3x4-s2-p1-float.c-clamp-u8",
    "two words a column": "dwconv2d-u8s8-1x9x9x32-k5x5x1-s1-p2-float.c-u8",
    "a loop over words": "dwconv2d-u8s8-1x11x12x16-k17x17x1-s1-p8-s32",
    "rows apart": "dwconv2d-s8u8-1x9x9x32-k3x3x1-s1-p3-d3-float.c-s8",
    "words of different rows": "dwconv2d-u8s8-2x9x7x32-k2x3x1-s3x1-p1-float.t-u8",
    "one row": "dwconv2d-u8s8-1x1x9x48-k1x3x1-s1-p0.1.0.1-float.c-u8",
    "a zero point": "dwconv2d-u8u8-1x7x7x48-k3x3x1-s1-p1-wz-float.c-u8",
    "a zero point, signed data": "dwconv2d-s8s8-1x7x7x48-k3x3x1-s2-p1-wz-fixed.c-s8",
    "a residual": "dwconv2d-u8s8-1x7x7x48-k3x3x1-s1-p1-float.c-addu8-u8",
    "a residual that is first": "dwconv2d-u8s8-1x7x7x48-k3x3x1-s1-p1-float.c-adds8.first-u8",
}
# Takes twenty seconds to compile; the profiles differ in the instructions of a dot product, not in the loops around it.
LONG = ("a loop over words", "x86-avx2")
SIZES = ((1, 1), (1, 4), (2, 2), (2, 4), (3, 3), (4, 2))


@pytest.mark.parametrize(
    ("name", "profile"),
    one_in(9, sorted(itertools.product(LAYERS, VECTOR_PROFILES), key=LONG.__eq__)),
)
def test_each_arrangement_of_words_is_exact(name: str, profile: str) -> None:
    assert build(parse_workload(LAYERS[name]), host_target(profile), template=TEMPLATE).wrong_cases() == []


@pytest.mark.matrix
@pytest.mark.parametrize("border", ["skip", "copy"])
@pytest.mark.parametrize("outer", ["channels", "image"])
@pytest.mark.parametrize("size", one_in(3, [(size,) for size in SIZES]), ids=lambda size: f"{size[0]}x{size[1]}")
def test_each_tile_is_exact(size: tuple[int, int], outer: str, border: str) -> None:
    """Tiles that divide no axis of the output, of two kinds of blocks."""
    workload = parse_workload("dwconv2d-u8s8-1x7x11x80-k3x3x1-s1-p1-float.c-u8")
    config: Config = {"tile_rows": size[0], "tile_columns": size[1], "outer": outer, "border": border}
    assert build(workload, host_target("x86-avx512vnni"), config, TEMPLATE).wrong_cases() == []


@pytest.mark.parametrize(
    ("types", "profile", "weights", "offsets"),
    [
        ("u8s8", "x86-avx512vnni", Weights.SIGNED, (0, 0)),
        ("s8s8", "x86-avx512vnni", Weights.SIGNED, (128, 0)),
        ("s8u8", "x86-avx512vnni", Weights.UNSIGNED, (0, 0)),
        ("u8u8", "x86-avxvnni", Weights.UNSIGNED, (-128, 0)),
        ("u8u8-wz", "x86-avxvnni", Weights.CENTRED, (0, -128)),
        ("u8u8-wz", "x86-avx2", Weights.WIDE, (0, 0)),
    ],
)
def test_types_become_those_of_the_dot_product(
    types: str, profile: str, weights: Weights, offsets: tuple[int, int]
) -> None:
    types, _, zero_point = types.partition("-")
    suffix = f"-{zero_point}" if zero_point else ""
    found = form_of(f"dwconv2d-{types}-1x8x8x32-k3x3x1-s1-p1{suffix}-float.c-u8", profile)
    assert (found.weights, (found.data_offset, found.weight_offset)) == (weights, offsets)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        # Four input rows are one word: with three taps, two rows of outputs have it in common.
        ("k3x3x1-s1-p1", [(0, 0), (0, 1), (2, 0), (2, 1)]),
        ("k3x3x1-s2-p1", [(0, 0), (2, 0), (4, 0), (6, 0)]),
        ("k2x3x1-s1-p0", [(0, 0), (0, 1), (0, 2), (3, 0)]),
        ("k2x3x1-s2-p0", [(0, 0), (0, 2), (4, 0), (4, 2)]),
        ("k5x5x1-s1-p2", [(0, 0), (0, 1), (0, 2), (0, 3)]),
        # Words of every second row: the next row of outputs has none of them.
        ("k3x3x1-s1-p2-d2", [(0, 0), (1, 0), (2, 0), (3, 0)]),
        ("k3x3x1-s2-p2-d2", [(0, 0), (0, 1), (4, 0), (4, 1)]),
    ],
)
def test_output_rows_share_words(window: str, expected: list[tuple[int, int]]) -> None:
    form = form_of(f"dwconv2d-u8s8-1x16x16x32-{window}-float.c-u8", "x86-avx512vnni")
    assert form.row_words(4) == tuple(RowWords(*words) for words in expected)


@pytest.mark.parametrize("channels", [1, 15, 16, 17, 32, 63, 64, 100, 112, 130])
@pytest.mark.parametrize("profile", VECTOR_PROFILES)
def test_blocks_hold_each_channel(channels: int, profile: str) -> None:
    form = form_of(f"dwconv2d-u8s8-1x8x8x{channels}-k3x3x1-s1-p1-float.c-u8", profile)
    stored = [
        blocks.first + block * blocks.valid + channel
        for blocks in form.blocks
        for block in range(blocks.count)
        for channel in range(blocks.valid)
    ]
    assert sorted(set(stored)) == list(range(channels))
    assert len(stored) < channels + form.lanes
    assert set(form.channels.tolist()) == set(range(channels))


def test_weights_are_where_rows_take_them_from() -> None:
    """Every operand is the taps of one column at a row's place in its words, and zeros."""
    form = form_of("dwconv2d-u8s8-1x8x8x40-k3x2x1-s1-p1-float.c-u8", "x86-avx512vnni", tile_rows=2)
    weight = np.arange(1, 241, dtype=np.int16).reshape(40, 3, 2).astype(np.int8)
    packed = form.pack(weight, 0).reshape(-1, 16, 4)
    for blocks in form.blocks:
        for shift in (0, 1):
            for column in range(2):
                first = form.first_weight(blocks, 0) + form.weight_index(blocks, shift, 0, column)
                for register in range(blocks.registers):
                    at = blocks.position + register * 16
                    for lane, channel in enumerate(form.channels[at : at + 16]):
                        expected = np.zeros(4, np.int8)
                        expected[shift : shift + 3] = weight[channel, :, column]
                        assert (packed[first + register, lane] == expected).all()


@pytest.mark.parametrize(
    ("zero_point", "lowest", "highest", "packed"),
    [(128, 0, 255, 0), (100, 0, 227, 0), (200, 72, 255, 0), (100, 0, 228, -28), (200, 71, 255, 72), (0, 0, 255, -128)],
)
def test_weights_are_packed_without_their_zero_point_where_they_fit(
    zero_point: int, lowest: int, highest: int, packed: int
) -> None:
    form = form_of("dwconv2d-u8u8-1x8x8x32-k3x3x1-s1-p1-wz-float.c-u8", "x86-avx512vnni")
    weight = np.full((32, 3, 3), zero_point, np.uint8)
    weight[3, 1, 1], weight[7, 2, 0] = lowest, highest
    assert form.packed_zero_point(weight, zero_point) == packed


@pytest.mark.parametrize("profile", VECTOR_PROFILES)
def test_depthwise_layers_are_taken(profile: str) -> None:
    workload = parse_workload("dwconv2d-u8s8-1x8x8x32-k3x3x1-s1-p1-float.c-u8")
    assert template_for(workload, any_target(profile)).name == "x86.depthwise"


def test_windows_of_many_taps_get_small_tiles() -> None:
    """One instruction for each dot product of a tile would take minutes to compile."""
    workload = parse_workload("dwconv2d-u8s8-1x32x32x32-k9x9x1-s1-p4-float.c-u8")
    default = TEMPLATE.space(workload, any_target("x86-avx512vnni")).default
    assert (default["tile_rows"], default["tile_columns"]) == (1, 1)


@pytest.mark.parametrize(
    ("key", "border"),
    [
        ("dwconv2d-u8s8-1x28x28x96-k5x5x1-s1-p2-float.c-u8", "skip"),
        ("dwconv2d-u8s8-1x28x28x96-k9x9x1-s1-p4-float.c-u8", "copy"),
        ("dwconv2d-u8s8-1x11x12x16-k17x17x1-s1-p8-s32", "copy"),
    ],
)
def test_wide_borders_are_copied(key: str, border: str) -> None:
    """Each tile near a border that is skipped has code of its own."""
    assert TEMPLATE.space(parse_workload(key), any_target("x86-avx512vnni")).default["border"] == border


def form_of(key: str, profile: str, tile_rows: int = 4) -> DepthwiseForm:
    workload = parse_workload(key)
    assert isinstance(workload, DepthwiseConv2d)
    return DepthwiseForm(workload, REGISTERS[profile], tile_rows, 4, "image", "skip")


@pytest.mark.parametrize(
    ("layer", "profile", "tile"),
    one_in(
        2,
        [
            ("1x9x9x64-k3x3x1-s1-p1", "x86-avx512vnni", (2, 2)),
            ("1x9x9x64-k3x3x1-s2-p1", "x86-avx512vnni", (4, 1)),
            ("1x9x9x64-k5x5x1-s1-p2", "x86-avx512vnni", (4, 1)),
            ("1x9x9x64-k5x5x1-s2-p2", "x86-avx512vnni", (4, 1)),
            ("1x9x9x64-k7x7x1-s1-p3", "x86-avx512vnni", (3, 1)),
            ("1x9x9x64-k4x4x1-s1-p1", "x86-avx512vnni", (2, 2)),
            ("1x9x9x64-k7x1x1-s1-p3.0.3.0", "x86-avx512vnni", (2, 2)),
            ("1x9x9x64-k3x3x1-s1-p2-d2", "x86-avx512vnni", (2, 2)),
            ("1x9x9x64-k5x5x1-s2-p2", "x86-avx2", (2, 2)),
        ],
    ),
)
def test_usual_tiles_are_exact(layer: str, profile: str, tile: tuple[int, int]) -> None:
    """High ones of one column where words serve more rows so, as far as their code is short enough."""
    workload, target = parse_workload(f"dwconv2d-u8s8-{layer}-float.c-u8"), host_target(profile)
    space = template_for(workload, target).space(workload, target)
    assert (space.default["tile_rows"], space.default["tile_columns"]) == tile
    assert build(workload, target).wrong_cases() == []
