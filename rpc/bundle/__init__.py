"""Bundles: candidates, their cases and a runner in one file, for a device that can't be reached.

On the device, `python3 FILE` is all that is needed: what runs there (`command` and what it imports) loads the standard
library alone. `archive`, `manifest` and `results_file` are used on both sides; `pack` and `carried` make the file.
"""
