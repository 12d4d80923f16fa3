"""Calibration samples: arrays in files, pictures in a folder, what a function yields; a few at a time."""
