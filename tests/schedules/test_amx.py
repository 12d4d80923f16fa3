"""The AMX template: exact with emulated tiles on any CPU with AVX-512, and what its form promises."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from int8tune.schedules.image import image_of
from int8tune.schedules.intrinsics import x86_tiles
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Conv2d, Dense, Workload, parse_workload
from int8tune.schedules.x86.amx import AmxX86
from int8tune.schedules.x86.amx_form import LANES, AmxForm
from int8tune.schedules.x86.amx_space import amx_form
from tests.support.kernels.emulated_tiles import emulate_tiles
from tests.support.kernels.kernels import build, compile_kernel
from tests.support.kernels.layers import ODD, workloads
from tests.support.run.probes import any_target, host_target
from tests.support.run.thinned import one_in

TEMPLATE = AmxX86()
TARGET = any_target("x86-amx")
# Every sign, with and without border, rows joined, turned, widened and split in phases, steps that overlap in a run or
# that taps share, tiles that overlap.
LAYERS = (
    "conv2d-u8s8-1x7x7x40-k3x3x48-s1-p1-float.c-u8",
    "conv2d-s8s8-2x9x18x68-k1x1x40-s1-p0-fixed.c-s8",
    "conv2d-u8u8-1x9x20x24-k3x3x33-s2-p1-wz-float.c-clamp-u8",
    "conv2d-s8u8-1x8x8x72-k3x3x20-s1-p2-d2-wz-fixed.t-s8",
    "conv2d-u8s8-1x23x19x3-k7x7x24-s2-p3-float.c-u8",
    "conv2d-u8s8-2x11x13x68-k3x4x40-s3x2-p2.1.0.3-d1x3-float.c-addu8-u8",
    "conv2d-u8u8-2x9x17x64-k7x1x32-s1-p3.0.3.0-wz-float.c-u8",
    "conv2d-s8s8-1x8x5x30-k3x1x40-s1-p1.0.2.0-d2-fixed.c-s8",
    "conv2d-u8u8-3x5x7x20-k1x3x40-s1-p0.1.0.2-wz-float.c-addu8-u8",
    "conv2d-s8s8-1x17x9x70-k1x4x33-s1-p0.2.0.0-d1x2-fixed.c-s8",
    "conv2d-u8u8-2x5x7x83-k1x5x40-s1-p0.2.0.1-d1x2-float.c-addu8-u8",
    "conv2d-s8u8-2x4x11x19-k1x5x24-s1-p0.0.0.3-wz-fixed.t-clamp-adds8-s8",
    "conv2d-u8s8-1x17x9x160-k7x1x40-s1-p3.0.3.0-float.c-u8",
    "conv2d-s8s8-1x19x7x70-k4x1x33-s1-p2.0.0.0-d2x1-fixed.c-s8",
    "conv2d-u8u8-2x9x5x83-k5x1x40-s1-p2.0.1.0-d2x3-float.c-addu8.first-u8",
    "conv2d-s8u8-3x11x4x80-k6x1x24-s1-p0-fixed.t-clamp-adds8-s8",
    "dense-u8s8-37x100-o50-float.c-u8",
    "dense-u8s8-33x64-o48-s32",
    "dense-s8s8-19x30-o40-fixed.c-addu8-s8",
)


PLAIN = {"rows": "apart", "outer": "image", "fetch": "demand"}
Change = Callable[..., tuple[Any, ...] | None]
SIGNS = {"u8s8": "tdpbusd", "u8u8": "tdpbuud", "s8s8": "tdpbssd", "s8u8": "tdpbsud"}
few = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def sample(workload: Workload, seed: int) -> dict[str, Any]:
    return dict(TEMPLATE.space(workload, TARGET).sample(np.random.default_rng(seed)))


def one_of_each(workload: Workload) -> list[dict[str, Any]]:
    """The default, and a config for each way to treat rows."""
    space = TEMPLATE.space(workload, TARGET)
    configs = {config["rows"]: dict(config) for config in map(partial(sample, workload), range(20))}
    assert set(configs) == set(next(knob.choices for knob in space.knobs if knob.name == "rows"))
    return [dict(space.default), *configs.values()]


def form_of(key: str, **knobs: Any) -> AmxForm:
    workload = parse_workload(key)
    assert isinstance(workload, Conv2d | Dense)
    return amx_form(image_of(workload), {**TEMPLATE.space(workload, TARGET).default, **knobs}, 1)


class TestEmulated:
    """Kernels whose tiles are emulated: everything but the tile instructions is what runs on AMX."""

    @pytest.fixture(autouse=True)
    def _emulated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        emulate_tiles(monkeypatch)

    @pytest.mark.thorough
    @pytest.mark.parametrize("key", one_in(6, LAYERS))
    def test_layers_are_exact(self, key: str, vnni: Target) -> None:
        workload = parse_workload(key)
        for config in one_of_each(workload):
            assert compile_kernel(workload, vnni, TEMPLATE.apply(workload, TARGET, config)).wrong_cases() == [], config

    @pytest.mark.thorough
    @few
    @given(workload=st.sampled_from(["conv2d", "dense"]).flatmap(workloads), seed=st.integers(0, 2**16))
    def test_drawn_layers_and_configs_are_exact(self, vnni: Target, workload: Any, seed: int) -> None:
        if TEMPLATE.rejects(workload, TARGET) is None:
            kernel = TEMPLATE.apply(workload, TARGET, sample(workload, seed))
            assert compile_kernel(workload, vnni, kernel).wrong_cases() == []


class Faulty:
    """Emulated tiles with one fault: an instruction's `nth` call is changed, or left out where `change` gives None."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, nth: int, change: Change) -> None:
        self._right, self._nth, self._change = getattr(x86_tiles, name), nth, change
        self.calls = 0
        monkeypatch.setattr(x86_tiles, name, self)

    def __call__(self, *arguments: Any) -> None:
        self.calls += 1
        if self.calls != self._nth + 1:
            self._right(*arguments)
        elif (changed := self._change(*arguments)) is not None:
            self._right(*changed)


