"""Kernels that are wrong on purpose: the adversarial suite must catch all that compute something else.

Kinds of faults are in `mutation_faults`. Layers are such that no tile's outputs are stored again by code of another
tile, and that every value of a copy's border is read: a fault there would change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm.ir import Call
from tvm.script import tirx as T
from tvm.tirx import BufferStore, For, While

from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Value
from int8tune.schedules.target import PROFILES
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import parse_workload
from tests.support.kernels.kernels import compile_kernel
from tests.support.mutation.faults import KINDS
from tests.support.mutation.kernels import (
    Expressions,
    Fault,
    Statements,
    Subject,
    difference,
    drawn_edit,
    has_place,
    mutate,
    subject_of,
    verdict,
)
from tests.support.mutation.proofs import why_equivalent
from tests.support.run.probes import cpu_features, host_target
from tests.support.run.thinned import one_in

# Forks while a library has threads of its own, which the child does not use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
    pytest.mark.promise(10),
]


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer whose kernels are mutated.

    Attributes:
        knobs: those whose values are not the default ones.
        without: kinds or faults that often change nothing there.
    """

    profile: str
    key: str
    knobs: Mapping[str, Value] = field(default_factory=dict, hash=False)
    without: tuple[str, ...] = ()

    def allowed(self, kind: str, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
        return tuple(fault for fault in faults if kind not in self.without and fault.name not in self.without)


def tile(columns: int, registers: int, **knobs: Value) -> dict[str, Value]:
    usual = {"unroll": 1, "store": "after", "fetch": "demand"}
    return {"tile_columns": columns, "tile_registers": registers, **usual, **knobs}


AVX512, AVXVNNI, AVX2, GENERIC = "x86-avx512vnni", "x86-avxvnni", "x86-avx2", "generic"
LAYERS = (
    Layer(AVX512, "conv2d-u8s8-2x5x6x8-k3x3x24-s1-p1-float.t-clamp-u8", tile(2, 2, border="skip")),
    Layer(AVX512, "conv2d-u8u8-1x5x14x4-k3x3x40-s1-p1-wz-fixed.c-clamp-u8", tile(4, 1, border="copy")),
    Layer(AVX512, "conv2d-s8s8-1x5x6x8-k3x3x32-s1-p1-float.c-s8", tile(2, 1, fetch="next")),
    Layer(AVX512, "conv2d-u8s8-1x5x19x3-k3x3x32-s2-p1-float.c-u8", tile(4, 2, border="gather")),
    Layer(AVX512, "conv2d-u8s8-1x4x5x13-k1x1x64-s1-p0-fixed.t-s8", tile(3, 4, store="beside")),
    Layer(
        AVX512,
        "conv2d-u8s8-1x5x6x256-k3x3x128-s1-p1-g2-float.c-u8",
        tile(2, 2, border="skip", outer="image", store="beside"),
    ),
    Layer(AVX512, "conv2d-u8s8-1x5x6x16-k3x3x32-s1-p1-g4-float.c-u8", {"tile_columns": 2}),
    Layer(AVX512, "dense-u8s8-8x30-o48-float.c-clamp-u8", tile(4, 3)),
    Layer(AVX512, "dense-s8u8-6x24-o40-wz-s32", tile(2, 2)),
    Layer(AVX512, "conv2d-u8s8-1x5x6x8-k1x1x64-s1-p0-float.c-addu8-u8", tile(2, 4, store="beside")),
    Layer(AVX512, "conv2d-u8s8-1x5x6x8-k1x1x32-s1-p0-fixed.c-clamp-adds8-clamp-s8", tile(2, 2)),
    # A column of the border has the same value in all bytes of a word: weights may be shifted there.
    Layer(
        AVX512,
        "dwconv2d-u8s8-1x7x6x32-k3x3x1-s1-p1-float.c-clamp-u8",
        {"tile_rows": 2, "tile_columns": 2, "border": "skip"},
        without=("shifted_load",),
    ),
    Layer(AVX512, "dwconv2d-s8s8-1x8x8x40-k3x3x1-s1-p0-fixed.c-s8", {"tile_rows": 2, "tile_columns": 4}),
    Layer(
        AVX512,
        "dwconv2d-u8u8-1x7x5x64-k3x3x1-s2-p1-wz-float.c-u8",
        {"tile_rows": 1, "tile_columns": 2, "border": "copy"},
        without=("shifted_load",),
    ),
    Layer(AVX512, "conv2d-s8s8-1x5x6x8-k3x3x32-s1-p1-fused.cx-clamp-s8", tile(2, 2)),
    Layer(AVX512, "conv2d-u8s8-1x5x6x8-k1x1x64-s1-p0-fused.c-addu8-u8", tile(2, 4, store="beside")),
    Layer(AVX512, "conv2d-s8s8-1x5x6x8-k1x1x64-s1-p0-fine.c-s8", tile(2, 2)),
    Layer(AVX512, "dwconv2d-u8s8-1x8x6x64-k3x3x1-s1-p0-fused.cx-u8", {"tile_rows": 2, "tile_columns": 4}),
    Layer(AVX2, "conv2d-u8s8-1x5x14x4-k3x3x40-s1-p1-wz-float.c-clamp-u8", tile(4, 1, border="copy")),
    Layer(AVX2, "conv2d-s8s8-1x5x6x8-k1x1x32-s1-p0-fused.cx-s8", tile(1, 4)),
    Layer(AVX2, "conv2d-s8s8-1x5x6x8-k3x3x32-s1-p1-fixed.c-s8", tile(1, 4)),
    Layer(AVX2, "dwconv2d-u8u8-1x6x6x24-k3x3x1-s1-p0-wz-float.c-clamp-u8", {"tile_rows": 2, "tile_columns": 2}),
    Layer(AVXVNNI, "dwconv2d-s8s8-1x9x7x16-k7x2x1-s1-p0-fixed.t-s8", {"tile_rows": 1, "tile_columns": 2}),
    Layer(AVXVNNI, "conv2d-u8s8-1x5x19x3-k3x3x16-s2-p1-float.c-u8", tile(2, 2, border="gather")),
    Layer(AVXVNNI, "dense-u8s8-8x30-o24-fixed.c-clamp-u8", tile(4, 1)),
    Layer(AVXVNNI, "dense-u8s8-8x30-o24-fused.cx-adds8-u8", tile(4, 1)),
    Layer(GENERIC, "conv2d-u8u8-1x6x14x4-k3x3x40-s1-p1-wz-float.c-clamp-u8"),
    Layer(GENERIC, "conv2d-s8s8-1x6x14x4-k3x3x40-s1-p1-fixed.c-s8", {"tile_columns": 4, "tile_blocks": 1}),
    Layer(GENERIC, "conv2d-u8s8-1x5x6x16-k3x3x64-s1-p1-g2-float.t-u8", {"tile_columns": 3, "outer": "image"}),
    Layer(GENERIC, "dense-u8s8-7x33-o48-s32"),
    Layer(GENERIC, "conv2d-u8s8-1x6x14x4-k3x3x40-s1-p1-fused.cx-u8", {"tile_columns": 4, "tile_blocks": 1}),
    Layer(GENERIC, "conv2d-s8s8-1x6x14x4-k1x1x40-s1-p0-fine.c-adds8-s8", {"tile_columns": 4, "tile_blocks": 1}),
    Layer(GENERIC, "dwconv2d-u8u8-1x9x6x40-k5x3x1-s1-p1-wz-fixed.c-u8"),
    Layer(GENERIC, "dwconv2d-s8s8-1x9x7x32-k3x3x2-s2-p1-float.c-clamp-s8"),
)


def can_run(layer: Layer) -> bool:
    needs = next(profile.needs for profile in PROFILES if profile.name == layer.profile)
    return needs <= cpu_features()


@cache
def subject(layer: Layer) -> Subject:
    """The kernel of a layer; generic ones have 16 lanes on any machine."""
    workload, target = parse_workload(layer.key), host_target(layer.profile)
    if layer.profile == GENERIC:
        target = replace(target, vector_lanes=16, vector_registers=32)
    template = template_for(workload, target)
    config = {**template.space(workload, target).default, **layer.knobs}
    return subject_of(workload, target, template.apply(workload, target, config))


@dataclass(frozen=True, slots=True)
class Mutant:
    layer: Layer
    kind: str
    seed: int
    edit: Callable[[], Kernel]

    @property
    def kernel(self) -> Kernel:
        return self.edit()

    def __str__(self) -> str:
        name = f"{self.kind} in {self.layer.profile} {self.layer.key}, seed {self.seed}"
        return f"{name}\n{difference(subject(self.layer), self.kernel)}"


def drawn(count: int, kinds: Mapping[str, tuple[Fault, ...]], first_seed: int = 0) -> Iterator[Mutant]:
    """Mutants of all layers that this machine can run and all kinds that have a place there, in turn."""
    possible = [
        (layer, kind, allowed)
        for layer in filter(can_run, LAYERS)
        for kind, faults in kinds.items()
        if has_place(subject(layer), allowed := layer.allowed(kind, faults))
    ]
    order = np.random.default_rng(first_seed).permutation(len(possible))
    for seed in range(first_seed, first_seed + count):
        layer, kind, faults = possible[order[seed % len(possible)]]
        edit = drawn_edit(subject(layer), faults, seed)
        assert edit is not None
        yield Mutant(layer, kind, seed, edit)


def survivors(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Those that the adversarial suite does not find wrong; a crash or a hang is found, too."""
    return [mutant for mutant in mutants if verdict(subject(mutant.layer), mutant.kernel) == "right"]


def escaped(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Survivors that are not proven to compute what the kernel computes."""
    found = []
    for mutant in survivors(mutants):
        if why := why_equivalent(subject(mutant.layer), mutant.kind, mutant.edit):
            print(f"{mutant}\nis no other kernel: {why}")
        else:
            found.append(mutant)
    return found


@pytest.mark.parametrize("layer", one_in(4, LAYERS), ids=lambda layer: f"{layer.profile}-{layer.key}")
def test_kernels_that_are_not_mutated_pass(layer: Layer) -> None:
    host_target(layer.profile)
    unchanged = subject(layer)
    assert compile_kernel(unchanged.workload, unchanged.target, unchanged.kernel).wrong_cases() == []


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_all_mutants_are_caught_that_compute_something_else() -> None:
    alive = escaped(drawn(16, KINDS))
    assert not alive, "\n\n".join(map(str, alive))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hundred", range(11))
def test_all_of_eleven_hundred_mutants_are_caught_that_compute_something_else(hundred: int) -> None:
    alive = escaped(drawn(100, KINDS, first_seed=100 * hundred))
    assert not alive, "\n\n".join(map(str, alive))


@pytest.mark.parametrize("fault", [fault for faults in KINDS.values() for fault in faults], ids=lambda f: f.name)
def test_each_fault_has_a_place_in_some_layer(fault: Fault) -> None:
    layers = [layer for layer in LAYERS if can_run(layer)]
    if len(layers) < len(LAYERS):
        pytest.skip("needs a CPU that runs all profiles")
    assert any(has_place(subject(layer), (fault,)) for layer in layers)


# The harness can fail.


def of_calls(node: Any, _: Subject) -> Iterator[Any]:
    yield node


@pytest.mark.thorough
def test_a_change_without_effect_survives() -> None:
    mutants = list(drawn(3, {"none": (Expressions((Call,), of_calls),)}))
    assert survivors(mutants) == mutants
    assert escaped(mutants) == mutants


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "fault"), [("saturating product", "saturating_dot"), ("wrong tail", "shifted_load")], ids=str
)
def test_a_mutant_that_is_caught_is_proven_nothing(kind: str, fault: str) -> None:
    """The proofs tell apart what the suite tells apart."""
    kinds = {kind: tuple(each for each in KINDS[kind] if each.name == fault)}
    for mutant in drawn(8, kinds):
        whole = subject(mutant.layer)
        is_right = verdict(whole, mutant.kernel) == "right"
        assert bool(why_equivalent(whole, kind, mutant.edit)) == is_right, str(mutant)


