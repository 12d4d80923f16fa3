"""`int8tune tune`"""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.results.record import CacheMode
from int8tune.results.redaction import without_password
from int8tune.tuner.cli import completing
from int8tune.tuner.cli.campaign_file import tune_file
from int8tune.tuner.cli.ending import say_files
from int8tune.tuner.cli.options import (
    DEFAULT_INVENTORY,
    DEFAULT_RESULTS,
    BatchOption,
    BindOption,
    DebugOption,
    Format,
    FormatOption,
    InventoryOption,
    Invocation,
    NetworkArgument,
    ResultsOption,
    ShapeOption,
    TargetOption,
    ThreadsOption,
    UntilOption,
    cache_mode_named,
    cluster_address,
    duration_s,
    share,
    whole_number,
)
from int8tune.tuner.cli.output import emit, emit_json, say, stdout_columns
from int8tune.tuner.cli.stopping import INTERRUPTED, Interruption, StopRequest
from int8tune.tuner.cli.telling import Telling

if TYPE_CHECKING:
    from int8tune.tuner.api.tune import Assignment, CampaignResult
    from int8tune.tuner.campaign.events import Listener
    from int8tune.tuner.campaign.spec import CampaignSpec

NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the campaign; the network's if left out."),
]
StrategyOption = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="NAME",
        autocompletion=completing.strategies,
        help="How candidates are chosen: xgboost, evolution, descent, random or grid.",
    ),
]
TrialsOption = Annotated[
    int, typer.Option("--trials", metavar="N", parser=whole_number, help="Trials per distinct layer.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", parser=whole_number, help="Random seed.")]
TimeOption = Annotated[
    float | None,
    typer.Option("--time", metavar="TIME", parser=duration_s, help="Stop after 90s, 5m or 1.5h; it can go on later."),
]
BuildClusterOption = Annotated[
    str | None,
    typer.Option(
        "--build-cluster",
        metavar="ADDRESS",
        parser=cluster_address,
        help="Build on a Dask cluster, such as tls://HOST:PORT.",
    ),
]
MinGainOption = Annotated[
    float,
    typer.Option(
        "--min-gain",
        metavar="SHARE",
        parser=share,
        help="Least gain to go on with a layer.",
    ),
]
CacheOption = Annotated[
    CacheMode | None,
    typer.Option(
        "--cache",
        metavar="MODE",
        parser=cache_mode_named,
        help="Caches when timed: network, warm or cold.",
    ),
]


FilesOption = Annotated[
    Path | None,
    typer.Option("--files", metavar="DIR", help="Folder of reports, where --results is a URL."),
]
DevicesOption = Annotated[
    str | None,
    typer.Option(
        "--devices", metavar="NAMES", autocompletion=completing.boards, help="Boards that measure, separated by commas."
    ),
]
NotifyOption = Annotated[
    str | None,
    typer.Option("--notify", metavar="COMMAND|URL", help="Told at the end: int8tune help watching."),
]


def tune(
    context: typer.Context,
    network: NetworkArgument,
    batch: BatchOption = 1,
    bind: BindOption = None,
    shape: ShapeOption = None,
    until: UntilOption = None,
    results: ResultsOption = DEFAULT_RESULTS,
    files: FilesOption = None,
    name: NameOption = None,
    target: TargetOption = None,
    threads: ThreadsOption = 1,
    strategy: StrategyOption = "xgboost",
    trials: TrialsOption = 32,
    seed: SeedOption = 0,
    time: TimeOption = None,
    build_cluster: BuildClusterOption = None,
    cache: CacheOption = None,
    min_gain: MinGainOption = 0.005,
    devices: DevicesOption = None,
    inventory: InventoryOption = DEFAULT_INVENTORY,
    notify: NotifyOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Tune a network's layers on this machine or on boards.

    Started again, it goes on. Writes NAME.html, a report, and NAME.best.jsonl, the best schedules. Campaign files
    (.toml): int8tune help campaign-files.

    Example: int8tune tune mobilenet_v2 --trials 64 --time 30m
    """
    from int8tune.tuner.api.campaign_file import is_campaign_file
    from int8tune.tuner.api.networks import as_network
    from int8tune.tuner.api.tune import Assignment, folder_and_records
    from int8tune.tuner.campaign.spec import CampaignSpec
    from int8tune.tuner.models.given import bindings, shapes_of

    command = typed_command(context)
    if is_campaign_file(network):
        return tune_file(context, network, form, command, Telling(notify, command), build_cluster)
    layers = as_network(network, batch, bindings(bind), shapes_of(shape), until)
    spec = CampaignSpec(layers.name if name is None else name, layers, strategy, seed, trials, time, cache, min_gain)
    if devices is not None and threads != 1:
        raise typer.BadParameter("--threads is for this machine, boards have their own: `threads` in the inventory")
    boards = () if devices is None else tuple(devices.split(","))
    folder, records = folder_and_records(results, files)
    where = Assignment(spec, folder, target, threads, boards, inventory, build_cluster, records)
    told = Telling(notify, command)
    with StopRequest() as stop:
        try:
            with told:
                return _tune(where, form, command, stop, told)
        except Interruption:
            say(f"interrupted; to go on: {command}")
            return INTERRUPTED


def _tune(where: Assignment, form: Format, command: str, stop: StopRequest, told: Telling) -> int:
    from int8tune.tuner.api.tune import run_assignment
    from int8tune.tuner.campaign.loop import Ending
    from int8tune.tuner.cli.live import make_display

    def watch(spec: CampaignSpec) -> AbstractContextManager[Listener]:
        return make_display(stop.is_requested, spec.time_limit_s)

    ending = Ending.FINISHED
    with closing(run_assignment(where, watch, stop, stop.prepare)) as ran:
        for result in ran:
            show_found(result, form)
            _say_end(result, command)
            told.add(result)
            ending = result.ending
    return INTERRUPTED if ending is Ending.INTERRUPTED else 0


def show_found(result: CampaignResult, form: Format, ending: str | None = None) -> None:
    """Show what a campaign found so far."""
    from int8tune.results.report.text import as_dict, render_table

    if form is Format.JSON:
        emit_json(as_dict(result.summary) | {"ending": ending or result.ending.value})
    else:
        emit(render_table(result.summary, stdout_columns()))


def _say_end(result: CampaignResult, command: str) -> None:
    """What is left to do, and where the files are."""
    from int8tune.tuner.campaign.loop import Ending

    say_files(result)
    if result.ending is not Ending.FINISHED:
        why = "interrupted" if result.ending is Ending.INTERRUPTED else "the time is up"
        say(f"{why}; to go on: {command}")


def typed_command(context: typer.Context) -> str:
    """What was typed, to be typed again; passwords in URLs are not shown."""
    invocation = context.find_root().obj
    assert isinstance(invocation, Invocation)
    return shlex.join(["int8tune", *map(without_password, invocation.arguments)])
