"""What is claimed of two sides, where the truth is known."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from int8tune.results.base import Store
from int8tune.results.comparison.again import compare_again
from int8tune.results.comparison.compare import Change, Comparison, compare_sides
from int8tune.results.comparison.of_store import side_of_store
from int8tune.results.comparison.regression import read_condition, regressions
from int8tune.results.comparison.sessions import student_quantile
from int8tune.results.comparison.side import Side
from int8tune.results.errors import ComparisonError, DifferentConditionsError
from int8tune.results.memory import MemoryStore
from int8tune.results.record import ESTIMATED_BY, CacheMode
from int8tune.results.report.comparison import (
    comparison_as_dict,
    comparison_rows,
    render_comparison,
    render_comparison_markdown,
)
from tests.support.program.results_samples import MODEL, campaign, candidate, estimated, failed, ok
from tests.support.program.two_campaigns import LAYERS, Machine, side_store

FIRST = LAYERS[0]


def side(store: Store, name: str = "a") -> Side:
    return side_of_store(store, name, None)


def compared(a: MemoryStore, b: MemoryStore, *, across_devices: bool = False) -> Comparison:
    return compare_sides(side(a), side(b, "b"), across_devices=across_devices)


def changes(comparison: Comparison) -> dict[str, Change]:
    return {layer.key: layer.change for layer in comparison.layers if layer.change is not Change.UNCHANGED}


@pytest.mark.parametrize("has_duels", [True, False])
@pytest.mark.parametrize("made_anew", ["best", "default", "all"])
def test_a_machine_that_is_slower_that_day_changes_nothing(made_anew: str, has_duels: bool) -> None:
    """At most one of 6 comparisons of 12 layers, in which nothing changed, claims anything: 5 % of them may."""
    wrong = 0
    for seed in range(6):
        a = side_store(Machine(), 2 * seed, has_duels=has_duels, layers=LAYERS[:12])
        b = side_store(Machine(speed=1.12), 2 * seed + 1, made_anew=made_anew, has_duels=has_duels, layers=LAYERS[:12])
        comparison = compared(a, b)
        wrong += bool(changes(comparison)) or comparison.network.change is not Change.UNCHANGED
    assert wrong <= 1


def test_the_layer_that_changed_is_found_beside_its_default() -> None:
    a = side_store(Machine(), 0)
    b = side_store(Machine(speed=1.12), 1, {FIRST: 0.92, LAYERS[1]: 1.15}, made_anew="best")
    comparison = compared(a, b)
    assert changes(comparison) == {FIRST: Change.SLOWER, LAYERS[1]: Change.FASTER}
    ratio = comparison.layers[0].ratio
    assert ratio is not None
    assert ratio.low < 0.92 < ratio.high < 1
    assert "in B that one was 1" in comparison.notes[0]
    assert "timed in turn" in comparison.notes[0]


def test_without_a_kernel_beside_it_only_large_changes_are_claimed() -> None:
    a = side_store(Machine(), 0)
    b = side_store(Machine(speed=1.12), 1, {FIRST: 0.7, LAYERS[1]: 0.95}, made_anew="all")
    comparison = compared(a, b)
    assert changes(comparison) == {FIRST: Change.SLOWER}
    assert "by the probe beside the trials" in comparison.notes[0]
    assert "slower: taken off" in comparison.notes[0]


def test_kernels_that_both_timed_say_what_the_machine_did() -> None:
    a = side_store(Machine(), 0)
    b = side_store(Machine(speed=1.12), 1, {FIRST: 0.8}, made_anew="default")
    comparison = compared(a, b)
    assert comparison.notes[0].startswith("by 60 kernels that both timed, B's machine was 1")
    network = comparison.network
    assert network.b / network.a == pytest.approx(1.12, rel=0.03)
    assert network.ratio.low < 1 / (1 + 0.25 / 30) < network.ratio.high


def test_the_same_binary_is_not_slower_whatever_was_measured() -> None:
    a, b = (side_store(Machine(drift=0, placement=0), seed) for seed in (0, 1))
    first, second = side(a), side(b, "b")
    slower = {key: replace(layer, time=2 * layer.time, references={}) for key, layer in second.layers.items()}
    comparison = compare_sides(first, replace(second, layers=slower))
    assert changes(comparison) == {}
    assert {layer.why for layer in comparison.layers} == {"the same binary"}


def test_where_nothing_is_known_of_sessions_it_is_assumed() -> None:
    def bare(time_s: float) -> Side:
        known = side(side_store(Machine(drift=0), 0, layers=LAYERS[:1]))
        layer = replace(known.layers[FIRST], time=time_s, times_s=(), references={}, kernel="")
        return replace(known, source=str(time_s), layers={FIRST: layer}, controls={}, probe_s=(), gains={})

    assert compare_sides(bare(1e-3), bare(1.1e-3)).layers[0].change is Change.UNCHANGED
    comparison = compare_sides(bare(1e-3), bare(1.3e-3))
    assert comparison.layers[0].change is Change.SLOWER
    assert comparison.notes == (
        "nothing says how far the two sessions are apart: 7 % are assumed for all layers, and for each",
    )


def test_layers_of_one_side_are_missing_on_the_other() -> None:
    a = side_store(Machine(), 0, layers=LAYERS[:3])
    b = side_store(Machine(), 1, layers=LAYERS[1:4])
    comparison = compared(a, b)
    assert changes(comparison) == {LAYERS[0]: Change.ONLY_A, LAYERS[3]: Change.ONLY_B}
    assert (comparison.network.runs, comparison.network.all_runs) == (4, 8)
    assert regressions(comparison, read_condition("missing")) == ["conv2d 3x3 14x14x16->64: missing in B"]


def test_a_layer_that_failed_says_why() -> None:
    a, b = MemoryStore(), MemoryStore()
    other = "dense-u8s8-1x64-o10-s32"
    for store in (a, b):
        store.append([campaign(layers={FIRST: 1, other: 1}), ok(0, chosen=candidate(0, FIRST))])
    a.append([ok(1, chosen=candidate(0, other))])
    b.append([failed(1, chosen=candidate(0, other))])
    (layer,) = [layer for layer in compared(a, b).layers if layer.key == other]
    assert (layer.change, layer.why) == (Change.ONLY_A, "no candidate was verified")


@pytest.mark.parametrize(
    ("field", "value"),
    [("device", "other"), ("cpu", "AMD EPYC"), ("target", "x86-amx"), ("threads", "2"), ("cache", CacheMode.COLD)],
)
def test_other_conditions_are_refused_with_both_values(field: str, value: str) -> None:
    a, b = (side(side_store(Machine(), seed, layers=LAYERS[:2]), name) for seed, name in ((0, "a"), (1, "b")))
    before = getattr(b.conditions, field)
    b = replace(b, conditions=replace(b.conditions, **{field: value}))
    with pytest.raises(DifferentConditionsError, match=f": {field} {before} and {value}$"):
        compare_sides(a, b)
    told = compare_sides(a, b, across_devices=True)
    assert told.differences[field] == (before, value)
    # Nothing is known of what is not said.
    compare_sides(a, replace(b, conditions=replace(b.conditions, **{field: ""})))


def test_estimates_have_no_noise_and_are_not_compared_with_times() -> None:
    stores = [MemoryStore(), MemoryStore()]
    for store, cycles in zip(stores, (2e6, 2.1e6), strict=True):
        trials = [
            replace(estimated(number, cycles, chosen=candidate(0, layer)), binary=str(cycles))
            for number, layer in enumerate(LAYERS[:2])
        ]
        store.append([campaign(layers=dict.fromkeys(LAYERS[:2], 1)), *trials])
    comparison = compared(*stores)
    assert comparison.a.estimated_by == MODEL == comparison.a.environment[ESTIMATED_BY]
    assert set(changes(comparison).values()) == {Change.SLOWER}
    assert comparison.network.ratio.low == comparison.network.ratio.high == pytest.approx(2 / 2.1)
    assert " kcyc" in render_comparison(comparison)
    with pytest.raises(ComparisonError, match="A and B are estimated and measured"):
        compared(stores[0], side_store(Machine(), 0))


def test_nothing_in_common_is_an_error_that_says_what_there_is() -> None:
    with pytest.raises(
        ComparisonError, match=r"no layer is on both sides: campaign c1 of a has 2, such as conv2d .*; "
    ):
        compared(side_store(Machine(), 0, layers=LAYERS[:2]), side_store(Machine(), 0, layers=LAYERS[2:3]))


@pytest.mark.parametrize("time_s", [1e-300, 1e300])
def test_times_that_can_not_be_are_refused(time_s: float) -> None:
    a, b = (side(side_store(Machine(), seed, layers=LAYERS[:1]), name) for seed, name in ((0, "a"), (1, "b")))
    wrong = replace(b, layers={FIRST: replace(b.layers[FIRST], time=time_s)})
    with pytest.raises(ComparisonError, match=r"a time that can't be \(1e.300\): campaign c1 of b"):
        compare_sides(a, wrong)


def test_conditions_of_a_regression() -> None:
    b = side_store(Machine(), 1, {FIRST: 0.92}, made_anew="best")
    comparison = compared(side_store(Machine(), 0), b)
    (found,) = regressions(comparison, read_condition("slower: 3%"))
    assert found.startswith("conv2d 3x3 14x14x16->64: B takes 1.")
    assert regressions(comparison, read_condition("slower:30%")) == []
    assert regressions(comparison, read_condition("network:1%")) == []
    assert regressions(comparison, read_condition("missing")) == []
    for text in ("faster:3%", "slower:3", "slower:-1%", "slower:1e9%", ""):
        with pytest.raises(ComparisonError, match=r"unknown condition .*, known: slower:3%, network:3%, missing"):
            read_condition(text)


def test_times_in_turn_say_what_sessions_do() -> None:
    a, b = side(side_store(Machine(), 0)), side(side_store(Machine(), 1, made_anew="best"), "b")
    pairs = {
        key: [((1e-3,) * 6, (1e-3 * (1.1 if key == FIRST else 1 + wobble),) * 6) for wobble in (-0.004, 0, 0.004)]
        for key in LAYERS[:5]
    }
    comparison = compare_again(a, b, pairs, "this CPU", {LAYERS[5]: "it does not build"})
    known = {layer.key: layer for layer in comparison.layers}
    assert known[FIRST].change is Change.SLOWER
    assert known[LAYERS[1]].change is Change.UNCHANGED
    assert known[LAYERS[5]].a is None
    assert comparison.notes[0] == "timed in turn now on this CPU: each layer in 3 sessions, which differ by 0.4 %"
    assert (known[LAYERS[5]].change, known[LAYERS[5]].why) == (Change.NOT_TIMED, "it does not build")


@pytest.mark.parametrize("width", [80, 120])
def test_a_table_fits(width: int) -> None:
    b = side_store(Machine(), 1, {FIRST: 0.92}, made_anew="best", layers=LAYERS[:9])
    text = render_comparison(compared(side_store(Machine(), 0), b), width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count(" slower") >= 2
    assert text.count("missing in B") == 21 + 2


def test_markdown_has_what_changed_first_and_no_markup_of_others() -> None:
    a, b = side(side_store(Machine(), 0)), side(side_store(Machine(), 1, {FIRST: 0.92}, made_anew="best"), "b")
    text = render_comparison_markdown(compare_sides(a, replace(b, network="<b>|`x`", source="[b](javascript:1)")))
    assert text.startswith("### \\<b>\\|\\`x\\`: unchanged\n")
    assert "[b](" not in text
    rows = [line for line in text.splitlines() if line.startswith("| conv2d")]
    assert len(rows) == len(LAYERS)
    assert rows[0].endswith(" | slower |")
    assert text.index("slower |") < text.index("<details>") < text.index("| unchanged")


def test_json_and_rows_say_the_same() -> None:
    comparison = compared(side_store(Machine(), 0), side_store(Machine(), 1, {FIRST: 0.92}, made_anew="best"))
    found = json.loads(json.dumps(comparison_as_dict(comparison), allow_nan=False))
    assert found["int8tune_comparison"] == 1
    rows = list(comparison_rows(comparison))
    assert [row["ratio"] for row in rows] == [layer["ratio"]["estimate"] for layer in found["layers"]]
    assert [row["change"] for row in rows] == [layer["change"] for layer in found["layers"]]
    assert found["layers"][0]["b"]["candidate"]["id"] == rows[0]["b.candidate_id"]


@pytest.mark.parametrize(("freedom", "known"), [(2, 4.3027), (3, 3.1824), (11, 2.2010), (1e9, 1.95996)])
def test_quantiles_of_students_distribution(freedom: float, known: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(known, rel=1e-4)
