"""Estimated cycles of a Cortex-A53 for the layers of networks: `python -m tests.arm_estimates [NETWORK ...]`.

Each layer's kernels are compiled for aarch64, and llvm-mca's cycles of each piece of their code are multiplied by how
often it runs. That is an estimate: its model knows no caches. Compared are the ARM templates' defaults with the generic
template, which LLVM vectorizes, the best of nine configs on registers of 4, 8 and 16 lanes, and with TVM's own int8
intrinsic, the best of its tiles; layers that this does not take, depthwise ones, have none. The bound is what the
products alone take: three instructions for sixteen. Beside it stands a bound that has the vector instructions of
requantizing, too, and the share of cycles in which the kernel begins any vector instruction, loads not counted. With
`--samples N`, so many random configs of each layer are estimated, too, and the best of them compared with the default;
with `--own`, the ARM templates' defaults alone; with `--jobs N`, in so many processes. `--blocks LAYER` shows where one
layer's cycles go.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.compiler.network_file import load_network
from int8tune.rpc.mca.disassembly import Instruction, disassemble
from int8tune.rpc.mca.estimate import ENTRY_SYMBOL, cycles_of_blocks, estimate_cycles
from int8tune.rpc.mca.tools import llvm_version, tool
from int8tune.rpc.mca.walk import walk
from int8tune.schedules.image import image_of
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import Target, target_for
from int8tune.schedules.template import Kernel, Template
from int8tune.schedules.workload import Dense, DepthwiseConv2d, Workload, parse_workload
from tests.support.stand_ins.stock_neon import stock_conv, tile_columns_of

CPU, TRIPLE = "cortex-a53", "aarch64-linux-gnu"
LIMIT_S = 60.0
NETWORKS = ("mobilenet_v1", "mobilenet_v2", "resnet18")
# SMULL and SMLAL of eight products each, and SADALP, of which the core issues one a cycle.
MACS_OF_BOUND = 16 / 3
# For each output, to s8 or u8 by the float rule: for four of them SCVTF, FMUL, FCVTNS, SQXTN; for eight SQADD, SQXTUN.
REQUANTIZING = 4 / 4 + 2 / 8
KINDS, LEAST_SHARE = ("products", "vectors", "memory", "others"), 0.01
# Vectors of plain schedules, and random configs of each but the first.
PLAIN_LANES, PLAIN_SAMPLES = (4, 8, 16), 3


@dataclass(frozen=True, slots=True)
class Row:
    """A layer's estimated cycles; `plain` and `stock` where that was asked for and TVM's intrinsic takes the layer."""

    workload: Workload
    config: str
    own: float
    busy: float
    plain: float | None
    stock: float | None
    sampled: float | None

    @property
    def kind(self) -> str:
        if isinstance(self.workload, DepthwiseConv2d):
            return "depthwise"
        if isinstance(self.workload, Dense):
            return "dense"
        if self.workload.in_channels < 8:
            return "first"
        return f"{'x'.join(map(str, self.workload.window.kernel))}"

    @property
    def share_of_bound(self) -> float:
        return self.workload.macs / MACS_OF_BOUND / self.own

    @property
    def share_of_whole_bound(self) -> float:
        """The share of the kernel's cycles that the products and requantizing take."""
        outputs = math.prod(self.workload.output_shape)
        return (self.workload.macs / MACS_OF_BOUND + outputs * REQUANTIZING) / self.own


def arm_target() -> Target:
    return target_for({"asimd"}, CPU, TRIPLE, "arm-neon")


def plain_target() -> Target:
    return target_for({"asimd"}, CPU, TRIPLE, "generic")


def cycles(function: Any, target: Target) -> float:
    """The estimated cycles of a PrimFunc, compiled for the target."""
    return cycles_and_vectors(function, target)[0]


def cycles_and_vectors(function: Any, target: Target) -> tuple[float, float]:
    """And how many vector instructions it executes that are no loads and no stores."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "kernel.o"
        compile_function(function, target).mod.write_to_file(str(compiled))
        code = disassemble(compiled, LIMIT_S)
        walked = walk(code, code.symbols[ENTRY_SYMBOL], LIMIT_S)
        vectors = {start: sum(map(is_vector, block.instructions)) for start, block in walked.blocks.items()}
        count = sum(count * vectors[block] for (_, block), count in walked.edges.items())
        return estimate_cycles(compiled, CPU).cycles, count


def is_vector(instruction: Instruction) -> bool:
    return instruction.operands.startswith("v") and not instruction.mnemonic.startswith(("ld", "st"))


def default_kernel(template: Template, workload: Workload, target: Target) -> Kernel:
    return template.apply(workload, target, template.space(workload, target).default)


def stock_cycles(workload: Workload) -> float | None:
    """The cycles of TVM's intrinsic with the best of its tiles; it multiplies s8 by s8."""
    if isinstance(workload, DepthwiseConv2d):
        return None
    image = image_of(workload)
    image = replace(image, numerics=replace(image.numerics, data="s8"))
    return min(cycles(stock_conv(image, columns), plain_target()) for columns in tile_columns_of(image))


