"""Which test files concern a module of the product: those that import it, then those of its area."""

from __future__ import annotations

import functools
from pathlib import Path

from tiers import ROOT, TESTS, imported_files

# Areas whose tests reach a module without an import, as they run the program: by path, the beginnings of files' names.
BY_AREA = {
    "schedules/x86": (
        "schedules_templates",
        "schedules_depthwise_x86",
        "schedules_grouped_x86",
        "schedules_x86",
        "schedules_amx",
        "schedules_goldens",
    ),
    "schedules/arm": ("schedules_arm", "schedules_goldens", "schedules_templates"),
    "schedules/cuda": ("schedules_cuda", "schedules_goldens", "schedules_templates"),
    "schedules/generic": ("schedules_templates", "schedules_registry"),
    "schedules": ("schedules",),
    "compiler/onnx_reader": ("compiler_onnx",),
    "compiler/operator_kernels": ("compiler_operator",),
    "compiler": ("compiler",),
    "results": ("results",),
    "rpc/farm": ("farm",),
    "rpc/bundle": ("bundle", "cli_bundle"),
    "rpc": ("rpc", "farm_boards"),
    "tuner/search": ("tuner_search", "tuner_suggest"),
    "tuner/cost_model": ("tuner_cost_model", "campaign_teaching"),
    "tuner/campaign": ("campaign", "cli_tune"),
    "tuner/builder": ("build",),
    "tuner/bench": ("bench", "cli_bench"),
    "tuner/models": ("models", "cli_models"),
    "tuner/lab": ("lab",),
    "tuner/metaschedule": ("metaschedule",),
    "tuner/cli": ("cli",),
    "tuner": ("tuner", "campaign", "cli_tune"),
}


def files_for(module: str) -> list[Path]:
    """Test files for a module, the likeliest to find a fault in it first: its path is from the repository's root on."""
    file = ROOT / "src" / "int8tune" / module
    direct = [path for path in _all() if file in _reached(path)]
    area = next(area for area in BY_AREA if module.startswith(f"{area}/"))
    names = [path for path in _all() if path.stem.removeprefix("test_").startswith(BY_AREA[area])]
    return sorted({*direct, *names}, key=lambda path: (path not in direct, path not in names, path.name))


@functools.cache
def _all() -> tuple[Path, ...]:
    return tuple(sorted(TESTS.rglob("test_*.py")))


@functools.cache
def _reached(path: Path) -> frozenset[Path]:
    """What a test file imports, and what the tests' own modules that it imports import."""
    imported = imported_files(path)
    own = [file for file in imported if TESTS in file.parents and not file.name.startswith("test_")]
    return imported.union(*map(imported_files, own))
