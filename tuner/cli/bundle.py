"""`int8tune bundle`"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.options import (
    DEFAULT_RESULTS,
    BatchOption,
    DebugOption,
    Format,
    FormatOption,
    NetworkArgument,
    RecordsFolderOption,
    ThreadsOption,
)
from int8tune.tuner.cli.output import say
from int8tune.tuner.cli.stopping import INTERRUPTED, Interruption, StopRequest
from int8tune.tuner.cli.tune import (
    MinGainOption,
    NameOption,
    SeedOption,
    StrategyOption,
    TrialsOption,
    show_found,
    typed_command,
)

if TYPE_CHECKING:
    from int8tune.tuner.bundles.make import AwayDevice, Made
    from int8tune.tuner.bundles.merge import Merged
    from int8tune.tuner.campaign.run import CampaignRunResult
    from int8tune.tuner.campaign.spec import CampaignSpec

MOST_FAULTS_SHOWN = 5
_MB = 1e6

AwayOption = Annotated[str, typer.Option("--device", metavar="NAME", help="What records call the device.")]
ProfileOption = Annotated[
    str, typer.Option("--target", metavar="PROFILE", help="Target profile, which the device's CPU must be able to run.")
]
OutOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.pyz", help="The file to write; DIR/NAME.bundle-N.pyz if left out."),
]
PortableOption = Annotated[
    bool,
    typer.Option(
        "--portable", help="For a device with an older C library than this machine's: pip install 'int8tune[cross]'."
    ),
]
FolderOption = Annotated[
    Path | None, typer.Option("--folder", metavar="DIR", help="Where results go; beside the bundle if left out.")
]
CoresOption = Annotated[
    str | None, typer.Option("--cores", metavar="2,3", help="Those that kernels run on; the last if left out.")
]
ToleranceOption = Annotated[
    str | None,
    typer.Option(
        "--canary-tolerance",
        metavar="0.2",
        help="By which share the canary may be slower than it was before times are not believed.",
    ),
]


def make(
    context: typer.Context,
    network: NetworkArgument,
    device: AwayOption,
    target: ProfileOption,
    batch: BatchOption = 1,
    output: OutOption = None,
    results: RecordsFolderOption = DEFAULT_RESULTS,
    name: NameOption = None,
    threads: ThreadsOption = 1,
    strategy: StrategyOption = "xgboost",
    trials: TrialsOption = 32,
    seed: SeedOption = 0,
    min_gain: MinGainOption = 0.005,
    portable: PortableOption = False,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> int:
    """Pack what is to be measured next on a device that can't be reached.

    Run the file there with Python, bring its results home with `bundle merge`, and make the next one by the same
    command, until nothing is left.

    Example: int8tune bundle make mobilenet_v2 --device node7 --target x86-avx512vnni
    """
    from int8tune.compiler.batches import network_with_batch
    from int8tune.compiler.network_file import load_network
    from int8tune.tuner.bundles.make import AwayDevice
    from int8tune.tuner.campaign.spec import CampaignSpec

    layers = network_with_batch(load_network(network), batch)
    spec = CampaignSpec(layers.name if name is None else name, layers, strategy, seed, trials, min_gain=min_gain)
    command = typed_command(context)
    with StopRequest() as stop:
        try:
            return _make(spec, AwayDevice(device, target, threads, portable), results, output, form, command, stop)
        except Interruption:
            say(f"interrupted; to go on: {command}")
            return INTERRUPTED


def run_(
    bundle: Annotated[Path, typer.Argument(metavar="FILE.pyz", help="A bundle.")],
    folder: FolderOption = None,
    cores: CoresOption = None,
    canary_tolerance: ToleranceOption = None,
    _debug: DebugOption = False,
) -> int:
    """Measure what a bundle holds on this machine, as `python3 FILE.pyz` does where int8tune is not installed.

    Started again, it goes on where it was. Writes FILE.results.

    Example: int8tune bundle run mobilenet_v2.bundle-1.pyz
    """
    from int8tune.rpc.bundle.command import cores as listed
    from int8tune.rpc.bundle.command import run, tolerance
    from int8tune.rpc.bundle.runner import Settings

    settings = Settings(folder or bundle.parent)
    try:
        if cores is not None:
            settings = replace(settings, cores=listed(cores))
        if canary_tolerance is not None:
            settings = replace(settings, canary_tolerance=tolerance(canary_tolerance))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        return run(bundle, settings)
    except Interruption:
        say("interrupted; to go on, run the same command again")
        return INTERRUPTED


def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.results...", help="What bundles have written.")],
    results: RecordsFolderOption = DEFAULT_RESULTS,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Bring the results of bundles home, into the records of their campaigns.

    Lines that are damaged are named and left out, and measured again by the next bundle. Results that are recorded
    already change nothing. Writes a campaign's report and best log, as `tune` does.

    Example: int8tune bundle merge mobilenet_v2.bundle-1.results
    """
    from int8tune.tuner.api.bundles import merge_bundles

    found = merge_bundles(files, results=results, listener=_say_merged)
    commands = {merged.campaign: merged.command for merged in found.files}
    for campaign in found.campaigns:
        show_found(campaign, form, "merged")
        say(f"report    {campaign.report}")
        say(f"best log  {campaign.best_log}")
        say(f"next      {commands[campaign.name]}")


