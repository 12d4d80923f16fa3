"""Tiles of kernels as machine code, with what it takes to check and to time them without TVM (`there/run_tiles.py`)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.toolchain.gpu_library import cuda_source
from int8tune.compiler.toolchain.nvrtc import compile_cubin
from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.cuda.forms import Form
from int8tune.schedules.cuda.gemm_form import ADDED_CHANNELS, GemmForm, gemm_form
from int8tune.schedules.cuda.gemm_kernel import ADDING_THREADS
from int8tune.schedules.image import image_of
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import reference
from int8tune.schedules.registry import template_named
from int8tune.schedules.space import Value
from int8tune.schedules.target import gpu_target
from int8tune.schedules.workload import Conv2d, Dense, parse_workload

TARGET = "cuda-sm90"
ARGUMENTS = ("data", "weight", "bias", "rescale", "params")
# Rows and channels that fill no tile, and a window with a border. Few blocks have them, so that each has several tiles.
CHECKED = ("dense-u8s8-300x640-o288-float.c-u8", "conv2d-u8s8-2x11x11x96-k3x3x288-s1-p1-float.c-u8")
CHECKED_BLOCKS = 3
TIMED = ("dense-u8s8-4096x4096-o4096-float.c-u8",)
# Of the adversarial suite, the cases by their names.
CASES = ("random", "min-max")


@dataclass(frozen=True, slots=True)
class Tile:
    """A template's tile."""

    template: str
    rows: int
    channels: int
    depth: int
    thread_rows: int
    thread_channels: int
    stages: int
    outer: str = "weights"
    roles: str = "uniform"

    @property
    def name(self) -> str:
        product = self.template.partition(".")[2]
        marks = "i" * (self.outer == "image") + ("" if self.roles == "uniform" else f"-{self.roles}")
        return f"{product}-{self.rows}x{self.channels}x{self.depth}s{self.stages}{marks}"

    @property
    def config(self) -> dict[str, Value]:
        return {
            "block_rows": self.rows,
            "block_channels": self.channels,
            "block_depth": self.depth,
            "thread_rows": self.thread_rows,
            "thread_channels": self.thread_channels,
            "stages": self.stages,
            "splits": 1,
            "outer": self.outer,
            **({} if self.roles == "uniform" else {"roles": self.roles}),
        }


# The default of a large product, what else may win, each swizzle, and each width of `wgmma`.
TILES = (
    Tile("cuda.wgmma", 128, 256, 128, 2, 64, 4),
    Tile("cuda.wgmma", 128, 256, 64, 2, 64, 6),
    Tile("cuda.wgmma", 128, 256, 64, 2, 64, 4),
    Tile("cuda.wgmma", 256, 128, 128, 4, 32, 4),
    Tile("cuda.wgmma", 128, 128, 128, 2, 32, 3),
    Tile("cuda.wgmma", 128, 128, 128, 2, 32, 6),
    Tile("cuda.wgmma", 128, 128, 64, 2, 32, 4),
    Tile("cuda.wgmma", 64, 256, 128, 2, 64, 5),
    Tile("cuda.wgmma", 128, 64, 32, 2, 16, 6),
    Tile("cuda.wgmma", 64, 32, 128, 2, 8, 6),
    Tile("cuda.wgmma", 128, 256, 128, 2, 64, 4, "image"),
    Tile("cuda.wgmma", 128, 96, 128, 2, 24, 6),
    Tile("cuda.wgmma", 128, 256, 128, 2, 64, 4, "weights", "cooperative"),
    Tile("cuda.wgmma", 192, 128, 128, 2, 32, 5, "image", "cooperative"),
    Tile("cuda.wgmma", 128, 128, 128, 4, 32, 6, "weights", "pingpong"),
    Tile("cuda.wgmma", 64, 256, 128, 2, 64, 5, "weights", "pingpong"),
    Tile("cuda.wgmma", 64, 32, 64, 2, 8, 8, "image", "pingpong"),
    Tile("cuda.mma", 128, 128, 64, 8, 16, 4),
    Tile("cuda.mma", 64, 64, 64, 4, 8, 3),
    Tile("cuda.dp4a", 64, 64, 64, 8, 8, 4),
)
Compile = Callable[[str], bytes]


def hopper_cubin(source: str) -> bytes:
    """Raises: NoCudaCompilerError, CudaCompileError: as `compiler.toolchain.nvrtc.compile_cubin`."""
    gpu = gpu_target(TARGET).gpu
    assert gpu is not None
    return compile_cubin(source, gpu.arch)


