"""What can go wrong between a float model and a quantized one.

QuantizeError
├── NoOnnxError           onnx or onnxruntime is not installed
├── NoTorchError          torch or onnxscript is not installed
├── NoTfliteError         LiteRT or ai-edge-quantizer is not installed
├── UntrustedProgramError  a file that runs code when it is loaded, and nobody has said that it may
├── FloatModelError       a model that can't be read or run, or is no float model
├── CalibrationError      samples that can't be read, or don't fit the model
├── RangesError           a file of ranges that can't be read or used
│   └── ForeignRangesError  ranges of another model
└── QuantizeSpecError     options that can't be used, or contradict each other
"""

from __future__ import annotations


class QuantizeError(Exception):
    """Base of every error this package raises on purpose: one line, which names the place."""


class NoOnnxError(QuantizeError):
    """onnx or onnxruntime is not installed."""


class NoTorchError(QuantizeError):
    """torch or onnxscript is not installed."""


class NoTfliteError(QuantizeError):
    """LiteRT or ai-edge-quantizer is not installed."""


class UntrustedProgramError(QuantizeError):
    """A file that runs code when it is loaded, and nobody has said that it may."""


class FloatModelError(QuantizeError):
    """A model that can't be read or run, or is no float model."""


class CalibrationError(QuantizeError):
    """Samples that can't be read, or don't fit the model."""


class RangesError(QuantizeError):
    """A file of ranges that can't be read or used."""


class ForeignRangesError(RangesError):
    """Ranges of another model."""


class QuantizeSpecError(QuantizeError):
    """Options that can't be used, or contradict each other."""
