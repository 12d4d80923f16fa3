"""The fastest network of a float model whose accuracy falls by no more than a limit: each layer in a form of its own.

First the noise of each layer's forms is computed, each alone, and the forms are timed, each in the whole network. Sums
of these predict a front of networks (`front`), of which some are tried (`tries`): written, compiled and run on the
tests. What is chosen, and what is on the front in the end, is decided by these runs and by times taken in turn alone.

The strategies of `tuner.search` look for the config of one kernel, whose measurements say nothing of its parts. Here
both costs are nearly sums over layers, so that a front of predictions is found without any trial, and trials are spent
where predictions and truth may part.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from int8tune.compiler.program import Array
from int8tune.compiler.report import Report
from int8tune.quantize.forms import Form
from int8tune.quantize.mixed import MixedLayer, MixedModel
from int8tune.quantize.samples.base import Samples
from int8tune.results.shares import Share
from int8tune.results.stats import MIN_PAIRS, MedianTime
from int8tune.rpc.request import Timing
from int8tune.tuner.choice.form_times import FormTimes, form_times
from int8tune.tuner.choice.front import FormCost, Predicted, forms_by_layer, not_worse, predicted_front
from int8tune.tuner.choice.networks import Network, NetworkBuilder, network_or_why
from int8tune.tuner.choice.tries import Tries
from int8tune.tuner.errors import BenchError, ChoiceError
from int8tune.tuner.models.on_board import BoardPlace
from int8tune.tuner.schemes.judged import Judge
from int8tune.tuner.schemes.place import Place
from int8tune.tuner.schemes.timing import TIMING

# Of the budget, for the times of forms.
SHARE_OF_TIMES = 0.5
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Limits:
    """What is asked for.

    Attributes:
        max_drop: points of top-1 that may be lost, or of answers that differ from the float model's without labels.
        budget_s: seconds; what is under way then comes to its end.
        timing: of the networks; forms are timed half as often and as long.
    """

    max_drop: float
    budget_s: float
    timing: Timing = TIMING


@dataclass(frozen=True, slots=True)
class Point:
    """A network that was compiled, run on the tests, and timed.

    Attributes:
        forms: of layers that are not computed as usual, by their names.
        time: of one run.
        drop: points of top-1 that it loses, or of answers that differ from the float model's.
        top1: None without labels.
        agreement: samples for which the answer is the float model's.
        sqnr_db: the float model's outputs over what differs from them, in decibels; None where nothing does.
        is_on_front: no other is as fast and as accurate, and better in one of these.
    """

    forms: Mapping[str, Form]
    time: MedianTime
    drop: float
    top1: Share | None
    agreement: Share
    sqnr_db: float | None
    is_on_front: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """What came out.

    Attributes:
        points: all that was tried, the fastest first.
        chosen: the fastest of them whose drop is within the limit.
        proto: of that network, an `onnx.ModelProto`.
        float_top1: None without labels.
        timed: forms of layers that were timed, or found impossible, of `to_time`.
        failures: why networks that were tried could not be had.
        disturbance: what makes the times doubtful; empty where nothing does.
    """

    points: tuple[Point, ...]
    chosen: Point
    proto: Any
    layers: tuple[MixedLayer, ...]
    usual_form: Form
    float_top1: Share | None
    timed: int
    to_time: int
    failures: tuple[str, ...]
    disturbance: str


@dataclass(frozen=True, slots=True)
class _Tried:
    network: Network
    point: Point


def choose(
    model: MixedModel,
    tests: Samples,
    judge: Judge,
    place: Place,
    limits: Limits,
    report: Report,
    board: BoardPlace | None = None,
) -> Choice:
    """Find the front of a model's networks, and the fastest of them within the limit.

    Args:
        judge: of the same tests.
        board: whose times count; None: those of the place.

    Raises:
        ModelError: the network in which all layers are as usual can't be compiled.
        NoLinkerError, CompilerDiedError: as `compile_apart`.
        CalibrationError: the tests don't fit the model.
        BenchError: the usual network can't be run.
        ChoiceError: no network that was tried is within the limit.
        DeviceStartError: the board can't be reached any more.
    """
    started_s = time.monotonic()

    def is_over(share: float = 1.0) -> bool:
        return time.monotonic() - started_s > share * limits.budget_s

    builder = NetworkBuilder(model, tests, place, report, board)
    report("the network as usual", 0, 1)
    usual = builder.network({})
    tried = [_Tried(usual, _point(usual, builder.outputs(usual), judge))]
    noise = _noise(builder)
    importance = {layer.name: noise[layer.name, model.usual_form] for layer in model.layers}
    times = form_times(builder, usual, model.layers, importance, lambda: is_over(SHARE_OF_TIMES), _half(limits.timing))
    front = _front(builder, noise, times)
    failures: list[str] = []
    tries = Tries(front)
    for at, each in enumerate(front):
        if set(each.forms) == {model.usual_form}:
            tries.tried(at, _is_within(tried[0].point, limits))
    while not is_over() and (number := tries.next()) is not None:
        report("trying networks", len(tried), 0)
        forms = forms_by_layer(front[number].forms, [layer.name for layer in model.layers], model.usual_form)
        found = _try(builder, forms, judge)
        if isinstance(found, str):
            failures.append(found)
        else:
            tried.append(found)
        tries.tried(number, not isinstance(found, str) and _is_within(found.point, limits))
    return _chosen(builder, tried, judge, limits, times, failures)


def _half(timing: Timing) -> Timing:
    """For differences that guide the search, and decide nothing."""
    return Timing(max(MIN_PAIRS, timing.repeats // 2), timing.min_repeat_s / 2)


def _noise(builder: NetworkBuilder) -> dict[tuple[str, Form], float]:
    """The noise of the usual form and of those that bring accuracy, by the layer's name and the form."""
    model = builder.model
    found = {}
    for done, layer in enumerate(model.layers):
        builder.report("noise of layers", done, len(model.layers))
        for form in (model.usual_form, Form.WORDS, Form.FLOAT):
            found[layer.name, form] = model.noise(layer.name, form)
    return found


