"""PyTorch's modules and exported programs as float ONNX models: by `torch.onnx.export`, with torch and onnxscript."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.quantize.errors import FloatModelError, NoTorchError, QuantizeSpecError, UntrustedProgramError
from int8tune.quantize.float_model import FloatModel, checked_model, file_content, one_line, quiet, require_onnx, shown
from int8tune.quantize.samples.base import Array

SUFFIX = ".pt2"
# A batch of one is taken for an extent that stays one.
_EXAMPLES = 2


def read_program(path: Path, trust: bool) -> FloatModel:
    """Read a program that `torch.export.save` wrote.

    `torch.export.load` runs what the file says: its pickles are loaded with `weights_only=False` where they do not load
    otherwise, and its expressions are evaluated.

    Args:
        trust: whether the user says that the file may run code.

    Raises:
        UntrustedProgramError: it may not.
        NoTorchError: torch or onnxscript is not installed.
        FloatModelError: it can't be read, or made into a float ONNX model.
    """
    content = file_content(path)
    if not trust:
        raise UntrustedProgramError(f"to load a {SUFFIX} file is to run what is in it, whoever wrote it: {shown(path)}")
    torch = require_torch()
    with quiet():
        try:
            program = torch.export.load(path)
        except Exception as error:  # whatever a file that it does not know leads to
            raise FloatModelError(f"{shown(path)}: no program of torch.export: {one_line(error)}") from None
    return _model_of(program, path, hashlib.sha256(content).hexdigest())


def model_of_torch(given: Any, data: object) -> FloatModel:
    """A module, or a program that `torch.export.export` made, as a float model.

    Args:
        given: a module is exported as it is in evaluation, for any number of samples if that can be.
        data: samples for a module: an array or a tensor for one of one argument, or a dict by the names of arguments.

    Raises:
        NoTorchError: torch or onnxscript is not installed.
        QuantizeSpecError: it is neither, or the samples are none of these.
        FloatModelError: it can't be made into a float ONNX model.
    """
    torch = require_torch()
    title = Path(type(given).__name__)
    if isinstance(given, torch.export.ExportedProgram):
        return _model_of(given, title)
    if not isinstance(given, torch.nn.Module):
        raise QuantizeSpecError(f"a model is a file, a module or an exported program of PyTorch's: {title}")
    examples = _examples(torch, data)
    try:
        found = _model_of(_exported(torch, given, examples, _EXAMPLES, torch.export.Dim.AUTO), title)
        if all(each.batch is None for each in found.inputs):
            return found
    except FloatModelError:  # what it says of one sample counts
        pass
    return _model_of(_exported(torch, given, examples, 1, None), title)


def require_torch() -> Any:
    """The package `torch`.

    Raises:
        NoTorchError: it or onnxscript is not installed.
        NoOnnxError: onnx or onnxruntime is not installed.
    """
    require_onnx()
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        raise NoTorchError(f"not installed: {error.name}") from None
    return torch


def as_arrays(data: Any) -> Any:
    """Samples with PyTorch's tensors as arrays; others as they are."""
    if isinstance(data, Mapping):
        return {name: as_arrays(each) for name, each in data.items()}
    return data.detach().cpu().numpy() if hasattr(data, "detach") else data


def _examples(torch: Any, data: Any) -> Any:
    """The first samples as tensors; floats are float32."""
    found = as_arrays(data)
    if isinstance(found, Mapping):
        return {name: _tensor(torch, each) for name, each in found.items()}
    if not isinstance(found, np.ndarray):
        what = "samples of a module must be an array or a dict of arrays, not"
        raise QuantizeSpecError(
            f"{what} {type(data).__name__}; or export it yourself: torch.export.export(MODULE, ARGS)"
        )
    return _tensor(torch, found)


def _tensor(torch: Any, array: Array) -> Any:
    if not array.ndim or not len(array):
        raise QuantizeSpecError(f"samples have a first axis that counts them: {list(array.shape)}")
    rows = np.resize(array[:_EXAMPLES], (_EXAMPLES, *array.shape[1:]))
    return torch.from_numpy(rows.astype(np.float32) if rows.dtype.kind == "f" else rows)


def _exported(torch: Any, module: Any, examples: Any, count: int, extent: Any) -> Any:
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        with quiet():
            if isinstance(examples, Mapping):
                given = {name: each[:count] for name, each in examples.items()}
                by_name = None if extent is None else {name: {0: extent} for name in given}
                return torch.export.export(module, (), given, dynamic_shapes=by_name)
            shapes = None if extent is None else ({0: extent},)
            return torch.export.export(module, (examples[:count],), dynamic_shapes=shapes)
    except Exception as error:  # whatever the module does
        raise FloatModelError(f"{type(module).__name__}: PyTorch can't export it: {one_line(error)}") from None
    finally:
        for each, training in modes:
            each.training = training


def _model_of(program: Any, path: Path, sha256: str | None = None) -> FloatModel:
    import torch

    with quiet():
        try:
            proto = torch.onnx.export(program, dynamo=True, verbose=False).model_proto
            _remove_traces(proto)
            content = proto.SerializeToString(deterministic=True)
        except Exception as error:  # the exporter's own classes
            raise FloatModelError(f"{shown(path)}: PyTorch can't make ONNX of it: {one_line(error)}") from None
    return checked_model(path, content, sha256)


def _remove_traces(proto: Any) -> None:
    """Leave out where in whose files each operator was written."""
    for part in (proto, proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.functions):
        del part.metadata_props[:]