def other(register: int) -> int:
    return register + 1 if register % 2 == 0 else register - 1


FAULTS: dict[str, tuple[str, Change]] = {
    "no product": ("multiply_add", lambda *_: None),
    "other sums": ("multiply_add", lambda total, data, weight, types: (other(total), data, weight, types)),
    "other sign of data": (
        "multiply_add",
        lambda total, data, weight, types: (total, data, weight, ("s8" if types[0] == "u8" else "u8", types[1])),
    ),
    "other sign of weights": (
        "multiply_add",
        lambda total, data, weight, types: (total, data, weight, (types[0], "s8" if types[1] == "u8" else "u8")),
    ),
    "no load": ("load", lambda *_: None),
    "load one value off": ("load", lambda register, buffer, at, stride: (register, buffer, at + 1, stride)),
    "load with another stride": ("load", lambda register, buffer, at, stride: (register, buffer, at, stride + 4)),
    "no store": ("store", lambda *_: None),
    "store one value off": ("store", lambda register, buffer, at, stride: (register, buffer, at + 1, stride)),
    "store of other sums": ("store", lambda register, buffer, at, stride: (other(register), buffer, at, stride)),
}


# Every second one has each fault once, and each store.
EACH_STORE = [
    (fault, store)
    for index, fault in enumerate(FAULTS)
    for store in (("after", "beside") if index % 2 else ("beside", "after"))
]


class TestFaults:
    """Each instruction of a kernel, changed in each way: the adversarial suite must find all of them."""

    WORKLOAD = parse_workload("conv2d-u8s8-1x3x18x68-k2x1x32-s1-p0-float.c-u8")

    def caught(self, fault: str, store: str, nth: int, target: Target) -> bool | None:
        """Whether a kernel with the fault in its `nth` call is found wrong; None where it has no such call."""
        config = {"tile_columns": 18, "tile_rows": 1, "tile_registers": 2, **PLAIN, "store": store}
        with pytest.MonkeyPatch.context() as patches:
            if target.profile != TARGET.profile:
                emulate_tiles(patches)
            faulty = Faulty(patches, FAULTS[fault][0], nth, FAULTS[fault][1])
            kernel = TEMPLATE.apply(self.WORKLOAD, TARGET, config)
        if faulty.calls <= nth:
            return None
        built = compile_kernel(self.WORKLOAD, target, kernel)
        return not all(built.is_exact(operands) for _, operands in adversarial_operands(self.WORKLOAD, 0))

    @pytest.mark.parametrize(("fault", "store"), one_in(6, EACH_STORE))
    def test_every_wrong_instruction_is_caught(self, fault: str, store: str) -> None:
        self.check(fault, store, host_target(TARGET.profile))

    @pytest.mark.slow
    @pytest.mark.timeout(1200)
    @pytest.mark.parametrize("store", ["after", "beside"])
    @pytest.mark.parametrize("fault", FAULTS)
    def test_every_wrong_instruction_is_caught_in_emulated_tiles(self, fault: str, store: str, vnni: Target) -> None:
        self.check(fault, store, vnni)

    def check(self, fault: str, store: str, target: Target) -> None:
        verdicts = (self.caught(fault, store, nth, target) for nth in itertools.count())
        found = list(itertools.takewhile(lambda caught: caught is not None, verdicts))
        assert len(found) >= 4
        assert all(found), [nth for nth, caught in enumerate(found) if not caught]