def _front(builder: NetworkBuilder, noise: dict[tuple[str, Form], float], times: FormTimes) -> list[Predicted]:
    """The networks that are expected to be worth trying."""
    model = builder.model
    costs = []
    for done, layer in enumerate(model.layers):
        builder.report("noise of faster forms", done, len(model.layers))
        of_layer = [FormCost(model.usual_form, noise[layer.name, model.usual_form], 0.0)]
        for form in Form:
            extra_s = times.extra_s.get((layer.likeness, form))
            if extra_s is None:
                continue
            if (layer.name, form) not in noise and extra_s < 0:
                noise[layer.name, form] = model.noise(layer.name, form)
            if (layer.name, form) in noise:
                of_layer.append(FormCost(form, noise[layer.name, form], extra_s))
        costs.append(of_layer)
    return predicted_front(costs)


def _try(builder: NetworkBuilder, forms: Mapping[str, Form], judge: Judge) -> _Tried | str:
    """Write, compile and run a network; why not, where that fails."""
    network = network_or_why(builder, forms)
    if isinstance(network, str):
        return network
    try:
        return _Tried(network, _point(network, builder.outputs(network), judge))
    except BenchError as error:
        return " ".join(str(error).split())


def _point(network: Network, outputs: Array, judge: Judge) -> Point:
    """What a network answers; its time is not known yet."""
    agreement, sqnr_db = judge.nearness(outputs)
    top1, float_top1 = judge.answers(outputs).top1, judge.answers(judge.outputs).top1
    if top1 is None or float_top1 is None:
        drop = 100 * (1 - agreement.estimate)
    else:
        drop = 100 * (float_top1.count - top1.count) / top1.samples
    return Point(network.forms, MedianTime(0.0, 0.0, 0.0), drop, top1, agreement, sqnr_db)


def _is_within(point: Point, limits: Limits) -> bool:
    return point.drop <= limits.max_drop + _ROUNDING


def _chosen(
    builder: NetworkBuilder,
    tried: Sequence[_Tried],
    judge: Judge,
    limits: Limits,
    times: FormTimes,
    failures: Sequence[str],
) -> Choice:
    """Time what was tried, in turn, and choose."""
    if not any(_is_within(each.point, limits) for each in tried):
        least = min(each.point.drop for each in tried)
        what = f"no network of {len(tried)} that were tried"
        raise ChoiceError(f"{what} has a drop of at most {limits.max_drop:g} points: the least is {least:.2f}")
    builder.report("timing networks", 0, 1)
    results, disturbance = builder.times([each.network for each in tried], limits.timing)
    timed = [
        _Tried(each.network, replace(each.point, time=result.median_time))
        for each, result in zip(tried, results, strict=True)
        if result.median_time is not None
    ]
    on_front = not_worse(timed, lambda each: (each.point.time.estimate_s, each.point.drop))
    within = [each for each in timed if _is_within(each.point, limits)]
    if not within:
        raise ChoiceError(f"no network within the limit could be timed: {results[-1].failure}")
    best = min(within, key=lambda each: each.point.time.estimate_s)
    points = {id(each): replace(each.point, is_on_front=each in on_front) for each in timed}
    return Choice(
        points=tuple(sorted(points.values(), key=lambda point: point.time.estimate_s)),
        chosen=points[id(best)],
        proto=best.network.proto,
        layers=tuple(builder.model.layers),
        usual_form=builder.model.usual_form,
        float_top1=judge.answers(judge.outputs).top1,
        timed=times.done,
        to_time=times.wanted,
        failures=tuple(dict.fromkeys(failures)),
        disturbance=disturbance,
    )
