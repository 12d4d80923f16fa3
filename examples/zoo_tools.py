"""The forms in which tools other than ONNX Runtime's quantizer and NNCF write models; each needs its own package."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

OPSET, PT2E_OPSET = 17, 18
NAMES = {"input_names": ["x"]}

Samples = Iterable[Mapping[str, Any]]
"""Inputs to calibrate with, by name: numpy arrays."""


def _calibrate(model: Callable[[Any], Any], samples: Samples) -> None:
    import torch

    with torch.no_grad():
        for sample in samples:
            model(torch.from_numpy(sample["x"]))


def by_pt2e(model: Any, data: Any, samples: Samples, output: Path) -> None:
    """PyTorch's PT2E (`torchao`, `onnxscript`): the exported model is quantized, and exported to ONNX after that."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(model, (data,)).module(), quantizer)
    _calibrate(prepared, samples)
    quantized = torch.export.export(convert_pt2e(prepared), (data,))
    options = {**NAMES, "external_data": False, "verbose": False}
    torch.onnx.export(quantized, (data,), output, dynamo=True, opset_version=PT2E_OPSET, **options)


def by_fx(model: Any, data: Any, samples: Samples, output: Path) -> None:
    """PyTorch's FX graph mode (`torch.ao.quantization`), which PT2E is to replace."""
    import torch
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (data,))
    _calibrate(prepared, samples)
    torch.onnx.export(convert_fx(prepared), (data,), str(output), opset_version=OPSET, dynamo=False, **NAMES)


def by_brevitas(model: Any, data: Any, samples: Samples, output: Path) -> None:
    """Brevitas (`brevitas`, `onnxoptimizer`): stored values are bounded where they use less than 8 bits."""
    from brevitas.export import export_onnx_qcdq
    from brevitas.graph.calibrate import calibration_mode
    from brevitas.graph.quantize import preprocess_for_quantize, quantize

    quantized = quantize(preprocess_for_quantize(model)).eval()
    with calibration_mode(quantized):
        _calibrate(quantized, samples)
    _calibrate(quantized, [{"x": data.numpy()}])
    export_onnx_qcdq(quantized, args=data, export_path=str(output), opset_version=OPSET, dynamo=False, **NAMES)


def by_mct(model: Any, _: Any, samples: Samples, output: Path) -> None:
    """Sony's Model Compression Toolkit (`model-compression-toolkit`): weights are numbers on a grid."""
    import model_compression_toolkit as mct

    arrays = [sample["x"] for sample in samples]

    def data() -> Iterator[list[Any]]:
        yield from ([array] for array in arrays)

    quantized, _ = mct.ptq.pytorch_post_training_quantization(model, data)
    form = mct.exporter.QuantizationFormat.FAKELY_QUANT
    with _torch_script():
        mct.exporter.pytorch_export_model(quantized, str(output), data, quantization_format=form)


@contextmanager
def _torch_script() -> Iterator[None]:
    """PyTorch's earlier exporter, where a tool that was written for it does not say which."""
    import torch

    export = torch.onnx.export
    torch.onnx.export = partial(export, dynamo=False)
    try:
        yield
    finally:
        torch.onnx.export = export


def by_modelopt(source: Path, samples: Samples, output: Path, precision: str) -> None:
    """NVIDIA's ModelOpt (`nvidia-modelopt[onnx]`), whose numbers are fp32 or fp16."""
    import modelopt.onnx.quantization as modelopt
    import numpy as np

    arrays = {"x": np.concatenate([sample["x"] for sample in samples])}
    options = {"quantize_mode": "int8", "calibration_data": arrays, "high_precision_dtype": precision}
    # It leaves other files beside what it makes.
    made = source.with_name("quantized.onnx")
    modelopt.quantize(str(source), output_path=str(made), **options)
    shutil.copy(made, output)
