"""A compiled model beside the model's own runtime, or beside this library's reference, on the same samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from int8tune.compiler.compile import all_values
from int8tune.compiler.file_layout import with_file_layouts
from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.graph import Graph, Value
from int8tune.compiler.interpreter import kept_values, run_reference
from int8tune.compiler.islands.island import exact_operators, float_operators
from int8tune.compiler.model import model_bytes, read_model
from int8tune.compiler.obstacles import int8_share
from int8tune.compiler.operators.base import scale_of, zero_point_of
from int8tune.compiler.program import Array
from int8tune.tuner.bench.peers.registry import missing_distributions
from int8tune.tuner.cores import measuring_and_build_cores
from int8tune.tuner.errors import BenchError, NoPeersError, SamplesError
from int8tune.tuner.models.accuracy import Difference, differences
from int8tune.tuner.models.arrays import read_samples
from int8tune.tuner.models.compiling import compile_apart
from int8tune.tuner.models.drawn_samples import LEAST_USUAL, drawn_samples, usual_count
from int8tune.tuner.models.float_layers import more_in_float
from int8tune.tuner.models.race import Entry, Seat, seats
from int8tune.tuner.models.runtimes import OWN, REFERENCES, REORDERED, OnnxRuntime
from int8tune.tuner.models.schedules import device_target, schedules_for
from int8tune.tuner.work_folder import work_folder

REFERENCE_NAME = "this library's reference"


@dataclass(frozen=True, slots=True)
class Check:
    """What is compared.

    Attributes:
        log: a best log, or None for the records in `results`.
        profile: of the target; the best for this CPU if None.
        given: what the user says of the model's inputs.
        samples: a file of them, or None for `count` that are drawn; None there means as many as the model suggests.
    """

    model: Path
    results: Path
    log: Path | None
    profile: str | None
    threads: int
    samples: Path | None
    count: int | None
    seed: int
    given: Given = NOTHING_GIVEN


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came out.

    Attributes:
        against: with whom the outputs were compared.
        exact: how many operators of the model integer kernels compute, bit for bit.
        floats: how many of each operator are computed in float.
        int8_share: of the multiply-adds, that of int8 layers.
        theirs_in_float: layers that ONNX Runtime computes in float and this library in integers, by kind; asked for
            where outputs differ.
    """

    against: str
    outputs: list[Difference]
    exact: int
    floats: Mapping[str, int]
    int8_share: float | None
    theirs_in_float: Mapping[str, int] = field(default_factory=dict)


def compare_outputs(check: Check) -> Comparison:
    """How the outputs differ from those of the model's own runtime.

    Raises:
        ModelError: the model can't be compiled.
        NoPeersError: the model's own runtime is not installed.
        SamplesError: the model takes no inputs.
        BenchError: a runtime failed.
    """
    graph = model_of(check.model, check.given)
    if not graph.inputs:
        raise SamplesError(f"{check.model.name}: the model takes no inputs, so that there is nothing to compare")
    reference = REFERENCES[check.model.suffix.lower()]
    if missing := missing_distributions(reference.requires):
        raise NoPeersError(f"not installed: {', '.join(missing)}")
    runtimes = [reference, *([REORDERED[reference.name]] if float_operators(graph) else [])]
    title = OnnxRuntime().name if isinstance(reference, OnnxRuntime) else reference.name
    with seats_of(check, graph, [Entry(title, each, check.model) for each in runtimes]) as (own, other, *plain):
        plain = [seat for seat in plain if not seat.contestant.failure]
        is_plain = bool(other.contestant.failure and plain and isinstance(reference, OnnxRuntime))
        if is_plain:
            (other,), plain = plain, []
        for seat in (own, other):
            if seat.contestant.failure:
                raise BenchError(f"{seat.entry.label} failed: {seat.contestant.failure}")
        name = f"{title} {other.contestant.version}{' without its optimizations, which fail' if is_plain else ''}"
        found = differences(graph, own.outputs, other.outputs)
        if plain:
            itself = differences(graph, plain[0].outputs, other.outputs)
            found = [replace(each, itself_db=its.sqnr_db) for each, its in zip(found, itself, strict=True)]
        return explained(comparison_of(name, graph, found), other.entry)


