"""Which test files concern a module of the product: those that import it, then those of its area."""

from __future__ import annotations

import functools
from pathlib import Path

from tests.support.places import ROOT, TESTS
from tests.support.run.tiers import imported_files

# Areas whose tests reach a module without an import, as they run the program: by path, the beginnings of files' paths.
BY_AREA = {
    "schedules/x86": (
        "schedules/test_templates",
        "schedules/test_depthwise_x86",
        "schedules/test_grouped_x86",
        "schedules/test_x86",
        "schedules/test_amx",
        "schedules/test_goldens",
    ),
    "schedules/arm": ("schedules/test_arm", "schedules/test_goldens", "schedules/test_templates"),
    "schedules/cuda": ("schedules/test_cuda", "schedules/test_goldens", "schedules/test_templates"),
    "schedules/generic": ("schedules/test_templates", "schedules/test_registry", "schedules/test_goldens"),
    "schedules": ("schedules/",),
    "compiler/onnx_reader": ("compiler/test_onnx",),
    "compiler/operator_kernels": ("compiler/test_operator",),
    "compiler": ("compiler/",),
    "quantize": ("quantize/",),
    "results": ("results/",),
    "rpc/farm/simulation": ("rpc/farm/", "tuner/cli/test_simulate"),
    "rpc/farm": ("rpc/farm/",),
    "rpc/bundle": ("rpc/test_bundle", "tuner/bundles/", "tuner/cli/test_bundle"),
    "rpc": ("rpc/",),
    "tuner/search": ("tuner/search/", "tuner/test_suggest"),
    "tuner/cost_model": ("tuner/cost_model/", "tuner/campaign/test_teaching"),
    "tuner/campaign": ("tuner/campaign/", "tuner/cli/test_tune", "tuner/cli/test_errors"),
    "tuner/builder": ("tuner/builder/",),
    "tuner/bench": ("tuner/bench/", "tuner/cli/test_bench"),
    "tuner/models": ("tuner/models/", "tuner/api/", "tuner/cli/test_models"),
    "tuner/lab": ("tuner/lab/",),
    "tuner/choice": ("tuner/choice/",),
    "tuner/schemes": ("tuner/schemes/", "tuner/cli/test_models"),
    "tuner/metaschedule": ("tuner/metaschedule/",),
    "tuner/api": ("tuner/api/", "tuner/cli/"),
    "tuner/cli": ("tuner/cli/",),
    "tuner": ("tuner/",),
}


def files_for(module: str) -> list[Path]:
    """Test files for a module, the likeliest to find a fault in it first: its path is from the repository's root on."""
    file = ROOT / "src" / "int8tune" / module
    direct = [path for path in _all() if file in _reached(path)]
    area = next(area for area in BY_AREA if module.startswith(f"{area}/"))
    names = [path for path in _all() if path.relative_to(TESTS).as_posix().startswith(BY_AREA[area])]
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
