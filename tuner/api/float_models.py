"""Float models as a user gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from int8tune.quantize.float_model import FloatModel, read_float_model
from int8tune.quantize.tflite_models import SUFFIX as TFLITE
from int8tune.quantize.torch_programs import SUFFIX, as_arrays, model_of_torch, read_program


def is_tflite(model: str | Path | Any) -> bool:
    """Whether a model is a TFLite file, by its name."""
    return isinstance(model, str | Path) and Path(model).suffix == TFLITE


def float_model_of(model: str | Path | Any, data: Any, trust: bool) -> tuple[FloatModel, Any]:
    """A file (.onnx, .pt2), or PyTorch's module or exported program, and samples as `samples_of` takes them.

    Raises:
        UntrustedProgramError: the file runs code when it is loaded, and `trust` is not given.
        NoTorchError: torch or onnxscript is not installed.
        NoOnnxError: onnx or onnxruntime is not installed.
        FloatModelError: the model can't be read, or is no float model.
        QuantizeSpecError: it is neither, or the samples do not fit a module.
    """
    if not isinstance(model, str | Path):
        return model_of_torch(model, data), as_arrays(data)
    path = Path(model)
    return (read_program(path, trust) if path.suffix == SUFFIX else read_float_model(path)), as_arrays(data)