def explained(found: Comparison, other: Entry) -> Comparison:
    """A comparison that says which layers ONNX Runtime computes in float, where outputs differ."""
    is_equal = not any(each.differing for each in found.outputs)
    if is_equal or not isinstance(other.runtime, OnnxRuntime):
        return found
    return replace(found, theirs_in_float=more_in_float(other.model, found.floats, other.runtime.keeps_int8))


def compare_layers(check: Check) -> Comparison:
    """How every layer's output differs from this library's reference; behind an island, from its own outputs on.

    Raises:
        ModelError: the model can't be compiled.
        BenchError: the compiled model failed.
    """
    graph = all_values(model_of(check.model, check.given))
    if check.count is None:
        check = replace(check, count=LEAST_USUAL)  # the reference takes its time
    arrays = samples_of(check, graph)
    with seats_of(check, graph, []) as (own,):
        if own.contestant.failure:
            raise BenchError(f"{own.entry.label} failed: {own.contestant.failure}")
        expected: list[list[Array]] = []
        kept: dict[str, Array] = {}
        made = zip(*own.outputs, strict=True)
        for sample, ours in zip(zip(*arrays, strict=True), made, strict=True):
            # A sample of a value without axes is a number, not an array.
            given = dict(zip(graph.outputs, map(np.asarray, ours), strict=True))
            inputs = dict(zip(graph.inputs, map(np.asarray, sample), strict=True))
            values = run_reference(graph, inputs, given, kept)
            kept = kept_values(graph, values | given)
            expected.append([values[name] for name in graph.outputs])
        stacked = [np.stack(arrays) for arrays in zip(*expected, strict=True)]
        return comparison_of(REFERENCE_NAME, graph, differences(graph, own.outputs, stacked))


def comparison_of(against: str, graph: Graph, outputs: list[Difference]) -> Comparison:
    """A comparison of a model's outputs, with what is known of its operators."""
    return Comparison(against, outputs, exact_operators(graph), float_operators(graph), int8_share(graph))


def model_of(path: Path, given: Given = NOTHING_GIVEN) -> Graph:
    """The graph of a model, its inputs and outputs as the file has them.

    Raises:
        ModelError: the file can't be read, is damaged, or has something that is not supported.
    """
    return with_file_layouts(read_model(path, given))


def samples_of(check: Check, graph: Graph) -> list[Array]:
    """The samples of a check, one array for each input.

    Raises:
        SamplesError: the file of samples can't be read, or does not fit the model.
    """
    if check.samples is None:
        count = usual_count(graph) if check.count is None else check.count
        return drawn_samples(graph, count, check.seed)
    return read_samples(check.samples, [graph.values[name] for name in graph.inputs])


@contextmanager
def seats_of(check: Check, graph: Graph, others: Sequence[Entry]) -> Iterator[list[Seat]]:
    """This library's compiled model and other entries, which have run the samples.

    Raises:
        ModelError: the model can't be compiled.
        SamplesError: the file of samples can't be read, or does not fit the model.
    """
    arrays = samples_of(check, graph)
    target = device_target(check.profile, check.threads)
    cores, _ = measuring_and_build_cores(check.threads)
    with work_folder(check.results, "models") as folder:
        library = folder / "model.so"
        compile_apart(graph, target, schedules_for(target, check.results, check.log), library)
        entries = [Entry(OWN.name, OWN, library), *(_specialized(each, check, folder) for each in others)]
        with seats(entries, cores, lambda entry: _as_it_takes(entry, graph, arrays), folder) as taken:
            yield taken


def _specialized(entry: Entry, check: Check, folder: Path) -> Entry:
    """An entry with the model's file as the user's values and shapes make it."""
    if check.given == NOTHING_GIVEN or entry.model != check.model:
        return entry
    file = folder / f"given{check.model.suffix}"
    file.write_bytes(model_bytes(check.model, check.given))
    return replace(entry, model=file)


def _as_it_takes(entry: Entry, graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """The samples; what they stand for, where an entry's model takes numbers in place of stored values."""
    if not entry.takes_numbers:
        return list(arrays)
    return [_numbers(graph.values[name], array) for name, array in zip(graph.inputs, arrays, strict=True)]


def _numbers(value: Value, array: Array) -> Array:
    if value.quantization is None:
        return array
    steps = (array.astype(np.int64) - zero_point_of(value)).astype(np.float32)
    numbers: Array = steps * scale_of(value)
    return numbers
