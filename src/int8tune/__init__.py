"""Auto-tuning benchmark harness for int8 kernels."""
