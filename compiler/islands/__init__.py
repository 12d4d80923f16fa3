"""Parts of a model that are computed in float32, between DEQUANTIZE and QUANTIZE operators: islands of float nodes."""
