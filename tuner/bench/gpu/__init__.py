"""Comparisons on a GPU of this machine."""
