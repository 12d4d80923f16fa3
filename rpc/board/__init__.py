"""Boards behind an agent as devices."""
