"""`int8tune lab` and `int8tune results export`"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.bench import DeviceOption
from int8tune.tuner.cli.options import (
    DEFAULT_INVENTORY,
    DEFAULT_RESULTS,
    BatchOption,
    CampaignOption,
    DebugOption,
    Format,
    FormatOption,
    InventoryOption,
    RecordsFolderOption,
    TargetOption,
    whole_number,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.tuner.api.lab import UntriedLayer
    from int8tune.tuner.lab.lessons import Classroom
    from int8tune.tuner.lab.recorded_layer import RecordedLayer

# Of `lab`, by parameter: what has no meaning for a race with another tuner, and for one on recorded layers.
_OF_RECORDINGS = {
    "data": "--data",
    "strategies": "--strategies",
    "seeds": "--seeds",
    "only": "--only",
    "explain": "--explain",
}
_OF_RACES = {
    "names": "layers",
    "target": "--target",
    "results": "--results",
    "batch": "--batch",
    "device": "--device",
    "inventory": "--inventory",
}

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="FILE", help="A recording, or a folder of MetaSchedule's."),
]
StrategiesOption = Annotated[
    str | None,
    typer.Option(
        "--strategies",
        metavar="NAMES",
        help="Separated by commas; +others: taught by other layers, +campaign: all layers at once.",
    ),
]
SeedsOption = Annotated[int, typer.Option("--seeds", metavar="N", parser=whole_number, help="Runs of each layer.")]
TrialsOption = Annotated[int, typer.Option("--trials", metavar="N", parser=whole_number, help="Budget of each run.")]
OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="REGEX", help="Layers whose target and key match."),
]
ExplainOption = Annotated[bool, typer.Option("--explain", help="No race: what models go by, and how calibrated.")]
NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NETWORK|KEY]...", help="With --against: networks, models, layer tables, workload keys."),
]
AgainstOption = Annotated[
    str | None,
    typer.Option("--against", metavar="TUNER", help="Race with another tuner on this machine: metaschedule."),
]
OutArgument = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="The file: .parquet, .csv, .json, .t4.json; a folder: .metaschedule."),
]


def lab(
    context: typer.Context,
    names: NamesArgument = None,
    data: DataOption = None,
    strategies: StrategiesOption = None,
    seeds: SeedsOption = 5,
    trials: TrialsOption = 64,
    only: OnlyOption = None,
    explain: ExplainOption = False,
    against: AgainstOption = None,
    target: TargetOption = None,
    batch: BatchOption = 1,
    device: DeviceOption = None,
    inventory: InventoryOption = DEFAULT_INVENTORY,
    results: RecordsFolderOption = DEFAULT_RESULTS,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Let tuners race, on recorded layers or on this machine.

    Of recorded layers, whole spaces were measured before; no device is needed. A percentage is the share of the
    recorded best that was reached, a geometric mean over layers and seeds.

    With --against metaschedule, both tune the same layers with the same trials on the same cores, or for a GPU. Both
    bests are verified bit for bit and timed in turn; the results are added to the records.

    Example: int8tune lab --strategies xgboost,random --seeds 20 --only conv2d

    Example: int8tune lab --against metaschedule resnet18 --trials 16
    """
    _refuse_other_options(context, _OF_RECORDINGS if against else _OF_RACES)
    if against:
        from int8tune.tuner.api.bench import gpu_of
        from int8tune.tuner.cli.against import make_race, race

        board = None if device is None else gpu_of(inventory, device)
        return race(make_race(names or [], against, trials, target, batch, board), results, form)
    _replay(data, strategies, seeds, trials, only, explain, form)
    return 0


