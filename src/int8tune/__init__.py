"""Auto-tuning benchmark harness for int8 kernels.

    import int8tune as it

    it.plan("mobilenet_v2")                          # what would be done, and about how long
    found = it.tune("mobilenet_v2", trials=64)       # goes on where it was, stops cleanly at Ctrl-C
    found.to_pandas()                                # a row for each layer
    it.compile("model.tflite", "model.so").load()    # a model that runs arrays of NumPy's

Nothing else is imported before it is used: devices that have Python's standard library alone import this module, too.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from int8tune.compiler.compiled_model import CompiledModel
    from int8tune.compiler.network import Network
    from int8tune.compiler.network_file import load_network
    from int8tune.tuner.api.accuracy import Accuracy, accuracy
    from int8tune.tuner.api.bench import LayerBench, ModelBenches, bench
    from int8tune.tuner.api.boards import Boards, HostCheck, Simulation, check_device, devices, simulate
    from int8tune.tuner.api.bundles import BundleResult, MergeResult, make_bundle, merge_bundles
    from int8tune.tuner.api.campaigns import (
        CampaignDetails,
        Campaigns,
        archive_campaigns,
        campaigns,
        merge_records,
        prune_campaigns,
        rename_campaign,
        show_campaign,
    )
    from int8tune.tuner.api.choosing import ChoiceResult, choose
    from int8tune.tuner.api.comparing import ResultComparison, compare
    from int8tune.tuner.api.compiling import CompiledFile, compile, load
    from int8tune.tuner.api.lab import RaceResult, lab
    from int8tune.tuner.api.layers import Layers, layers
    from int8tune.tuner.api.plan import Plan, plan
    from int8tune.tuner.api.profiling import ModelRanges, profile
    from int8tune.tuner.api.quantizing import QuantizedModel, quantize
    from int8tune.tuner.api.records import Records, records
    from int8tune.tuner.api.reporting import report
    from int8tune.tuner.api.schedules import BestSchedules, Suggestions, best, suggest
    from int8tune.tuner.api.schemes import SchemeComparison, compare_schemes
    from int8tune.tuner.api.sensitivity import SensitivityResult, sensitivity
    from int8tune.tuner.api.templates import Templates, space, templates
    from int8tune.tuner.api.tune import CampaignResult, TuneResult, tune
    from int8tune.tuner.api.tune_all import TuneAllResult, tune_all
    from int8tune.tuner.board_check import BoardCheck
    from int8tune.tuner.campaign.events import Listener, Progress
    from int8tune.tuner.campaign.loop import Ending

_HOMES = {
    "Accuracy": "tuner.api.accuracy",
    "BestSchedules": "tuner.api.schedules",
    "BoardCheck": "tuner.board_check",
    "Boards": "tuner.api.boards",
    "BundleResult": "tuner.api.bundles",
    "CampaignDetails": "tuner.api.campaigns",
    "CampaignResult": "tuner.api.tune",
    "Campaigns": "tuner.api.campaigns",
    "ChoiceResult": "tuner.api.choosing",
    "CompiledFile": "tuner.api.compiling",
    "CompiledModel": "compiler.compiled_model",
    "Ending": "tuner.campaign.loop",
    "HostCheck": "tuner.api.boards",
    "LayerBench": "tuner.api.bench",
    "Layers": "tuner.api.layers",
    "Listener": "tuner.campaign.events",
    "MergeResult": "tuner.api.bundles",
    "ModelBenches": "tuner.api.bench",
    "ModelRanges": "tuner.api.profiling",
    "Network": "compiler.network",
    "Plan": "tuner.api.plan",
    "Progress": "tuner.campaign.events",
    "QuantizedModel": "tuner.api.quantizing",
    "RaceResult": "tuner.api.lab",
    "Records": "tuner.api.records",
    "ResultComparison": "tuner.api.comparing",
    "SchemeComparison": "tuner.api.schemes",
    "SensitivityResult": "tuner.api.sensitivity",
    "Simulation": "tuner.api.boards",
    "Suggestions": "tuner.api.schedules",
    "Templates": "tuner.api.templates",
    "TuneAllResult": "tuner.api.tune_all",
    "TuneResult": "tuner.api.tune",
    "accuracy": "tuner.api.accuracy",
    "archive_campaigns": "tuner.api.campaigns",
    "bench": "tuner.api.bench",
    "best": "tuner.api.schedules",
    "campaigns": "tuner.api.campaigns",
    "check_device": "tuner.api.boards",
    "choose": "tuner.api.choosing",
    "compare": "tuner.api.comparing",
    "compare_schemes": "tuner.api.schemes",
    "compile": "tuner.api.compiling",
    "devices": "tuner.api.boards",
    "lab": "tuner.api.lab",
    "layers": "tuner.api.layers",
    "load": "tuner.api.compiling",
    "load_network": "compiler.network_file",
    "make_bundle": "tuner.api.bundles",
    "merge_bundles": "tuner.api.bundles",
    "merge_records": "tuner.api.campaigns",
    "plan": "tuner.api.plan",
    "profile": "tuner.api.profiling",
    "prune_campaigns": "tuner.api.campaigns",
    "quantize": "tuner.api.quantizing",
    "records": "tuner.api.records",
    "rename_campaign": "tuner.api.campaigns",
    "report": "tuner.api.reporting",
    "sensitivity": "tuner.api.sensitivity",
    "show_campaign": "tuner.api.campaigns",
    "simulate": "tuner.api.boards",
    "space": "tuner.api.templates",
    "suggest": "tuner.api.schedules",
    "templates": "tuner.api.templates",
    "tune": "tuner.api.tune",
    "tune_all": "tuner.api.tune_all",
}
__all__ = [
    "Accuracy",
    "BestSchedules",
    "BoardCheck",
    "Boards",
    "BundleResult",
    "CampaignDetails",
    "CampaignResult",
    "Campaigns",
    "ChoiceResult",
    "CompiledFile",
    "CompiledModel",
    "Ending",
    "HostCheck",
    "LayerBench",
    "Layers",
    "Listener",
    "MergeResult",
    "ModelBenches",
    "ModelRanges",
    "Network",
    "Plan",
    "Progress",
    "QuantizedModel",
    "RaceResult",
    "Records",
    "ResultComparison",
    "SchemeComparison",
    "SensitivityResult",
    "Simulation",
    "Suggestions",
    "Templates",
    "TuneAllResult",
    "TuneResult",
    "accuracy",
    "archive_campaigns",
    "bench",
    "best",
    "campaigns",
    "check_device",
    "choose",
    "compare",
    "compare_schemes",
    "compile",
    "devices",
    "lab",
    "layers",
    "load",
    "load_network",
    "make_bundle",
    "merge_bundles",
    "merge_records",
    "plan",
    "profile",
    "prune_campaigns",
    "quantize",
    "records",
    "rename_campaign",
    "report",
    "sensitivity",
    "show_campaign",
    "simulate",
    "space",
    "suggest",
    "templates",
    "tune",
    "tune_all",
]


class _Package(ModuleType):
    """This package, in which `quantize` stays the function, whichever module below `int8tune.quantize` is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    """Import a public name when it is asked for first."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
