"""How much longer a network takes with one layer in another form than usual, as measured.

The whole network is compiled with that layer in the other form and timed in turn with the usual network, so that
conversions around the layer count, and what it leaves in the caches. Layers that compute the same share a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from int8tune.quantize.forms import Form
from int8tune.quantize.mixed import MixedLayer
from int8tune.results.stats import median
from int8tune.rpc.request import Timing
from int8tune.tuner.choice.networks import Network, Workshop, network_or_why
from int8tune.tuner.errors import BenchError
from int8tune.tuner.models.race import Result

# Differences guide the search, and decide nothing.
TIMING = Timing(repeats=10, min_repeat_s=0.01)
AT_ONCE = 6
# The order in which forms are worth their measurement: those that bring accuracy first.
_ORDER = (Form.WORDS, Form.FLOAT, Form.PER_CHANNEL, Form.ZERO_POINTS, Form.PER_TENSOR)


@dataclass(slots=True)
class FormTimes:
    """Times of forms.

    Attributes:
        extra_s: by the layer's likeness and the form: seconds more than the usual form takes. Zero where the interval
            of 95 % has it: what cannot be told apart is no reason to choose.
        failures: why a form of a layer can't be had, by the same.
        wanted: how many there are to be measured.
    """

    extra_s: dict[tuple[str, Form], float] = field(default_factory=dict)
    failures: dict[tuple[str, Form], str] = field(default_factory=dict)
    wanted: int = 0

    @property
    def done(self) -> int:
        """How many were measured, or failed."""
        return len(self.extra_s) + len(self.failures)


def form_times(
    workshop: Workshop,
    usual: Network,
    layers: Sequence[MixedLayer],
    importance: Mapping[str, float],
    is_over: Callable[[], bool],
) -> FormTimes:
    """Measure the forms of layers, the most important layers first, until it is over.

    Args:
        usual: the network whose layers all have the usual form.
        importance: of each layer, by its name: the noise that its usual form makes.

    Raises:
        BenchError: the usual network can't be run.
    """
    found = FormTimes()
    todo = list(_in_order(workshop, layers, importance))
    found.wanted = len(todo)
    while todo and not is_over():
        workshop.report("timing forms of layers", found.done, found.wanted)
        batch, todo = todo[:AT_ONCE], todo[AT_ONCE:]
        made: list[tuple[tuple[str, Form], Network]] = []
        for layer, form in batch:
            if is_over() and made:
                break
            network = network_or_why(workshop, {layer.name: form}, is_refined=False)
            if isinstance(network, str):
                found.failures[layer.likeness, form] = network
            else:
                made.append(((layer.likeness, form), network))
        if made:
            results, _ = workshop.times([usual, *(network for _, network in made)], TIMING)
            _add(found, [key for key, _ in made], results)
    return found


def _in_order(
    workshop: Workshop, layers: Sequence[MixedLayer], importance: Mapping[str, float]
) -> Iterator[tuple[MixedLayer, Form]]:
    """Each form but the usual one, of one of several layers that are alike."""
    alike = {layer.likeness: layer for layer in sorted(layers, key=lambda layer: importance[layer.name])}
    ranked = sorted(alike.values(), key=lambda layer: -importance[layer.name])
    for form in _ORDER:
        if form is Form.FLOAT or (form in workshop.model.quantized_forms and form is not workshop.model.usual_form):
            yield from ((layer, form) for layer in ranked)


def _add(found: FormTimes, keys: Sequence[tuple[str, Form]], results: Sequence[Result]) -> None:
    base = results[0]
    if not base.times_s:
        raise BenchError(f"the usual network failed: {base.failure}")
    for key, result in zip(keys, results[1:], strict=True):
        if result.ratio is None:
            found.failures[key] = result.failure
        elif result.ratio.low <= 1 <= result.ratio.high:
            found.extra_s[key] = 0.0
        else:
            found.extra_s[key] = (result.ratio.estimate - 1) * median(base.times_s)
