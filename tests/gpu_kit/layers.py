"""Kernels of whole layers as machine code, to be timed beside other libraries without TVM (`there/run_layers.py`)."""

from __future__ import annotations

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
from int8tune.schedules.cuda.gemm_form import gemm_form
from int8tune.schedules.cuda.gemm_space import expected_cycles
from int8tune.schedules.image import image_of
from int8tune.schedules.lowering import compile_function
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import Config
from int8tune.schedules.target import gpu_target
from int8tune.schedules.workload import Conv2d, Dense, parse_workload
from int8tune.tuner.bench.layers import choose_layers
from tests.gpu_figures import CUBES
from tests.gpu_kit.tiles import TARGET, Compile, hopper_cubin, launches
from tests.support.places import ROOT

# Of BERT at batch 16: 128 words each.
BERT = tuple(
    f"dense-u8s8-2048x{depth}-o{outputs}-float.c-u8" for depth, outputs in ((768, 768), (768, 3072), (3072, 768))
)
NETWORK, BATCHES = "resnet50", (64, 16, 1)
# Kernels of each layer: its default, and those of other tiles that are expected to be fastest.
KERNELS = 10
# What `run_layers.py` reads there of int8tune: how operands are packed, and cuBLASLt's interface. It is Python alone.
NEEDED = ("schedules", "tuner/bench", "rpc/agent")


def groups() -> dict[str, list[str]]:
    """Layers by the goal that they count for."""
    found = {"products": [*CUBES, *BERT]}
    for batch in BATCHES:
        layers = choose_layers([NETWORK], batch=batch)
        found[f"{NETWORK}, batch {batch}"] = [one.key for one in layers if isinstance(one, Conv2d | Dense)]
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
    assert isinstance(workload, Conv2d | Dense)
    assert target.gpu is not None
    template = template_for(workload, target)
    specs = []
    for index, config in enumerate(_candidates(key, template.name, kernels)):
        kernel = template_named(template.name).apply(workload, target, config)
        source = cuda_source(compile_function(kernel.function, target).mod)
        name = f"layer-{number}-{index}.cubin"
        (folder / name).write_bytes(compile_source(source))
        form = gemm_form(image_of(workload), template.name.partition(".")[2], config)
        specs.append(
            {"config": config, "cubin": name, "launches": list(launches(form, source, target.gpu.multiprocessors))}
        )
    return {"template": template.name, "kernels": specs}


def _candidates(key: str, template: str, count: int) -> list[Config]:
    """The default, and the cheapest of other tiles, roles or splits."""
    workload, target = parse_workload(key), gpu_target(TARGET)
    assert isinstance(workload, Conv2d | Dense)
    assert target.gpu is not None
    space, products = template_named(template).space(workload, target), template.partition(".")[2]
    best: dict[tuple[Any, ...], tuple[tuple[float, int], Config]] = {}
    default = dict(space.default)
    taken = _identity(default)
    for values in itertools.product(*(knob.choices for knob in space.knobs)):
        config = dict(zip((knob.name for knob in space.knobs), values, strict=True))
        identity = _identity(config)
        if identity == taken or config["outer"] != "weights" or space.fault(config) is not None:
            continue
        cost = expected_cycles(gemm_form(image_of(workload), products, config), target.gpu), -int(config["stages"])
        if identity not in best or cost < best[identity][0]:
            best[identity] = cost, config
    cheapest = sorted(best.values(), key=lambda one: one[0])[: count - 1]
    return [default, *(config for _, config in cheapest)]


def _identity(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(config.get(name) for name in ("block_rows", "block_channels", "roles", "splits"))
