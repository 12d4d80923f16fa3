"""`int8tune results suggest`"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from int8tune.tuner.cli import completing
from int8tune.tuner.cli.options import DEFAULT_RESULTS, DebugOption, Format, FormatOption, ResultsOption, TargetOption
from int8tune.tuner.cli.output import emit, emit_json

NamesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="NETWORK|KEY...",
        autocompletion=completing.networks,
        help="Networks, models, layer tables, workload keys.",
    ),
]


def suggest(
    names: NamesArgument,
    results: ResultsOption = DEFAULT_RESULTS,
    target: TargetOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Suggest a schedule for layers, tuned or not.

    That is the best recorded one; for a layer that nobody tuned, what trials of other layers on this device say, if it
    is expected to beat the template's default by enough.

    Example: int8tune results suggest conv2d-u8s8-1x20x20x96-k3x3x96-s1-p1-float.c-u8
    """
    from int8tune.results.label import layer_label
    from int8tune.tuner.api.schedules import suggest as suggested

    found = suggested(names, results=results, target=target)
    if form is Format.JSON:
        emit_json([{"source": s.source, "layers": s.layers, "candidate": asdict(s.candidate)} for s in found])
        return
    for suggestion in found:
        candidate = suggestion.candidate
        config = " ".join(f"{name}={value}" for name, value in candidate.config.items())
        emit(f"{layer_label(candidate.workload):<30} from {suggestion.source}\n    {candidate.template} {config}")