def _make(
    spec: CampaignSpec,
    device: AwayDevice,
    results: Path,
    output: Path | None,
    form: Format,
    command: str,
    stop: StopRequest,
) -> int:
    from int8tune.tuner.bundles.make import make_next
    from int8tune.tuner.campaign.loop import Ending
    from int8tune.tuner.cli.live import make_display

    with make_display(stop.is_requested, None) as display:
        run_result, made = make_next(spec, device, results, output, command, display, stop)
    if made:
        _say_made(made, results)
        return 0
    if run_result.ending is Ending.INTERRUPTED:
        say(f"interrupted; to go on: {command}")
        return INTERRUPTED
    _say_finished(spec, run_result, results, form)
    return 0


def _say_made(made: Made, results: Path) -> None:
    manifest = made.bundle.manifest
    again = "" if made.is_new else ", the same as before: its results are not merged yet"
    count = f"{len(manifest.items):,} {'session' if len(manifest.items) == 1 else 'sessions'}"
    say(f"bundle {made.number} of {manifest.campaign}: {count} on {manifest.device}{again}")
    size = f"{made.size_bytes / _MB:.1f} MB, {made.own_bytes / _MB:.1f} MB of it for the runner"
    say(f"file      {made.bundle.path}, {size}")
    say(f"sha256    {made.bundle.id}, of its manifest")
    say(f"there     python3 {shlex.quote(made.bundle.path.name)}")
    folder = [] if results == DEFAULT_RESULTS else ["--results", str(results)]
    say(f"then here {shlex.join(['int8tune', 'bundle', 'merge', f'{made.bundle.path.stem}.results', *folder])}")


def _say_finished(spec: CampaignSpec, run_result: CampaignRunResult, results: Path, form: Format) -> None:
    from int8tune.tuner.api.tune import campaign_result

    published = campaign_result(results, spec.name, run_result.ending, run_result.nothing_left)
    show_found(published, form)
    say(f"nothing is left to do, {published.summary.totals.trials:,} trials are recorded")
    say(f"report    {published.report}")
    say(f"best log  {published.best_log}")


def _say_merged(file: Path, merged: Merged) -> None:
    known = f", {merged.known:,} were recorded before" if merged.known else ""
    say(f"{file}: {merged.taken:,} of {merged.items:,} results of bundle {merged.number} are recorded now{known}")
    for fault in merged.faults[:MOST_FAULTS_SHOWN]:
        say(f"not taken: {fault}")
    if (more := len(merged.faults) + merged.more_faults - MOST_FAULTS_SHOWN) > 0:
        say(f"not taken: {more:,} more lines")
