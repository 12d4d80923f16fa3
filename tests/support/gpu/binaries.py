"""What NVIDIA's tools say of a kernel's machine code: registers, memory, instructions. They need no GPU."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.compiler.toolchain import nvrtc
from int8tune.compiler.toolchain.gpu_library import cuda_source
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.registry import template_for
from int8tune.schedules.space import Value
from int8tune.schedules.target import gpu_target
from int8tune.schedules.template import Template
from int8tune.schedules.workload import parse_workload

LIMIT_S = 60
_USAGE = re.compile(r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_FUNCTION = re.compile(r"Function : (\w+)")
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Za-z0-9_.]*)([^;]*);")


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel as machine code.

    Attributes:
        memory_bytes: of a thread's values that have no register.
        instructions: their addresses, names and operands.
    """

    registers: int
    memory_bytes: int
    instructions: Sequence[tuple[int, str, str]]

    @property
    def names(self) -> set[str]:
        return {name for _, name, _ in self.instructions}

    def loop_with_most(self, name: str) -> Counter[str]:
        """How often each instruction, without what follows a dot, is in the innermost loop that has most of one."""
        return Counter(self.order_in_loop_with_most(name))

    def order_in_loop_with_most(self, name: str) -> list[str]:
        """The instructions of that loop, in their order."""
        loops: list[list[str]] = []
        for at, branch, operands in self.instructions:
            target = re.search(r"0x([0-9a-f]+)", operands)
            if branch.startswith("BRA") and target and int(target[1], 16) < at:
                inside = [other for where, other, _ in self.instructions if int(target[1], 16) <= where <= at]
                loops.append([other.split(".")[0] for other in inside])
        most = max(loop.count(name) for loop in loops)
        return min((loop for loop in loops if loop.count(name) == most), key=len)


@functools.cache
def missing() -> str | None:
    """What this machine lacks to look at machine code, or None."""
    if reason := nvrtc.missing():
        return reason
    if not _tool("cuobjdump") or not _tool("nvdisasm"):
        return "needs NVIDIA's cuobjdump and nvdisasm (PyPI: nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm)"
    return None


def _tool(name: str) -> str | None:
    if found := shutil.which(name):
        return found
    try:
        package = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:
        return None
    folders = (package.submodule_search_locations or ()) if package else ()
    return next((str(path) for folder in folders if (path := Path(folder) / "bin" / name).exists()), None)


def codes_of(cubin: Path) -> dict[str, Code]:
    """The kernels of a file of machine code, by name."""
    usage, listing = (cuobjdump(option, cubin) for option in ("-res-usage", "-sass"))
    parts = _FUNCTION.split(listing)
    found = {}
    for name, registers, stack, _, local in _USAGE.findall(usage):
        text = parts[parts.index(name) + 1]
        instructions = [(int(at, 16), what, operands) for at, what, operands in _INSTRUCTION.findall(text)]
        found[name] = Code(int(registers), int(stack) + int(local), instructions)
    return found


def cuobjdump(option: str, cubin: Path) -> str:
    """What NVIDIA's tool prints of a file of machine code, such as its listing (`-sass`)."""
    program, other = _tool("cuobjdump"), _tool("nvdisasm")
    assert program is not None
    assert other is not None
    environment = {**os.environ, "PATH": f"{Path(other).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [program, option, str(cubin)]
    done = subprocess.run(command, check=True, timeout=LIMIT_S, env=environment, capture_output=True, text=True)
    return done.stdout


def code_of(
    key: str, profile: str, folder: Path, knobs: Mapping[str, Value] | None = None, template: Template | None = None
) -> Code:
    """The first kernel of a layer: its default config, or one with other values."""
    workload, target = parse_workload(key), gpu_target(profile)
    assert target.gpu is not None
    template = template or template_for(workload, target)
    config = {**template.space(workload, target).default, **(knobs or {})}
    source = cuda_source(compile_function(template.apply(workload, target, config).function, target).mod)
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(nvrtc.compile_cubin(source, target.gpu.arch))
    return codes_of(cubin)["main_kernel"]