def changed(edit: Any) -> tuple[Subject, Kernel]:
    unchanged = subject(LAYERS[-1])
    kernel = mutate(unchanged, (edit,), 0)
    assert kernel is not None
    return unchanged, kernel


def far_away(node: BufferStore, _: Subject) -> Iterator[Any]:
    if node.buffer.name == "out":
        yield BufferStore(node.buffer, node.value, [T.int32(1 << 20), *node.indices[1:]])


def for_ever(node: For, _: Subject) -> Iterator[Any]:
    if isinstance(node.body, BufferStore):
        yield While(T.bool(True), node)


def undefined(node: BufferStore, _: Subject) -> Iterator[Any]:
    yield BufferStore(node.buffer, node.value, [T.Var("nowhere", "int32"), *node.indices[1:]])


def test_a_mutant_that_crashes_is_caught_and_ends_nothing_else() -> None:
    assert verdict(*changed(Statements((BufferStore,), far_away))) == "crashed"


@pytest.mark.thorough
def test_a_mutant_that_hangs_is_caught() -> None:
    assert verdict(*changed(Statements((For,), for_ever)), limit_s=3) == "hung"


def test_a_mutant_that_is_no_kernel_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="can't be compiled"):
        verdict(*changed(Statements((BufferStore,), undefined)))


def test_a_kernel_without_a_place_for_a_fault_has_no_mutant() -> None:
    assert mutate(subject(LAYERS[-1]), KINDS["wrong tail"][:0], 0) is None


def test_a_seed_gives_the_same_mutant() -> None:
    one, other, third = (mutate(subject(LAYERS[-1]), KINDS["wrong tail"], seed) for seed in (0, 0, 1))
    assert one is not None
    assert other is not None
    assert third is not None
    assert tvm_ffi.structural_equal(one.function, other.function)
    assert not tvm_ffi.structural_equal(one.function, third.function)
