"""Comparison with other libraries, layer by layer: contestants in processes of their own, timed in turn on one core."""
