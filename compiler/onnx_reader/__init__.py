"""Quantized ONNX models as graphs: `model` reads one, the others know a part of what is in a file."""