@pytest.mark.parametrize("key", one_in(6, LAYERS))
def test_layers_are_exact_on_tiles(key: str) -> None:
    workload, target = parse_workload(key), host_target("x86-amx")
    for config in (*one_of_each(workload), sample(workload, 0)):
        assert build(workload, target, config, TEMPLATE).wrong_cases() == [], config


@pytest.mark.parametrize(("key", "threads"), one_in(5, [(key, 2 + index % 3) for index, key in enumerate(LAYERS[::3])]))
def test_threads_copy_all_that_they_read(key: str, threads: int) -> None:
    """Each its own rows, or all where it takes all rows for some channels."""
    workload, target = parse_workload(key), replace(host_target("x86-amx"), threads=threads)
    for config, outer in itertools.product(one_of_each(workload), ("image", "weights")):
        shared = {**config, "outer": outer, "threads": threads}
        assert build(workload, target, shared, TEMPLATE).wrong_cases() == [], shared


@pytest.mark.parametrize("shape", ["64-k3x3x64-s1-p1", "64-k1x7x64-s1-p0.3.0.3", "80-k7x1x64-s1-p3.0.3.0"])
def test_threads_that_copy_wait_for_each_other_once(shape: str) -> None:
    workload, target = parse_workload(f"conv2d-u8s8-1x14x14x{shape}-float.c-u8"), replace(TARGET, threads=2)
    for config in one_of_each(workload):
        kernel = TEMPLATE.apply(workload, target, {**config, "threads": 2})
        assert kernel.function.script().count("T.parallel(") == 1


@pytest.mark.parametrize("key", [*LAYERS, *ODD])
def test_no_config_takes_more_than_eight_registers(key: str) -> None:
    workload = parse_workload(key)
    if TEMPLATE.rejects(workload, TARGET) is not None:
        return
    assert isinstance(workload, Conv2d | Dense)
    for config in TEMPLATE.space(workload, TARGET):
        form = amx_form(image_of(workload), config, 1)
        assert form.used_registers <= 8
        assert 0 < form.columns_of_register <= 16
        pixels = {(row, column + c) for row, column in form.data_tiles for c in range(form.columns_of_register)}
        assert pixels == {(r, c) for r in range(form.tile_rows) for c in range(form.tile_columns)}


def test_joined_rows_fill_registers() -> None:
    """Eight rows of eight outputs, with two columns of the border between two rows: 78 columns, in five registers."""
    key = "conv2d-u8s8-1x8x8x64-k3x3x64-s1-p1-float.c-u8"
    apart = form_of(key, tile_columns=8, tile_rows=4, tile_registers=1, rows="apart")
    joined = form_of(key, tile_columns=78, tile_rows=1, tile_registers=1, rows="joined")
    assert (len(apart.data_tiles), apart.columns_of_register) == (4, 8)
    assert (len(joined.data_tiles), joined.columns_of_register) == (5, 16)
    assert [joined.outputs_before(column) for column in (0, 7, 8, 9, 10, 11, 78)] == [0, 7, 8, 8, 8, 9, 64]


def test_a_split_image_has_a_stride_of_one() -> None:
    """Outputs of a row are then neighbours, and the columns of a run are those of one phase."""
    form = form_of("conv2d-u8s8-1x14x14x64-k3x3x64-s2-p1-float.c-u8", tile_columns=55, rows="joined")
    assert (form.phases, form.image_rows, form.image_columns, form.output) == ((2, 2), 8, 8, (1, 6 * 8 + 7))
    assert (form.runs, form.run_length) == (3, 64)


def test_each_block_of_joined_rows_stores_outputs() -> None:
    """A block between two rows would have none."""
    workload = parse_workload("conv2d-u8s8-1x4x2x64-k1x31x64-s1-p0.30.0.30-float.c-u8")
    assert isinstance(workload, Conv2d)
    for config in TEMPLATE.space(workload, TARGET):
        form = amx_form(image_of(workload), config, 1)
        assert 0 < form.stored_pixels <= form.fewest_outputs


def test_a_kernel_of_one_column_sees_one_long_row() -> None:
    """Rows of 17 outputs would fill 9 and 8 of 16 rows of two registers."""
    form = form_of("conv2d-u8s8-1x17x17x128-k7x1x128-s1-p3.0.3.0-float.c-u8")
    assert form.image.output == (1, 17 * 17)
    assert form.columns_of_register >= 15
    beside = form_of("conv2d-u8s8-1x17x17x128-k1x7x128-s1-p0.3.0.3-float.c-u8", rows="apart")
    assert beside.image.output == (17, 17)


