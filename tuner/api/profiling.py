"""Ranges of float models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from int8tune.compiler.report import Report, ignore
from int8tune.quantize.profiler import profile as profiled
from int8tune.quantize.ranges import Ranges
from int8tune.quantize.ranges_file import read_ranges, write_ranges
from int8tune.quantize.samples.base import Normalization
from int8tune.quantize.samples.given import DataLike, samples_of
from int8tune.quantize.tflite_models import read_float_tflite
from int8tune.quantize.tflite_writer import profile_tflite
from int8tune.results.atomic import require_folder
from int8tune.tuner.api.float_models import float_model_of, is_tflite
from int8tune.tuner.api.frames import frame_of, listed

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, repr=False)
class ModelRanges:
    """A profile of a float model: what the values of each of its tensors were.

    Attributes:
        ranges: sha256 of model and samples, and the tensors by their names.
        file: where it is kept; None if nowhere.
    """

    ranges: Ranges
    file: Path | None = None

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each tensor, in the order of the graph; without histograms, which `ranges.tensors` have."""
        left_out = ("histogram", "channel_minimum", "channel_maximum")
        rows = [asdict(each) for each in self.ranges.tensors.values()]
        return frame_of([{name: row[name] for name in row if name not in left_out} for row in rows])

    def __repr__(self) -> str:
        tensors, samples = listed(len(self.ranges.tensors), "tensor"), listed(self.ranges.samples, "sample")
        return f"<Ranges of {self.ranges.model}: {tensors}, {samples}>"


def profile(
    model: str | Path | Any,
    data: DataLike,
    output: str | Path | None = None,
    *,
    count: int | None = None,
    divide: float = 1.0,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    trust: bool = False,
    report: Report = ignore,
) -> ModelRanges:
    """Run samples through a float model, and keep the range of each of its tensors.

    Args:
        model: a float model: a file (.onnx, .tflite), a program of torch.export (.pt2, or as it is), or a
            module of PyTorch's.
        data: samples, whose first axis counts them: a file (.npy, .npz), a folder of pictures, `module:function`, an
            array, a dict with one for each input, or a function that yields samples.
        output: a file for the result, JSON; none if None.
        count: how many samples are used, the first ones; all if None.
        divide: values of samples are divided by it.
        mean: what is then taken from each channel; one number is for all.
        std: what each channel is then divided by.
        trust: load a .pt2 file, which may run code that is in it.
        report: is told how far it is.

    Raises:
        NoOnnxError: onnx or onnxruntime is not installed.
        NoTorchError: torch or onnxscript is not installed, and needed.
        UntrustedProgramError: a .pt2 file is not trusted.
        FloatModelError: the model can't be read or run, or is no float model.
        CalibrationError: the samples can't be read, or don't fit the model.
        QuantizeSpecError: a number of samples, or how they are normalized, can't be used.
        ExportError: the file can't be written.
    """
    if output is not None:
        require_folder(Path(output))
    normalization = Normalization(divide, tuple(mean), tuple(std))
    if is_tflite(model):
        ranges = profile_tflite(read_float_tflite(Path(model)), samples_of(data, count, normalization), report)
    else:
        read, data = float_model_of(model, data, trust)
        ranges = profiled(read, samples_of(data, count, normalization), report)
    if output is not None:
        write_ranges(Path(output), ranges)
    return ModelRanges(ranges, None if output is None else Path(output))


def load_ranges(path: str | Path) -> ModelRanges:
    """Read ranges that `profile` wrote.

    Raises:
        RangesError: they can't be read.
    """
    return ModelRanges(read_ranges(Path(path)), Path(path))
