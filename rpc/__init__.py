"""Devices: kernels are verified and timed there, in sessions that may die."""
