"""Quantized TFLite models as graphs: `model` reads one, `operators` knows what is around layers."""