def _refuse_other_options(context: typer.Context, names: Mapping[str, str]) -> None:
    """Options that would be ignored are faults."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [names[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if given:
        raise typer.BadParameter(
            f"not {'with' if names is _OF_RECORDINGS else 'without'} --against: {', '.join(given)}"
        )


def _replay(
    data: Path | None, strategies: str | None, seeds: int, trials: int, only: str | None, explain: bool, form: Format
) -> None:
    """Race on recorded layers."""
    from int8tune.tuner.api import lab as api
    from int8tune.tuner.errors import SpecError
    from int8tune.tuner.lab.leaderboard import leaderboard_as_dict, leaderboard_rows
    from int8tune.tuner.lab.lessons import Classroom

    try:
        api.require_runs(seeds, trials)
        layers, notices = api.recorded_layers(data, only or "")
        for notice in notices:
            say(notice)
        if explain:
            _explain(Classroom(layers), form)
            return
        names = api.chosen_strategies(strategies.split(",") if strategies is not None else ())
        say(f"{len(layers)} layers, {sum(len(layer.times_s) for layer in layers):,} configs, {len(names)} strategies")
        found = api.race_on(layers, names, seeds, trials)
    except SpecError as error:
        raise typer.BadParameter(str(error)) from error
    if form is Format.JSON:
        without = [{"layer": each.layer.name, "default": each.default, "others": each.others} for each in found.untried]
        emit_json({"standings": leaderboard_as_dict(found.standings), "without_trials": without})
        return
    rows = leaderboard_rows(found.standings)
    emit(aligned(rows, numbers=range(1, len(rows[0]))))
    emit("\n" + _without_trials(found.untried))


def export(
    out: OutArgument,
    results: RecordsFolderOption = DEFAULT_RESULTS,
    campaign: CampaignOption = None,
    _debug: DebugOption = False,
) -> None:
    """Write all that is known of a campaign's trials as one table, for `int8tune lab` (Parquet) and for others.

    OUT.metaschedule is a folder with the best schedules as TVM's MetaSchedule reads them, see int8tune help results.

    Whole spaces come from: int8tune tune LAYERS.json --strategy grid --trials 10000

    Example: int8tune results export lab.parquet --campaign lab
    """
    from int8tune.tuner.api.records import Records

    with Records(results) as records:
        written = records.export(out, campaign=campaign)
    for line in written.left_out:
        say(f"left out: {line}")
    emit(f"{written.configs:,} configs of {written.layers} layers")


def _explain(classroom: Classroom, form: Format) -> None:
    from dataclasses import asdict

    from int8tune.tuner.lab.explain import explain

    explanations = explain(classroom)
    if form is Format.JSON:
        emit_json([asdict(explanation) for explanation in explanations])
        return
    if not explanations:
        say("a model needs two recorded layers of a template")
    for explanation in explanations:
        emit(f"{explanation.template} on {explanation.target}, {explanation.layers} layers\n")
        rows = [["column", "share"], *([name, _percent(share)] for name, share in explanation.importance.items())]
        emit(aligned(rows, numbers=(1,)) + "\n")
        head = ["expected of a layer left out", "measured", "configs"]
        bins = [[_percent(b.expected), _percent(b.measured), f"{b.count:,}"] for b in explanation.bins]
        emit(aligned([head, *bins], numbers=(0, 1, 2)) + "\n")


def _without_trials(untried: Sequence[UntriedLayer]) -> str:
    """What a layer's config reaches that nobody measured: the template's own, and the one that others rank first."""
    from int8tune.tuner.lab.leaderboard import geometric_mean

    known = [each.others for each in untried if each.others is not None]
    means = ["geometric mean", "", _percent(geometric_mean([each.default for each in untried]))]
    rows = [["without any trial", "target", "default", "others' model"]]
    rows += [[_label(e.layer), e.layer.target, _percent(e.default), _percent(e.others)] for e in untried]
    rows.append([*means, _percent(geometric_mean(known) if known else None)])
    return aligned(rows, numbers=(2, 3))


def _label(layer: RecordedLayer) -> str:
    from int8tune.results.label import layer_label

    return layer_label(layer.workload) if layer.parsed() else layer.workload[:40]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f}%"
