"""TFLite operators that no integer kernel computes, as ONNX nodes of islands: `operators` makes them, by family."""
