"""What loops of GPU kernels consist of: `python -m tests.gpu_code`, with NVIDIA's compiler, and without a GPU.

One tile of each template is compiled for each architecture. Of the innermost loop that has the products: its
instructions, how many of them are products, and how many multiply-adds a warp does with each instruction. That is no
time: it says what a multiprocessor has to issue.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from int8tune.schedules.gpus import GPUS, WARP
from int8tune.schedules.registry import template_named
from int8tune.schedules.space import Value
from tests.support.gpu.binaries import Code, code_of, missing

CONV = "conv2d-u8s8-32x28x28x128-k3x3x128-s1-p1-float.c-u8"
DEPTHWISE = "dwconv2d-u8s8-32x56x56x128-k3x3x1-s1-p1-float.c-u8"
MATRICES = {"block_rows": 128, "block_channels": 128, "block_depth": 64, "thread_rows": 8, "thread_channels": 16}
GROUPS: dict[str, Value] = {
    "block_rows": 128,
    "block_channels": 128,
    "block_depth": 128,
    "thread_rows": 2,
    "thread_channels": 32,
    "roles": "uniform",
}
WORDS = {"block_rows": 64, "block_channels": 64, "block_depth": 64, "thread_rows": 8, "thread_channels": 8}
# sm_75 has shared memory for two stages of either tile.
STAGES = {"cuda-sm75": 2}


def main() -> int:
    if reason := missing():
        print(reason, file=sys.stderr)
        return 1
    print("| template | GPU | registers | in memory | loop | products | share | MACs an instruction |")
    print("|-|-|-|-|-|-|-|-|")
    with tempfile.TemporaryDirectory() as folder:
        for name, tile in (("cuda.wgmma", GROUPS), ("cuda.mma", MATRICES), ("cuda.dp4a", WORDS)):
            for gpu in GPUS:
                if name == "cuda.wgmma" and not gpu.has_group_products:
                    continue
                knobs: dict[str, Value] = {**tile, "stages": STAGES.get(gpu.profile, 4), "splits": 1, "added": "kernel"}
                code = code_of(CONV, gpu.profile, Path(folder), knobs, template_named(name))
                print(_loop_row(name, gpu.arch, code))
        for rows, columns in ((1, 4), (2, 4), (2, 7), (4, 4)):
            print(_depthwise_row(rows, columns, 1, Path(folder)))
        print(_depthwise_row(2, 4, 14, Path(folder)))
    return 0


def _loop_row(name: str, arch: str, code: Code) -> str:
    product = {"cuda.wgmma": "IGMMA", "cuda.mma": "IMMA", "cuda.dp4a": "IDP"}[name]
    loop = code.loop_with_most(product)
    narrow = arch == "sm_75"
    macs = {"IGMMA": 16 * 128 * 32, "IMMA": 8 * 8 * 16 if narrow else 16 * 8 * 32, "IDP": WARP * 4}[product]
    share = loop[product] / loop.total()
    cells = (name, arch, code.registers, code.memory_bytes, loop.total(), loop[product], f"{share:.0%}")
    return f"| {' | '.join(map(str, cells))} | {macs * share:,.0f} |"


def _depthwise_row(rows: int, columns: int, steps: int, folder: Path) -> str:
    """All of a kernel that has no loop; of one that goes down the image, two steps, which are a turn of its loop."""
    knobs: dict[str, Value] = {"tile_rows": rows, "tile_columns": columns, "threads": 64, "steps": steps}
    code = code_of(DEPTHWISE, "cuda-sm80", folder, knobs)
    if steps > 1:
        names, turn = code.order_in_loop_with_most("IDP"), 2
    else:
        names, turn = [name.split(".")[0] for _, name, _ in code.instructions if name != "NOP"], 1
    macs, products = turn * rows * columns * 4 * 9 * WARP, names.count("IDP")
    tile = f"{rows} x {columns}" + (f", {steps} steps" if steps > 1 else "")
    cells = (f"cuda.depthwise {tile}", "sm_80", code.registers, code.memory_bytes, len(names), products)
    return f"| {' | '.join(map(str, cells))} | {products / len(names):.0%} | {macs / len(names):,.0f} |"


if __name__ == "__main__":
    raise SystemExit(main())
