"""Kernels of operators that are no layers: pools, tables, additions and others, exact like `compiler.operators`."""
