"""TFLite's roundings as fused multiply-adds that give the same outputs."""
