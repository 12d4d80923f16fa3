"""Whole models: compiled, compared with other runtimes, and timed beside them."""
