"""Compiled libraries and float models, timed in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.compiler.program import Array
from int8tune.rpc.request import Timing
from int8tune.tuner.bench.contestant import disturbance
from int8tune.tuner.bench.peers.registry import missing_distributions
from int8tune.tuner.cores import bound_to
from int8tune.tuner.models.race import Entry, Result, race, seats
from int8tune.tuner.models.runtimes import PEERS, UNQUANTIZED
from int8tune.tuner.schemes.place import Place

TIMING = Timing(repeats=20, min_repeat_s=0.02)


@dataclass(frozen=True, slots=True)
class Times:
    """How long models take.

    Attributes:
        results: of each entry, in their order; times were taken in turn, so that those of two entries are pairs.
        disturbance: what makes the times doubtful; empty where nothing does.
    """

    results: tuple[Result, ...]
    disturbance: str


def time_in_turn(place: Place, entries: Sequence[Entry], sample: Sequence[Array], timing: Timing = TIMING) -> Times:
    """Time models in turn, each in a process of its own, on the same sample.

    Args:
        sample: an array for each input, with its batch.

    Raises:
        BenchError: the first entry failed.
    """
    given = [array[None] for array in sample]
    with bound_to(place.others), seats(entries, place.cores, lambda _: given, place.folder) as taken:
        results = race(taken, timing)
        turns = [turn for seat in taken for turn in seat.contestant.turns]
    return Times(tuple(results), disturbance(turns))


def float_entries(place: Place, model: Path) -> list[Entry]:
    """The runtimes that are installed and read ONNX, with a float model whose batch, where it is open, is 1."""
    import onnx

    proto = onnx.load(model)
    for value in proto.graph.input:
        first = value.type.tensor_type.shape.dim[:1]
        if first and not first[0].HasField("dim_value"):
            first[0].dim_value = 1
    file = place.folder / f"float-{len(list(place.folder.glob('float-*.onnx')))}.onnx"
    onnx.save(proto, file)
    return [
        Entry(f"{peer.name}, fp32", UNQUANTIZED.get(peer.name, peer), file)
        for peer in PEERS
        if ".onnx" in peer.suffixes and not missing_distributions(peer.requires)
    ]
