"""`int8tune tune`"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from results.record import CacheMode
from tuner.cli.failures import INTERRUPTED
from tuner.cli.options import (
    DEFAULT_RESULTS,
    DebugOption,
    Format,
    FormatOption,
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
from tuner.cli.output import emit, emit_json, say, stdout_columns

if TYPE_CHECKING:
    from tuner.campaign.run import Outlet
    from tuner.campaign.spec import CampaignSpec
    from tuner.publish import Publication

NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the campaign; the network's if left out.")
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
        help="A layer ends early when the model expects its next trials to save less than this share of its time; "
        "0: never.",
    ),
]
CacheOption = Annotated[
    CacheMode,
    typer.Option(
        "--cache",
        metavar="MODE",
        parser=cache_mode_named,
        help="Where kernels find data and weights when they are timed: warm, where the call before left them, or cold, "
        "outside the core's second-level cache.",
    ),
]


def tune(
    context: typer.Context,
    network: NetworkArgument,
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
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Tune the layers of a network on this machine.

    Started again, it goes on where it was. Writes DIR/NAME.html, a report, and DIR/NAME.best.jsonl, the best schedules.

    Example: int8tune tune mobilenet_v2 --trials 64 --time 30m
    """
    from compiler.network import load_network
    from tuner.campaign.spec import CampaignSpec

    layers = load_network(network)
    spec = CampaignSpec(layers.name if name is None else name, layers, strategy, seed, trials, time, cache, min_gain)
    command = shlex.join(["int8tune", *_arguments(context)])
    return _tune(spec, target, threads, results, build_cluster, form, command)


def _tune(
    spec: CampaignSpec,
    target: str | None,
    threads: int,
    results: Path,
    build_cluster: str | None,
    form: Format,
    command: str,
) -> int:
    from results.report.text import as_dict, render_table
    from rpc.local import LocalTransport
    from tuner.campaign.loop import Ending
    from tuner.campaign.run import run_campaign
    from tuner.cli.live import make_display
    from tuner.cli.stopping import StopRequest
    from tuner.cores import measuring_and_build_cores
    from tuner.publish import publish

    with StopRequest() as stop:
        with make_display(stop, spec.time_limit_s) as display:
            transport = LocalTransport(measuring_and_build_cores(threads)[0])
            outlet = run_campaign(spec, target, threads, transport, results, display, stop, build_cluster)
        published = publish(results, spec.name)
        if form is Format.JSON:
            emit_json(as_dict(published.summary) | {"ending": outlet.ending.value})
        else:
            emit(render_table(published.summary, stdout_columns()))
        _say_end(outlet, published, command)
    return INTERRUPTED if outlet.ending is Ending.INTERRUPTED else 0


def _say_end(outlet: Outlet, published: Publication, command: str) -> None:
    """What is left to do, and where the files are."""
    from tuner.campaign.loop import Ending

    if outlet.nothing_left:
        say(f"nothing is left to do, {published.summary.totals.trials:,} trials are recorded")
    say(f"report    {published.page}")
    say(f"best log  {published.best_log}")
    if outlet.ending is not Ending.FINISHED:
        why = "interrupted" if outlet.ending is Ending.INTERRUPTED else "the time is up"
        say(f"{why}; to go on: {command}")


def _arguments(context: typer.Context) -> list[str]:
    invocation = context.find_root().obj
    assert isinstance(invocation, Invocation)
    return invocation.arguments
