"""How much longer a network takes with one layer in another form than usual, as measured.

The whole network is compiled with that layer in the other form and timed in turn with the usual network, so that
conversions around the layer count, and what it leaves in the caches. Layers that compute the same share a measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from int8tune.quantize.forms import Form
from int8tune.quantize.mixed import MixedLayer
from int8tune.results.stats import median, ratio_interval
from int8tune.rpc.request import Timing
from int8tune.rpc.session.timing import time_in_turn
from int8tune.tuner.bench.contestant import Contestant, Contestants
from int8tune.tuner.choice.networks import Network, NetworkBuilder, network_or_why
from int8tune.tuner.errors import BenchError
from int8tune.tuner.models.arrays import write_arrays
from int8tune.tuner.models.race import WORKER
from int8tune.tuner.models.runtimes import OWN
from int8tune.tuner.schemes.library import first_sample

Timer = Callable[[Sequence[Network]], list[tuple[float, ...] | str]]
"""Gives seconds of a run of each network, timed in turn; or why there are none."""

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
    builder: NetworkBuilder,
    usual: Network,
    layers: Sequence[MixedLayer],
    importance: Mapping[str, float],
    is_over: Callable[[], bool],
    timing: Timing,
) -> FormTimes:
    """Measure the forms of layers, the most important layers first, until it is over.

    Args:
        usual: the network whose layers all have the usual form.
        importance: of each layer, by its name: the noise that its usual form makes.

    Raises:
        BenchError: the usual network can't be run.
    """
    found = FormTimes()
    todo = list(_in_order(builder, layers, importance))
    found.wanted = len(todo)
    with _timer(builder, timing) as times_of:
        while todo and not is_over():
            batch, todo = todo[:AT_ONCE], todo[AT_ONCE:]
            made: list[tuple[tuple[str, Form], Network]] = []
            for layer, form in batch:
                builder.report("timing forms of layers", found.done + len(made), found.wanted)
                if is_over() and made:
                    break
                network = network_or_why(builder, {layer.name: form}, is_refined=False)
                if isinstance(network, str):
                    found.failures[layer.likeness, form] = network
                else:
                    made.append(((layer.likeness, form), network))
            if made:
                _add(found, [key for key, _ in made], times_of([usual, *(network for _, network in made)]))
    return found


def _in_order(
    builder: NetworkBuilder, layers: Sequence[MixedLayer], importance: Mapping[str, float]
) -> Iterator[tuple[MixedLayer, Form]]:
    """Each form but the usual one, of one of several layers that are alike."""
    alike = {layer.likeness: layer for layer in sorted(layers, key=lambda layer: importance[layer.name])}
    ranked = sorted(alike.values(), key=lambda layer: -importance[layer.name])
    for form in _ORDER:
        if form is Form.FLOAT or (form in builder.model.quantized_forms and form is not builder.model.usual_form):
            yield from ((layer, form) for layer in ranked)


@contextmanager
def _timer(builder: NetworkBuilder, timing: Timing) -> Iterator[Timer]:
    """Times networks where their times count."""
    board = builder.board
    if board is not None:
        yield lambda networks: builder.turns_on(board, networks, timing)
        return
    with Contestants(WORKER) as contestants:
        seats = [contestants.add(builder.place.cores, OWN.name) for _ in range(1 + AT_ONCE)]
        yield _Seats(builder, timing, seats).times_s


class _Seats:
    """Processes that stay: each takes one library after the other, as starting one takes longer than timing it."""

    def __init__(self, builder: NetworkBuilder, timing: Timing, contestants: Sequence[Contestant]) -> None:
        self._builder, self._timing, self._contestants = builder, timing, contestants

    def times_s(self, networks: Sequence[Network]) -> list[tuple[float, ...] | str]:
        """Seconds of a run of each network, timed in turn; or why there are none."""
        folder = self._builder.place.folder
        samples = folder / "first-sample.npz"
        sample = first_sample(networks[0].library.graph, self._builder.tests)
        write_arrays(samples, [array[None] for array in sample])
        taken = self._contestants[: len(networks)]
        for contestant, network in zip(taken, networks, strict=True):
            files = {"samples": str(samples), "outputs": str(folder / "first-outputs.npz")}
            contestant.load({"model": str(network.library.entry.model), **files})
        able = [contestant for contestant in taken if not contestant.failure]
        times_s, _ = time_in_turn(able, self._timing)
        known = {id(each): tuple(values) for each, values in zip(able, times_s, strict=True) if not each.failure}
        return [known.get(id(each), each.failure) for each in taken]


def _add(found: FormTimes, keys: Sequence[tuple[str, Form]], times_s: Sequence[tuple[float, ...] | str]) -> None:
    usual_s = times_s[0]
    if isinstance(usual_s, str):
        raise BenchError(f"the usual network failed: {usual_s}")
    for key, own_s in zip(keys, times_s[1:], strict=True):
        if isinstance(own_s, str):
            found.failures[key] = own_s
            continue
        ratio = ratio_interval(own_s, usual_s)
        is_apart = not ratio.low <= 1 <= ratio.high
        found.extra_s[key] = (ratio.estimate - 1) * median(usual_s) if is_apart else 0.0