def plain_cycles(workload: Workload) -> float:
    """The fewest cycles of the generic template's default and some random configs with sums in several registers."""
    found = []
    for lanes in PLAIN_LANES:
        target = replace(plain_target(), vector_lanes=lanes)
        template, rng = template_for(workload, target), np.random.default_rng(0)
        space = template.space(workload, target)
        samples = PLAIN_SAMPLES if lanes > PLAIN_LANES[0] else 0
        configs = [space.default, *(space.sample(rng) for _ in range(samples))]
        found += [cycles(template.apply(workload, target, config).function, target) for config in configs]
    return min(found)


def sampled_cycles(template: Template, workload: Workload, count: int) -> float | None:
    """The fewest of so many random configs."""
    rng, target = np.random.default_rng(0), arm_target()
    space = template.space(workload, target)
    configs = [space.sample(rng) for _ in range(count)]
    found = [cycles(template.apply(workload, target, config).function, target) for config in configs]
    return min(found, default=None)


def rows(networks: tuple[str, ...], samples: int, own_only: bool, jobs: int) -> Iterator[Row]:
    """Each distinct layer once, in order, by so many processes."""
    layers = (layer.workload for network in networks for layer in load_network(network).layers)
    distinct = {workload.key: workload for workload in layers}.values()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(row_of, samples=samples, own_only=own_only), distinct)


def row_of(workload: Workload, samples: int, own_only: bool) -> Row:
    own = template_for(workload, arm_target())
    config = own.space(workload, arm_target()).default
    own_cycles, vectors = cycles_and_vectors(default_kernel(own, workload, arm_target()).function, arm_target())
    return Row(
        workload,
        " ".join(str(value) for value in config.values()),
        own_cycles,
        vectors / own_cycles,
        None if own_only else plain_cycles(workload),
        None if own_only else stock_cycles(workload),
        sampled_cycles(own, workload, samples),
    )


def mean(ratios: list[float]) -> float:
    """The geometric mean; not a number where there are none."""
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan


def print_blocks(workload: Workload) -> None:
    """The parts of a default kernel's code that take a hundredth of its cycles and more, in order."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "kernel.o"
        function = default_kernel(template_for(workload, arm_target()), workload, arm_target()).function
        compile_function(function, arm_target()).mod.write_to_file(str(compiled))
        code = disassemble(compiled, LIMIT_S)
    walked = walk(code, code.symbols[ENTRY_SYMBOL], LIMIT_S)
    found, runs = cycles_of_blocks(walked, CPU, LIMIT_S), Counter[int]()
    for (_, block), count in walked.edges.items():
        runs[block] += count
    print("| of all cycles | runs | cycles of a run | products | other vectors | memory | others |")
    print("|-|-|-|-|-|-|-|")
    for start in sorted(found):
        share = found[start] / sum(found.values())
        kinds = Counter(map(kind_of, walked.blocks[start].instructions))
        numbers = " | ".join(str(kinds[kind]) for kind in KINDS)
        if share >= LEAST_SHARE:
            print(f"| {share:.1%} | {runs[start]} | {found[start] / runs[start]:.1f} | {numbers} |")


def kind_of(instruction: Instruction) -> str:
    name = instruction.mnemonic
    if re.fullmatch(r"smu?[lm]a?l2?|sad[ad]lp", name):
        return KINDS[0]
    if name.startswith(("ld", "st")):
        return KINDS[2]
    return KINDS[1] if is_vector(instruction) else KINDS[3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--blocks", metavar="LAYER")
    arguments = parser.parse_args()
    print(f"estimated cycles by llvm-mca of LLVM {llvm_version(tool('llvm-mca'))}, model {CPU}; nothing is measured\n")
    if arguments.blocks:
        print_blocks(parse_workload(arguments.blocks))
        return
    columns = "MACs/cycle | of the bound | of both | vectors | plain / own | intrinsic / own | own / best of samples"
    print(f"| layer | default | {columns} |")
    print("|-|-|-|-|-|-|-|-|-|")
    found = []
    for row in rows(tuple(arguments.networks), arguments.samples, arguments.own, arguments.jobs):
        found.append(row)
        print(f"| {row.workload.key} | {row.config} | {figures([row])} |", flush=True)
    print(f"\n| layers | count | {columns} |")
    print("|-|-|-|-|-|-|-|-|-|")
    for kind in (*sorted({row.kind for row in found}), "all"):
        chosen = [row for row in found if kind in (row.kind, "all")]
        print(f"| {kind} | {len(chosen)} | {figures(chosen)} |")


def figures(chosen: list[Row]) -> str:
    """Geometric means over some layers, `-` where no layer has the figure."""
    columns = (
        (".2f", [row.workload.macs / row.own for row in chosen]),
        (".0%", [row.share_of_bound for row in chosen]),
        (".0%", [row.share_of_whole_bound for row in chosen]),
        (".0%", [row.busy for row in chosen]),
        (".2f", [row.plain / row.own for row in chosen if row.plain]),
        (".2f", [row.stock / row.own for row in chosen if row.stock]),
        (".2f", [row.own / row.sampled for row in chosen if row.sampled]),
    )
    return " | ".join(format(mean(values), form) if values else "-" for form, values in columns)


if __name__ == "__main__":
    main()
