"""Golden files: for each template and each profile that it takes, its inner loop and digests of all its code.

Kernels are compiled for the profile whatever this machine is: LLVM and NVRTC know all of them.
"""

from __future__ import annotations

import re
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.compiler.toolchain import nvrtc
from int8tune.compiler.toolchain.gpu_library import cuda_source
from int8tune.schedules.gpus import GPU_PROFILES
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.registry import TEMPLATES
from int8tune.schedules.space import Value
from int8tune.schedules.target import PROFILE_NAMES, Target
from int8tune.schedules.template import Template
from int8tune.schedules.workload import Workload, parse_workload
from tests.support.gpu import binaries as gpu_binaries
from tests.support.kernels.assembly import Isa, counts_of, digest, innermost_loop, llvm_code, readable_loop, sass_code
from tests.support.kernels.assembly_isas import ARM, CUDA, X86
from tests.support.places import TESTS
from tests.support.run.probes import ARM_PROFILES, any_target

WIDTH = 120
FOLDER = TESTS / "golden"
NVRTC = (12, 9)
# A layer of each operator: small, and large enough for the tiles and loops that large ones have.
CPU_LAYERS = (
    "conv2d-u8s8-1x14x14x64-k3x3x64-s1-p1-float.c-u8",
    "dwconv2d-u8s8-1x14x14x64-k3x3x1-s1-p0-float.c-u8",
    "conv2d-u8s8-1x14x14x64-k3x3x64-s1-p0-g16-float.c-u8",
)
GPU_LAYERS = (
    "conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8",
    "dwconv2d-u8s8-8x14x14x64-k3x3x1-s1-p0-float.c-u8",
    "conv2d-u8s8-8x64x64x3-k3x3x32-s2-p1-s32",
)
# Defaults depend on a GPU's size: with these knobs, loops of all architectures can be compared.
_KNOBS = ("block_rows", "block_channels", "block_depth", "thread_rows", "thread_channels", "stages", "splits")
_FIRST_KNOBS = ("tile_rows", "tile_columns", "bands", "block_channels", "threads")
GPU_KNOBS: Mapping[str, Mapping[str, Value]] = {
    "cuda.first": {"products": "mma", **dict(zip(_FIRST_KNOBS, (4, 32, 1, 32, 128), strict=True))},
    "cuda.wgmma": dict(zip(_KNOBS, (64, 64, 128, 2, 16, 3, 1), strict=True)) | {"roles": "uniform", "added": "kernel"},
    "cuda.mma": dict(zip(_KNOBS, (64, 64, 64, 4, 8, 3, 1), strict=True)) | {"added": "kernel"},
    "cuda.dp4a": dict(zip(_KNOBS, (16, 16, 32, 2, 4, 3, 1), strict=True)) | {"added": "kernel"},
}
# What stands in a file in place of a loop that another profile has, too.
_SAME = re.compile(r"^; the loop of (\S+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """A template on a profile, and the layer that shows its inner loop there."""

    template: Template
    profile: str
    workload: Workload

    @property
    def target(self) -> Target:
        return any_target(self.profile)

    @property
    def config(self) -> Mapping[str, Value]:
        """The template's default, but for what GPUs would have of their own."""
        default = self.template.space(self.workload, self.target).default
        return {**default, **GPU_KNOBS.get(self.template.name, {})}

    @property
    def path(self) -> Path:
        return FOLDER / self.template.name / f"{self.profile}.s"


def cases() -> list[Case]:
    """The first layer that each template takes on each profile."""
    found = []
    for template in TEMPLATES:
        for profile in PROFILE_NAMES:
            layers = map(parse_workload, GPU_LAYERS if profile in GPU_PROFILES else CPU_LAYERS)
            taken = [layer for layer in layers if template.rejects(layer, any_target(profile)) is None]
            found += [Case(template, profile, layer) for layer in taken[:1]]
    return found


def missing(profile: str) -> str | None:
    """What this machine lacks to make the profile's golden files, or None."""
    if profile not in GPU_PROFILES:
        return None
    if reason := gpu_binaries.missing():
        return reason
    if (found := nvrtc.version()) != NVRTC:
        return f"needs NVRTC {NVRTC[0]}.{NVRTC[1]}, of which the golden files are, found: {found[0]}.{found[1]}"
    return None


def isa_of(target: Target) -> Isa:
    if target.gpu is not None:
        return CUDA
    return ARM if target.profile in ARM_PROFILES else X86


def llvm_lines(template: Template, workload: Workload, target: Target, config: Mapping[str, Value]) -> list[str]:
    """A CPU's library of a config."""
    function = template.apply(workload, target, config).function
    return llvm_code(str(compile_function(function, target).mod.inspect_source("asm")))


def cuda_text(template: Template, workload: Workload, target: Target, config: Mapping[str, Value]) -> str:
    """A GPU's kernels of a config, as CUDA C++."""
    return cuda_source(compile_function(template.apply(workload, target, config).function, target).mod)


def golden_text(case: Case) -> str:
    """A case's golden file."""
    if case.target.gpu is not None:
        return _text_of(case, *_gpu_code(case))
    lines = llvm_lines(case.template, case.workload, case.target, case.config)
    return _text_of(case, lines, [f"; all code: {len(lines)} lines, sha256 {digest(lines)}"])


def stored_text(case: Case) -> str:
    """A case's golden file as it is stored, with the loop that it may share with another profile."""
    text = case.path.read_text()
    if same := _SAME.search(text):
        return text[: same.start()] + "".join(_loop_of((case.path.parent / same[1]).read_text()))
    return text


def store(case: Case, text: str) -> None:
    """Write a case's golden file; a loop that an earlier profile's file has is named, not repeated."""
    case.path.parent.mkdir(parents=True, exist_ok=True)
    earlier = [other for other in cases() if other.template is case.template]
    for other in earlier[: earlier.index(case)]:
        if other.path.exists() and _loop_of(other.path.read_text()) == _loop_of(text) != []:
            head = "".join(line for line in text.splitlines(keepends=True) if line.startswith(";"))
            case.path.write_text(f"{head}; the loop of {other.path.name}\n")
            return
    case.path.write_text(text)


def _loop_of(text: str) -> list[str]:
    return [line for line in text.splitlines(keepends=True) if not line.startswith(";")]


def source_line(case: Case) -> str:
    """The line of a GPU's golden file that needs no compiler of NVIDIA's."""
    source = cuda_text(case.template, case.workload, case.target, case.config)
    return f"; CUDA C++: sha256 {digest([source])}"


def _gpu_code(case: Case) -> tuple[list[str], list[str]]:
    """The machine code, and what the head of the file says of it."""
    target = case.target
    assert target.gpu is not None
    source = cuda_text(case.template, case.workload, target, case.config)
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(nvrtc.compile_cubin(source, target.gpu.arch))
        lines = sass_code(gpu_binaries.cuobjdump("-sass", cubin))
        usage = gpu_binaries.cuobjdump("-res-usage", cubin)
    resources = [" ".join(line.split()[:4]) for line in usage.splitlines() if "REG:" in line]
    return lines, [
        f"; CUDA C++: sha256 {digest([source])}",
        f"; all code: {len(lines)} lines, sha256 {digest(lines)}",
        f"; a thread: {', '.join(resources)}",
    ]


def _text_of(case: Case, lines: Sequence[str], about: Sequence[str]) -> str:
    isa = isa_of(case.target)
    loop = innermost_loop(lines, isa)
    knobs = ", ".join(f"{name}={value}" for name, value in case.config.items())
    head = [
        f"; {case.template.name} version {case.template.version} on {case.profile}",
        f"; {case.workload.key}",
        *textwrap.wrap(knobs, WIDTH, initial_indent="; ", subsequent_indent="; "),
        *about,
        f"; inner loop: {counts_of(loop, isa)}",
    ]
    return "\n".join([*head, *readable_loop(loop, isa)]) + "\n"
