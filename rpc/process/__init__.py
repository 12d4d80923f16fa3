"""Processes that may die, their limits and their streams."""
