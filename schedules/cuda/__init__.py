"""Templates for NVIDIA's GPUs, written thread by thread."""
