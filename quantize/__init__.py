"""Float models in, quantized models out: ranges of their tensors, thresholds, QDQ ONNX. Needs no TVM."""
