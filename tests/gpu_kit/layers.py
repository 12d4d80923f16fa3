"""Kernels of whole layers as machine code, to be timed beside other libraries without TVM (`there/run_layers.py`)."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from int8tune.compiler.toolchain.gpu_library import cuda_source
from int8tune.schedules.cuda.channel_order import WARP_CHANNELS
from int8tune.schedules.cuda.forms import form_of
from int8tune.schedules.cuda.gemm_form import GemmForm
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import Config
from int8tune.schedules.target import gpu_target
from int8tune.schedules.workload import Conv2d, Dense, DepthwiseConv2d, parse_workload
from int8tune.tuner.bench.layers import choose_layers
from tests.gpu_figures import CUBES
from tests.gpu_kit.tiles import TARGET, Compile, hopper_cubin, launches
from tests.support.places import ROOT, TESTS

# Of BERT at batch 16: 128 words each.
BERT = tuple(
    f"dense-u8s8-2048x{depth}-o{outputs}-float.c-u8" for depth, outputs in ((768, 768), (768, 3072), (3072, 768))
)
NETWORK, DEPTHWISE_NETWORK, BATCHES = "resnet50", "mobilenet_v2", (64, 16, 1)
# Kernels of each layer: its default, those that were fastest before, and of other tiles those expected to be.
KERNELS, KNOWN_KERNELS = 10, 2
KNOWN = TESTS / "data" / "h200_layers.json"
MOST_THREADS = 512
# What `run_layers.py` reads there of int8tune: how operands are packed, and cuBLASLt's interface. It is Python alone.
NEEDED = ("schedules", "tuner/bench", "rpc/agent")


def groups() -> dict[str, list[str]]:
    """Layers by the goal that they count for."""
    found = {"products": [*CUBES, *BERT]}
    for batch in BATCHES:
        layers = choose_layers([NETWORK], batch=batch)
        found[f"{NETWORK}, batch {batch}"] = [one.key for one in layers if isinstance(one, Conv2d | Dense)]
    for batch in BATCHES:
        layers = choose_layers([DEPTHWISE_NETWORK], batch=batch)
        found[f"depthwise, batch {batch}"] = [one.key for one in layers if isinstance(one, DepthwiseConv2d)]
    return found


def write_layers(
    folder: Path,
    compile_source: Compile = hopper_cubin,
    layers: Mapping[str, Sequence[str]] | None = None,
    kernels: int = KERNELS,
) -> None:
    """Write `layers.json`, machine code, and the parts of int8tune that are read there."""
    folder.mkdir(parents=True)
    wanted = groups() if layers is None else layers
    keys = list(dict.fromkeys(key for group in wanted.values() for key in group))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        specs = list(pool.map(partial(_layer, folder, compile_source, kernels), range(len(keys)), keys))
    table = {"groups": wanted, "layers": dict(zip(keys, specs, strict=True))}
    (folder / "layers.json").write_text(json.dumps(table, indent=1))
    own = folder / "own" / "int8tune"
    for name in NEEDED:
        shutil.copytree(ROOT / name, own / name, ignore=shutil.ignore_patterns("__pycache__", "*.cc", "*.so"))
    for name in ("", "tuner", "rpc"):
        shutil.copyfile(ROOT / "src" / "int8tune" / name / "__init__.py", own / name / "__init__.py")


def _layer(folder: Path, compile_source: Compile, kernels: int, number: int, key: str) -> dict[str, Any]:
    workload, target = parse_workload(key), gpu_target(TARGET)
    assert isinstance(workload, Conv2d | Dense | DepthwiseConv2d)
    assert target.gpu is not None
    template = template_for(workload, target)
    specs = []
    for index, config in enumerate(candidates(key, template.name, kernels)):
        kernel = template_named(template.name).apply(workload, target, config)
        source = cuda_source(compile_function(kernel.function, target).mod)
        name = f"layer-{number}-{index}.cubin"
        (folder / name).write_bytes(compile_source(source))
        form = form_of(template.name, workload, config)
        partial_sums = form.partial_sums if isinstance(form, GemmForm) else 0
        ways = list(launches(form, source, target.gpu.multiprocessors))
        specs.append({"config": config, "cubin": name, "launches": ways, "partial_sums": partial_sums})
    return {"template": template.name, "kernels": specs}


def candidates(key: str, template: str, count: int) -> list[Config]:
    """The default, those that were fastest before, and the cheapest of other tiles, roles or splits."""
    space = template_named(template).space(parse_workload(key), gpu_target(TARGET))
    assert space.features is not None
    best: dict[tuple[Any, ...], tuple[tuple[float, int], Config]] = {}
    default = dict(space.default)
    chosen = [default, *(config for config in known_fastest(key, template) if config != default)][:count]
    taken = {_identity(config) for config in chosen}
    for values in itertools.product(*(knob.choices for knob in space.knobs)):
        config = dict(zip((knob.name for knob in space.knobs), values, strict=True))
        identity = _identity(config)
        if identity in taken or not _is_worth_a_look(config) or space.fault(config) is not None:
            continue
        cost = space.features(config)["expected_cycles"], -int(config.get("stages", 0))
        if identity not in best or cost < best[identity][0]:
            best[identity] = cost, config
    cheapest = sorted(best.values(), key=lambda one: one[0])[: count - len(chosen)]
    return [*chosen, *(config for _, config in cheapest)]


def known_fastest(key: str, template: str) -> list[Config]:
    """The configs of a layer that were fastest where it was timed before, if they are configs still."""
    space = template_named(template).space(parse_workload(key), gpu_target(TARGET))
    names = {knob.name for knob in space.knobs}
    fastest = sorted(timed_kernels(template).get(key, ()), key=lambda one: one[1])[:KNOWN_KERNELS]
    known = [space.completed({name: config[name] for name in config.keys() & names}) for config, _ in fastest]
    return [config for config in known if space.fault(config) is None]


@functools.cache
def timed_kernels(template: str) -> dict[str, list[tuple[Config, float]]]:
    """Configs that an H200 timed, with microseconds, by layer (`there/run_layers.py`)."""
    kept = json.loads(KNOWN.read_text())["templates"].get(template, {"knobs": [], "layers": {}})

    def timed(row: Sequence[Any]) -> tuple[Config, float]:
        *values, us = row
        return {"outer": "weights", **dict(zip(kept["knobs"], values, strict=True))}, us

    return {key: [timed(row) for row in rows] for key, rows in kept["layers"].items()}


def _is_worth_a_look(config: Mapping[str, Any]) -> bool:
    """Whether the space's own rules, which take longer, may let a config pass; there are hundreds of thousands."""
    if "stages" not in config:
        return True
    rows, channels = (int(config[f"block_{name}"]) for name in ("rows", "channels"))
    thread_rows, thread_channels = (int(config[f"thread_{name}"]) for name in ("rows", "channels"))
    is_split, has_roles = config["splits"] > 1, config.get("roles", "uniform") != "uniform"
    return (
        config["outer"] == "weights"
        and channels % (WARP_CHANNELS * thread_channels) == 0
        and rows % thread_rows == 0
        and rows * channels <= MOST_THREADS * thread_rows * thread_channels
        and (is_split or config["added"] == "kernel")
        and not (is_split and has_roles)
    )


def _identity(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """What differs in the kernels that are timed: of products of matrices not the stages and the sums of a thread."""
    if "stages" not in config:
        return tuple(config.values())
    return tuple(config.get(name) for name in ("block_rows", "block_channels", "roles", "splits"))
