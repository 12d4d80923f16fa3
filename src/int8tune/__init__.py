"""Auto-tuning benchmark harness for int8 kernels.

    import int8tune as it

    it.plan("mobilenet_v2")                          # what would be done, and about how long
    found = it.tune("mobilenet_v2", trials=64)       # goes on where it was, stops cleanly at Ctrl-C
    found.to_pandas()                                # a row for each layer
    it.compile("model.tflite", "model.so").load()    # a model that runs arrays of NumPy's

Nothing else is imported before it is used: devices that have Python's standard library alone import this module, too.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from int8tune.compiler.compiled_model import CompiledModel
    from int8tune.compiler.network import Network
    from int8tune.compiler.network_file import load_network
    from int8tune.tuner.api.accuracy import Accuracy, accuracy
    from int8tune.tuner.api.bench import LayerBench, ModelBenches, bench
    from int8tune.tuner.api.compiling import CompiledFile, compile, load
    from int8tune.tuner.api.layers import Layers, layers
    from int8tune.tuner.api.plan import Plan, plan
    from int8tune.tuner.api.records import Records, records
    from int8tune.tuner.api.schedules import BestSchedules, Suggestions, best, report, suggest
    from int8tune.tuner.api.tune import CampaignResult, TuneResult, tune
    from int8tune.tuner.campaign.events import Listener, Progress
    from int8tune.tuner.campaign.loop import Ending

_HOMES = {
    "Accuracy": "tuner.api.accuracy",
    "BestSchedules": "tuner.api.schedules",
    "CampaignResult": "tuner.api.tune",
    "CompiledFile": "tuner.api.compiling",
    "CompiledModel": "compiler.compiled_model",
    "Ending": "tuner.campaign.loop",
    "LayerBench": "tuner.api.bench",
    "Layers": "tuner.api.layers",
    "Listener": "tuner.campaign.events",
    "ModelBenches": "tuner.api.bench",
    "Network": "compiler.network",
    "Plan": "tuner.api.plan",
    "Progress": "tuner.campaign.events",
    "Records": "tuner.api.records",
    "Suggestions": "tuner.api.schedules",
    "TuneResult": "tuner.api.tune",
    "accuracy": "tuner.api.accuracy",
    "bench": "tuner.api.bench",
    "best": "tuner.api.schedules",
    "compile": "tuner.api.compiling",
    "layers": "tuner.api.layers",
    "load": "tuner.api.compiling",
    "load_network": "compiler.network_file",
    "plan": "tuner.api.plan",
    "records": "tuner.api.records",
    "report": "tuner.api.schedules",
    "suggest": "tuner.api.schedules",
    "tune": "tuner.api.tune",
}
__all__ = [
    "Accuracy",
    "BestSchedules",
    "CampaignResult",
    "CompiledFile",
    "CompiledModel",
    "Ending",
    "LayerBench",
    "Layers",
    "Listener",
    "ModelBenches",
    "Network",
    "Plan",
    "Progress",
    "Records",
    "Suggestions",
    "TuneResult",
    "accuracy",
    "bench",
    "best",
    "compile",
    "layers",
    "load",
    "load_network",
    "plan",
    "records",
    "report",
    "suggest",
    "tune",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is asked for first."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