def test_turned_rows_of_a_kernel_of_one_row_are_one_long_row() -> None:
    """Each row of it is a column of the layer's image; between joined rows, six of 23 columns would be dropped."""
    form = form_of("conv2d-u8s8-2x17x19x128-k1x7x128-s1-p0.3.0.3-float.c-u8", tile_columns=30, rows="turned")
    assert form.image.output == (1, 17 * 19)
    assert (form.runs, form.image.window.dilation) == (7, (1, 17))
    assert (form.copied_rows, form.rows_below) == ((3 + 19 + 3, 17), 6)
    assert form.row_bytes == 25 * 17 * 128


def test_widened_rows_are_copied_row_by_row() -> None:
    """The rows are the layer's, so that a thread copies those that it reads; the layer's dilation counts rows, too."""
    form = form_of("conv2d-u8s8-2x17x19x160-k7x1x128-s1-p5.0.6.0-d2x1-float.c-u8", tile_columns=30, rows="widened")
    assert form.image.output == (1, 16 * 19)
    assert (form.runs, form.image.window.dilation) == (7, (1, 2 * 19))
    assert (form.copied_rows, form.rows_below) == ((5 + 17 + 6, 19), 12)
    assert form.row_bytes == 28 * 19 * (160 + 32)


def test_few_channels_of_a_large_image_stay_as_they_are() -> None:
    """Widening their pixels takes longer than the products that it spares."""
    for shape, rows in (("56x56x96-k2x1x16-s1-p0", "apart"), ("17x17x160-k7x1x160-s1-p3.0.3.0", "widened")):
        workload = parse_workload(f"conv2d-u8s8-1x{shape}-float.c-u8")
        for threads in (1, 2):
            assert TEMPLATE.space(workload, replace(TARGET, threads=threads)).default["rows"] == rows


@pytest.mark.parametrize(
    ("shape", "choices"),
    [
        ("1x17x17x128-k1x7x128-s1-p0.3.0.3", ("apart", "joined", "turned")),
        ("1x17x17x128-k1x7x128-s1-p0", ("apart", "joined", "turned")),
        ("1x8x9x19-k1x2x32-s1-p0.1.0.0", ("apart", "turned")),
        ("1x17x17x128-k1x7x128-s1x2-p0.3.0.3", ("apart", "joined")),
        ("1x17x17x128-k1x7x128-s1-p1.3.0.3", ("apart", "joined")),
        ("1x17x17x128-k3x3x128-s1-p1", ("apart", "joined")),
        ("1x3x17x128-k1x7x128-s1-p0.3.0.3", ("apart", "joined")),
        ("1x17x1x128-k1x3x128-s1-p0.1.0.1", ("apart", "joined")),
        ("1x17x17x128-k7x1x128-s1-p3.0.3.0", ("apart",)),
        ("1x1x17x128-k1x7x128-s1-p0.3.0.3", ("apart",)),
        ("1x17x17x160-k7x1x128-s1-p3.0.3.0", ("apart", "widened")),
        ("1x17x17x160-k2x1x128-s1-p0", ("apart", "widened")),
        ("1x17x17x160-k7x1x128-s1-p3.0.3.0-wz", ("apart",)),
        ("1x17x17x160-k7x1x128-s2x1-p3.0.3.0", ("apart", "joined")),
        ("1x17x17x104-k7x1x128-s1-p3.0.3.0", ("apart",)),
        ("1x17x17x32-k7x1x128-s1-p3.0.3.0", ("apart",)),
        ("1x17x17x160-k1x1x128-s1-p1.0.0.0", ("apart",)),
        ("1x17x1x160-k7x1x128-s1-p3.0.3.0", ("apart",)),
        ("1x1x17x160-k1x7x128-s1-p0.3.0.3-d1x2", ("apart",)),
    ],
)
def test_rows_are_turned_to_be_one_and_widened_to_share_steps(shape: str, choices: tuple[str, ...]) -> None:
    space = TEMPLATE.space(parse_workload(f"conv2d-u8s8-{shape}-float.c-u8"), TARGET)
    assert next(knob.choices for knob in space.knobs if knob.name == "rows") == choices


