"""`int8tune tune`"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.results.record import CacheMode
from int8tune.tuner.cli.options import (
    DEFAULT_INVENTORY,
    DEFAULT_RESULTS,
    BatchOption,
    DebugOption,
    Format,
    FormatOption,
    InventoryOption,
    Invocation,
    NetworkArgument,
    ResultsOption,
    TargetOption,
    ThreadsOption,
    cache_mode_named,
    cluster_address,
    duration_s,
    share,
    whole_number,
)
from int8tune.tuner.cli.output import emit, emit_json, say, stdout_columns
from int8tune.tuner.cli.stopping import INTERRUPTED, Interruption, StopRequest

if TYPE_CHECKING:
    from int8tune.tuner.campaign.run import Outlet
    from int8tune.tuner.campaign.spec import CampaignSpec
    from int8tune.tuner.publish import Publication

NameOption = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the campaign; the network's if left out."),
]
StrategyOption = Annotated[
    str,
    typer.Option(
        "--strategy", metavar="NAME", help="How candidates are chosen: xgboost, evolution, descent, random or grid."
    ),
]
TrialsOption = Annotated[
    int, typer.Option("--trials", metavar="N", parser=whole_number, help="Trials per distinct layer.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", parser=whole_number, help="Of all random choices.")]
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
        help="Build on a Dask cluster: tcp://127.0.0.1:8786 or tls://HOST:PORT.",
    ),
]
MinGainOption = Annotated[
    float,
    typer.Option(
        "--min-gain",
        metavar="SHARE",
        parser=share,
        help="A layer ends early when its next trials should save less than this share.",
    ),
]
CacheOption = Annotated[
    CacheMode,
    typer.Option(
        "--cache",
        metavar="MODE",
        parser=cache_mode_named,
        help="Timed with warm caches or with cold ones.",
    ),
]


DevicesOption = Annotated[
    str | None,
    typer.Option("--devices", metavar="NAMES", help="Boards that measure, separated by commas."),
]


def tune(
    context: typer.Context,
    network: NetworkArgument,
    batch: BatchOption = 1,
    results: ResultsOption = DEFAULT_RESULTS,
    name: NameOption = None,
    target: TargetOption = None,
    threads: ThreadsOption = 1,
    strategy: StrategyOption = "xgboost",
    trials: TrialsOption = 32,
    seed: SeedOption = 0,
    time: TimeOption = None,
    build_cluster: BuildClusterOption = None,
    cache: CacheOption = CacheMode.WARM,
    min_gain: MinGainOption = 0.005,
    devices: DevicesOption = None,
    inventory: InventoryOption = DEFAULT_INVENTORY,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Tune the layers of a network on this machine, or on boards.

    Started again, it goes on where it was. Writes DIR/NAME.html, a report, and DIR/NAME.best.jsonl, the best schedules.

    Example: int8tune tune mobilenet_v2 --trials 64 --time 30m
    """
    from int8tune.compiler.batches import network_with_batch
    from int8tune.compiler.network_file import load_network
    from int8tune.tuner.campaign.spec import CampaignSpec

    layers = network_with_batch(load_network(network), batch)
    spec = CampaignSpec(layers.name if name is None else name, layers, strategy, seed, trials, time, cache, min_gain)
    command = typed_command(context)
    if devices is not None and threads != 1:
        raise typer.BadParameter("--threads is for this machine, boards have their own: `threads` in the inventory")
    with StopRequest() as stop:
        try:
            if devices is not None:
                return _tune_on_boards(spec, devices, inventory, target, results, build_cluster, form, command, stop)
            return _tune(spec, target, threads, results, build_cluster, form, command, stop)
        except Interruption:
            say(f"interrupted; to go on: {command}")
            return INTERRUPTED


def _tune(
    spec: CampaignSpec,
    target: str | None,
    threads: int,
    results: Path,
    build_cluster: str | None,
    form: Format,
    command: str,
    stop: StopRequest,
) -> int:
    from int8tune.rpc.transports.local import LocalTransport
    from int8tune.tuner.campaign.loop import Ending
    from int8tune.tuner.campaign.run import run_campaign
    from int8tune.tuner.cli.live import make_display
    from int8tune.tuner.cores import measuring_and_build_cores

    with make_display(stop.is_requested, spec.time_limit_s) as display:
        transport = LocalTransport(measuring_and_build_cores(threads)[0])
        outlet = run_campaign(spec, target, threads, transport, results, display, stop, build_cluster)
    _publish(spec, outlet, results, form, command)
    return INTERRUPTED if outlet.ending is Ending.INTERRUPTED else 0


def _tune_on_boards(
    spec: CampaignSpec,
    devices: str,
    inventory: Path,
    profile: str | None,
    results: Path,
    build_cluster: str | None,
    form: Format,
    command: str,
    stop: StopRequest,
) -> int:
    """A campaign for each target of the boards, one after the other."""
    from int8tune.rpc.farm.status_file import status_folder
    from int8tune.rpc.inventory.file import read_inventory
    from int8tune.tuner.campaign.farm import grounds_of, spec_on
    from int8tune.tuner.campaign.loop import Ending
    from int8tune.tuner.campaign.run import run_on
    from int8tune.tuner.cli.live import make_display

    known = read_inventory(inventory)
    boards = [known.board(name) for name in dict.fromkeys(devices.split(","))]
    with grounds_of(boards, profile, status_folder(inventory)) as grounds:
        for ground in grounds:
            stop.prepare()
            own = spec_on(spec, ground, grounds)
            with make_display(stop.is_requested, own.time_limit_s) as display:
                outlet = run_on(ground, own, results, display, stop, build_cluster)
            _publish(own, outlet, results, form, command)
            if outlet.ending is Ending.INTERRUPTED:
                return INTERRUPTED
    return 0


def _publish(spec: CampaignSpec, outlet: Outlet, results: Path, form: Format, command: str) -> None:
    _say_end(outlet, show_found(results, spec.name, form, outlet.ending.value), command)


def show_found(results: Path, campaign: str, form: Format, ending: str) -> Publication:
    """Show what a campaign found so far, and write its report and best log."""
    from int8tune.results.report.text import as_dict, render_table
    from int8tune.tuner.publish import publish

    published = publish(results, campaign)
    if form is Format.JSON:
        emit_json(as_dict(published.summary) | {"ending": ending})
    else:
        emit(render_table(published.summary, stdout_columns()))
    return published


def _say_end(outlet: Outlet, published: Publication, command: str) -> None:
    """What is left to do, and where the files are."""
    from int8tune.tuner.campaign.loop import Ending

    if outlet.nothing_left:
        say(f"nothing is left to do, {published.summary.totals.trials:,} trials are recorded")
    say(f"report    {published.page}")
    say(f"best log  {published.best_log}")
    if outlet.ending is not Ending.FINISHED:
        why = "interrupted" if outlet.ending is Ending.INTERRUPTED else "the time is up"
        say(f"{why}; to go on: {command}")


def typed_command(context: typer.Context) -> str:
    """What was typed, to be typed again."""
    invocation = context.find_root().obj
    assert isinstance(invocation, Invocation)
    return shlex.join(["int8tune", *invocation.arguments])
