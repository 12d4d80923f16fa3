"""The cycles of straight code, by llvm-mca."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from int8tune.rpc.errors import EstimateError
from int8tune.rpc.mca.disassembly import FEATURES
from int8tune.rpc.mca.tools import run_tool

TRIPLE = "aarch64-linux-gnu"
_REGION = re.compile(r"^\[\d+\] Code Region - (\S+)$", re.MULTILINE)
_CYCLES = re.compile(r"^Total Cycles:\s+(\d+)$", re.MULTILINE)
MAX_CYCLES = 10**9


def cycles_of(regions: Mapping[str, Sequence[str]], cpu: str, limit_s: float) -> dict[str, int]:
    """The cycles that a core takes for each region of instructions, from the first one's issue to the last one's end.

    Raises:
        EstimateError: llvm-mca is missing, does not know the core or an instruction, or prints what can't be read.
    """
    lines = []
    for name, instructions in regions.items():
        lines += [f"# LLVM-MCA-BEGIN {name}", *instructions, f"# LLVM-MCA-END {name}"]
    options = [f"-mtriple={TRIPLE}", f"-mcpu={cpu}", f"-mattr={FEATURES}", "-iterations=1"]
    views = ["-resource-pressure=0", "-instruction-info=0"]
    text = run_tool("llvm-mca", [*options, *views], "\n".join(lines) + "\n", limit_s)
    found = _split_regions(text)
    missing = set(regions) - set(found)
    if missing:
        raise EstimateError(f"llvm-mca printed nothing about {len(missing)} of {len(regions)} pieces of code")
    return {name: found[name] for name in regions}


def _split_regions(text: str) -> dict[str, int]:
    parts = _REGION.split(text)
    found = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        match = _CYCLES.search(body)
        if match is None or int(match[1]) > MAX_CYCLES:
            raise EstimateError("llvm-mca printed no number of cycles, or one that can't be")
        found[name] = int(match[1])
    return found