def write_tiles(
    folder: Path,
    compile_source: Compile = hopper_cubin,
    tiles: Sequence[Tile] = TILES,
    checked: Sequence[str] = CHECKED,
    timed: Sequence[str] = TIMED,
) -> list[str]:
    """Write `tiles.json`, machine code, cases and scales; the tiles that a workload does not take."""
    folder.mkdir(parents=True)
    specs: list[dict[str, Any]] = []
    left_out = []
    for key in (*checked, *timed):
        for tile in tiles:
            if fault := _fault(tile, key):
                left_out.append(f"{tile.name} of {key}: {fault}")
                continue
            specs += _specs(folder, compile_source, tile, key, key in checked)
    (folder / "tiles.json").write_text(json.dumps(specs, indent=1))
    return left_out


def _fault(tile: Tile, key: str) -> str | None:
    space = template_named(tile.template).space(parse_workload(key), gpu_target(TARGET))
    return space.fault(tile.config)


def _specs(folder: Path, compile_source: Compile, tile: Tile, key: str, is_checked: bool) -> list[dict[str, Any]]:
    """The specs of a kernel: one for each case, or the one that times it."""
    workload, target = parse_workload(key), gpu_target(TARGET)
    if is_checked:
        target = replace(target, multiprocessors=CHECKED_BLOCKS)
    assert isinstance(workload, Conv2d | Dense)
    assert target.gpu is not None
    kernel = template_named(tile.template).apply(workload, target, tile.config)
    source = cuda_source(compile_function(kernel.function, target).mod)
    form = gemm_form(image_of(workload), tile.template.partition(".")[2], tile.config)
    name = f"{tile.name}-{abs(hash_of(key)):08x}"
    (folder / f"{name}.cubin").write_bytes(compile_source(source))
    spec = {"tile": tile.name, "workload": key, "cubin": f"{name}.cubin", "case": ""}
    (launch,) = launches(form, source, target.gpu.multiprocessors)
    spec |= launch
    if not is_checked:
        return [{**spec, **_timed(folder, name, workload, form), "ops": 2 * workload.macs}]
    specs = []
    for case, operands in adversarial_operands(workload, 0):
        if case in CASES:
            inputs = dict(zip(ARGUMENTS, kernel_inputs(workload, kernel, operands), strict=True))
            _write_arrays(folder / f"{name}.{case}", {**inputs, "expected": reference(workload, operands)})
            specs.append({**spec, "case": f"{name}.{case}"})
    return specs


def hash_of(key: str) -> int:
    """A number for a workload's key, the same everywhere."""
    import zlib

    return zlib.crc32(key.encode())


def launches(form: Form, source: str, multiprocessors: int) -> Iterator[dict[str, Any]]:
    """A kernel's launches: names, arguments in their order, blocks, threads, shared memory."""
    for name in ("main_kernel", "main_kernel_1"):
        declared = re.search(rf"\b{name}\(([^)]*)\)", source)
        if declared is None:
            continue
        named = [re.search(r"(\w*?)_?ptr$", part.strip()) for part in declared[1].split(",")]
        # Sums of splits are the one array that has no name.
        launch = {"kernel": name, "order": [match[1] or "partial" for match in named if match]}
        if name == "main_kernel":
            sizes = {"grid": form.grid(multiprocessors), "threads": form.threads, "shared_bytes": form.shared_bytes}
        else:
            assert isinstance(form, GemmForm)
            parts = form.rows * len(form.channels) // ADDED_CHANNELS
            blocks = math.ceil(parts / ADDING_THREADS)
            sizes = {"grid": (blocks,), "threads": ADDING_THREADS, "shared_bytes": 0}
        yield launch | sizes


def _timed(folder: Path, name: str, workload: Conv2d | Dense, form: GemmForm) -> dict[str, Any]:
    """How long arrays are, and scales and bounds as of a layer: about a quarter of the outputs at a bound."""
    positions = len(form.channels)
    sizes = {
        "data": int(np.prod(workload.data_shape)),
        "weight": form.weight_length,
        "bias": 4 * positions,
        "rescale": 4 * positions,
        "params": 20,
        "out": int(np.prod(workload.output_shape)),
    }
    (folder / f"{name}.rescale").write_bytes(np.full(positions, 1e-4, np.float32).tobytes())
    (folder / f"{name}.params").write_bytes(np.array([0, 0, 0, 0, 255], np.int32).tobytes())
    return {"bytes": sizes, "rescale": f"{name}.rescale", "params": f"{name}.params"}


def _write_arrays(folder: Path, arrays: Mapping[str, Any]) -> None:
    folder.mkdir()
    for name, array in arrays.items():
        (folder / name).write_bytes(np.ascontiguousarray(array).tobytes())
