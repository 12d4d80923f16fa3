"""What is done on the day: four steps of commands with limits, and the layers that they measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEVICE, TARGET = "h100", "cuda-sm90"
PROGRAM = "int8tune"
# Seconds of a step, below the ten minutes that a command may take there.
LIMITS_S: Mapping[str, float] = {"0": 60, "1": 560, "2": 580, "3": 580, "4": 580}
INVENTORY = f"""[[boards]]
name = "{DEVICE}"
transport = "gpu"
target = "{TARGET}"
limits = {{ memory = "16 GiB", disk = "16 GiB", transfer_s = 300 }}
"""
# Small layers for every template and rounding rule, with borders, groups, zero points of weights, residuals, splits and
# channels that fill no word.
ADVERSARIAL = (
    "dense-u8s8-256x512-o512-float.c-u8",
    "dense-u8u8-64x512-o256-wz-float.c-u8",
    "dense-s8s8-8x4096-o64-s32",
    "dense-u8s8-1x1000-o10-fused.c-u8",
    "conv2d-u8s8-4x14x14x64-k3x3x128-s1-p1-float.c-u8",
    "conv2d-s8s8-1x28x28x32-k1x1x64-s2-p0-fixed.c-adds8-s8",
    "conv2d-u8s8-2x14x14x128-k1x1x64-s1-p0-float.c-addu8-u8",
    "conv2d-u8s8-1x56x56x3-k7x7x64-s2-p3-float.c-u8",
    "conv2d-s8s8-1x14x14x32-k3x3x32-s1-p1-g8-fixed.c-s8",
    "conv2d-u8u8-1x14x14x48-k3x3x32-s1-p1-wz-fused.c-u8",
    "dwconv2d-u8s8-1x28x28x64-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-s8s8-1x28x28x64-k3x3x1-s2-p1-fixed.c-s8",
)
# ResNet-50 at batch 1, 16 and 64, BERT, and a depthwise layer of MobileNet V2: such as the oracle computes in seconds.
CAMPAIGN = (
    "conv2d-u8s8-1x14x14x256-k3x3x256-s1-p1-float.c-u8",
    "conv2d-u8s8-1x56x56x64-k1x1x256-s1-p0-float.c-u8",
    "conv2d-u8s8-1x28x28x128-k3x3x128-s1-p1-float.c-u8",
    "conv2d-u8s8-16x14x14x256-k3x3x256-s1-p1-float.c-u8",
    "conv2d-u8s8-16x14x14x1024-k1x1x256-s1-p0-float.c-u8",
    "conv2d-u8s8-64x14x14x1024-k1x1x256-s1-p0-float.c-u8",
    "dense-u8s8-128x768-o3072-float.c-u8",
    "dense-u8s8-2048x768-o768-float.c-u8",
    "dwconv2d-u8s8-1x28x28x192-k3x3x1-s1-p1-float.c-u8",
    "dwconv2d-u8s8-16x28x28x192-k3x3x1-s1-p1-float.c-u8",
)
SEARCHED = ("dense-s8s8-2048x768-o768-float.c-s8", "conv2d-s8s8-16x14x14x256-k3x3x256-s1-p1-float.c-s8")
BUNDLED = ("dense-u8s8-256x512-o512-float.c-u8", "conv2d-u8s8-4x14x14x64-k3x3x128-s1-p1-float.c-u8")


@dataclass(frozen=True, slots=True)
class Work:
    """What the steps measure.

    Attributes:
        searched: layers that MetaSchedule searches, too.
        trials: of each layer of the campaign and of MetaSchedule; `checked_trials`: of the adversarial layers.
        figures_limit_s: after which no comparison begins.
    """

    adversarial: Sequence[str] = ADVERSARIAL
    campaign: Sequence[str] = CAMPAIGN
    searched: Sequence[str] = SEARCHED
    bundled: Sequence[str] = BUNDLED
    trials: int = 16
    checked_trials: int = 8
    figures_limit_s: float = 255
    inventory: str = INVENTORY


def table(name: str, keys: Sequence[str]) -> dict[str, Any]:
    """A layer table of workloads, named by their keys."""
    layers = [{"name": key, "count": 1, "workload": key} for key in keys]
    return {"format": 1, "name": name, "description": f"layers of the kit: {name}", "layers": layers}


def plan(program: str = PROGRAM, work: Work = Work()) -> dict[str, Any]:
    """Limits and commands of all steps; `program` is the module that is run as int8tune."""
    # Without this folder before the packages, some of whose names are in it, too.
    own = ["{python}", "-P", "-m", program]
    farm = ["--inventory", "{all}/farm.toml", "--results", "{all}/records"]
    steps: dict[str, list[dict[str, Any]]] = {
        "0": [],
        "1": [
            _command("the machine", 20, ["{python}", "{all}/about.py"]),
            _command("tiles", 90, ["{python}", "{all}/run_tiles.py", "{all}/tiles", "{out}/tiles.json"]),
            _command(
                "layers beside other libraries",
                200,
                ["{python}", "{all}/run_layers.py", "{all}/layers", "{out}/layers.json"],
            ),
            _command(
                "a bundle through the agent",
                60,
                ["{python}", "-I", "-S", "{all}/first.pyz", "--folder", "{all}/records"],
            ),
            *(_sanitizer(tool) for tool in ("memcheck", "racecheck")),
        ],
        "2": [
            _command("devices check", 150, [*own, "devices", "check", DEVICE, "--inventory", "{all}/farm.toml"]),
            _tune(own, farm, "adversarial", 400, work.checked_trials),
        ],
        "3": [
            _tune(own, farm, "campaign", 290, work.trials),
            _command(
                "figures of the tuned",
                270,
                [
                    *("{python}", "{all}/gpu_figures.py", "--device", DEVICE, "--layers", "2"),
                    *("--limit-s", f"{work.figures_limit_s:g}", "--json", "{out}/figures.json", "--", *farm),
                ],
                good_codes=[0, 1],
            ),
        ],
        "4": [
            _command(
                "MetaSchedule on two layers",
                560,
                [
                    *(*own, "lab", "--against", "metaschedule", "--device", DEVICE, *work.searched),
                    *("--trials", str(work.trials), *farm),
                ],
            )
        ],
    }
    return {"limits_s": dict(LIMITS_S), "steps": steps}


def _command(name: str, limit_s: float, words: Sequence[str], **more: Any) -> dict[str, Any]:
    return {"name": name, "limit_s": limit_s, "words": list(words), **more}


def _sanitizer(tool: str) -> dict[str, Any]:
    """Each tile once more, with NVIDIA's tool for wrong accesses or races, where that is there."""
    words = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "{python}", "{all}/run_tiles.py"]
    return _command(tool, 100, [*words, "{all}/tiles", f"{{out}}/{tool}.json", "--exact-only"], if_found=words[0])


def _tune(own: Sequence[str], farm: Sequence[str], name: str, limit_s: float, trials: int) -> dict[str, Any]:
    """A campaign that stops in time by itself."""
    words = ["tune", f"{{all}}/tables/{name}.json", "--devices", DEVICE, "--trials", str(trials)]
    return _command(f"tune {name}", limit_s, [*own, *words, "--time", f"{limit_s - 25:.0f}s", *farm])


def step_line(step: int, piece: str) -> str:
    """The command line of a step, of a piece's folder there."""
    return f'export OUT="${{OUT:-$PWD/out}}"; python3 -u {piece}/day.py {step}'
