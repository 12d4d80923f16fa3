"""A quantized model that exists, on samples whose classes are known: its compiled library beside its own runtime."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.model import model_bytes
from int8tune.compiler.program import Array
from int8tune.compiler.report import Report, ignore
from int8tune.quantize.samples.base import Samples
from int8tune.results.schemes import Answers
from int8tune.results.shares import PairedTest
from int8tune.results.text import printable
from int8tune.tuner.bench.peers.registry import missing_distributions
from int8tune.tuner.errors import NoPeersError, SamplesError
from int8tune.tuner.models.accuracy import differences
from int8tune.tuner.models.checks import Comparison, comparison_of, explained
from int8tune.tuner.models.race import Entry
from int8tune.tuner.models.runtimes import REFERENCES, OnnxRuntime
from int8tune.tuner.schemes.judged import Judge, require_fit
from int8tune.tuner.schemes.library import compiled_library, outputs_of
from int8tune.tuner.schemes.place import Place


@dataclass(frozen=True, slots=True)
class Labelled:
    """What came out.

    Attributes:
        comparison: of the outputs, in quantization steps.
        ours, theirs: how right the answers of both are; of nobody knows what without labels.
        paired: on which samples the own runtime alone is right, and on which the compiled library alone.
    """

    comparison: Comparison
    ours: Answers
    theirs: Answers
    paired: PairedTest | None


def labelled(
    model: Path,
    samples: Samples,
    labels: Array | None,
    place: Place,
    given: Given = NOTHING_GIVEN,
    report: Report = ignore,
) -> Labelled:
    """Run a model's compiled library and its own runtime on samples: LiteRT's reference kernels, or ONNX Runtime.

    Raises:
        ModelError: the model can't be compiled.
        NoPeersError: its own runtime is not installed.
        CalibrationError: the samples can't be read, or don't fit the model.
        SamplesError: the labels don't fit the samples or the model.
        BenchError: one of them failed.
    """
    library = compiled_library(place, model, model.name, given, report)
    reference = REFERENCES[model.suffix.lower()]
    if missing := missing_distributions(reference.requires):
        raise NoPeersError(f"not installed: {', '.join(missing)}")
    title = OnnxRuntime().name if isinstance(reference, OnnxRuntime) else reference.name
    name = f"{title} {version(reference.requires[0])}"
    file = model
    if given != NOTHING_GIVEN:
        file = place.folder / f"given{model.suffix}"
        file.write_bytes(model_bytes(model, given))
    ours = outputs_of(place, library.entry, library.graph, samples, report)
    if labels is not None:
        _require_classes(ours)
        require_fit(labels, ours[0])
    other = Entry(name, reference, file)
    theirs = outputs_of(place, other, library.graph, samples, report)
    judge = Judge(theirs[0].reshape(len(theirs[0]), -1), labels)
    return Labelled(
        explained(comparison_of(name, library.graph, differences(library.graph, ours, theirs)), other),
        judge.answers(ours[0]),
        judge.answers(theirs[0]),
        judge.paired(ours[0]),
    )


def _require_classes(outputs: tuple[Array, ...]) -> None:
    shapes = [array.shape[1:] for array in outputs]
    if len(shapes) != 1 or sum(extent > 1 for extent in shapes[0]) != 1:
        raise SamplesError(printable(f"labels need a model with one output, a value for each class: {shapes}"))