def test_each_weight_is_packed_once() -> None:
    """Steps of a run of 100 values begin at 0 and 36; what they share is multiplied in the first."""
    form = form_of("dense-u8s8-16x100-o16-float.c-u8", tile_columns=16, tile_registers=1)
    assert [int(form.step_start(step)) for step in range(form.run_steps)] == [0, 36]
    packed = form.pack(np.ones((16, 100), np.int8), 0).reshape(form.weight_shape)
    assert packed.sum() == 16 * 100
    assert packed[0, 1, 0].sum(axis=(1, 2)).tolist() == [0] * 7 + [4 * LANES] * 9


@pytest.mark.parametrize(("window", "rows"), [("k1x7x16-s1-p0.3.0.3", "turned"), ("k7x1x16-s1-p3.0.3.0", "widened")])
def test_taps_of_turned_and_widened_rows_share_steps(window: str, rows: str) -> None:
    """Two steps take 128 of the 160 values of each of seven taps; two taps share a third step for the 32 left over."""
    form = form_of(f"conv2d-u8s8-1x17x17x160-{window}-float.c-u8", tile_registers=1, rows=rows)
    assert (form.shared_taps, form.pixel_bytes, form.own_steps, form.steps) == (2, 192, 14, 18)
    weight = np.arange(1, 1 + 7, dtype=np.int8)[None, :, None] * np.ones((16, 1, 160), np.int8)
    packed = form.pack(weight, 0).reshape(form.steps, -1, LANES, 4)
    assert packed[:, ::8, 0, 0].tolist() == [[tap, tap] for tap in (1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7)] + [
        [1, 2],
        [3, 4],
        [5, 6],
        [7, 0],
    ]
    assert packed.sum() == weight.sum()


@pytest.mark.parametrize(
    ("channels", "taps", "shared"),
    [(128, 7, 1), (104, 7, 1), (96, 7, 2), (80, 3, 3), (80, 7, 4), (65, 7, 4), (32, 7, 1)],
)
def test_how_many_taps_share_a_step(channels: int, taps: int, shared: int) -> None:
    key = f"conv2d-u8s8-1x8x9x{channels}-k1x{taps}x16-s1-p0-float.c-u8"
    assert form_of(key, rows="turned").shared_taps == shared
    assert form_of(key.replace("-float", "-wz-float"), rows="turned").shared_taps == 1


@pytest.mark.parametrize("signs", SIGNS)
def test_data_keep_their_signs(signs: str) -> None:
    """s8 data and u8 weights take no shift and no correction: the instruction has all four combinations."""
    workload = parse_workload(f"dense-{signs}-16x64-o16-float.c-u8")
    kernel = TEMPLATE.apply(workload, TARGET, TEMPLATE.space(workload, TARGET).default)
    assert (kernel.layout.data_offset, kernel.layout.packed_zero_point(np.zeros(1, np.int8), 0)) == (0, 0)
    assembly = compile_kernel(workload, TARGET, kernel).assembly
    assert set(re.findall(r"tdpb\w+", assembly)) == {SIGNS[signs]}


def test_parts_of_the_last_block_are_stored_between_products() -> None:
    """And each sum leaves its register just before the next product that needs the register."""
    workload = parse_workload("conv2d-u8s8-1x16x16x256-k1x1x64-s1-p0-float.c-u8")
    config = {"tile_columns": 32, "tile_rows": 1, "tile_registers": 2, **PLAIN}
    order = {}
    for store in ("after", "beside"):
        kernel = TEMPLATE.apply(workload, TARGET, {**config, "store": store})
        assembly = compile_kernel(workload, TARGET, kernel).assembly
        found = re.findall(r"tdpbusd|tilestored|vpackuswb", assembly)
        order[store] = [name for name, _ in itertools.groupby(found)]
    assert order["after"][:3] == ["tdpbusd", "tilestored", "vpackuswb"]
    assert order["beside"][:9] == ["tilestored", "tdpbusd"] * 4 + ["vpackuswb"]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("conv2d-u8s8-1x6x6x64-k3x3x64-s1-p1-g2-float.c-u8", "takes one group of channels, this layer has 2"),
        ("dense-u8s8-1x64-o64-float.c-u8", "takes layers whose weights are used more than once"),
        ("conv2d-u8s8-1x6x6x64-k3x3x4-s1-p1-float.c-u8", "takes at least 8 output channels, this layer has 4"),
        ("dwconv2d-u8s8-1x6x6x64-k3x3x1-s1-p1-float.c-u8", "takes conv2d and dense, not dwconv2d"),
    ],
)
def test_what_it_does_not_take(key: str, reason: str) -> None:
    rejection = TEMPLATE.rejects(parse_workload(key), TARGET)
    assert rejection is not None
    assert rejection.reason.startswith(reason)
