"""Campaigns by bundles, for devices that can't be reached."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.compiler.network import Network
from int8tune.results.record import CacheMode
from int8tune.tuner.api.defaults import DEFAULT_RESULTS
from int8tune.tuner.api.interrupts import Interrupts
from int8tune.tuner.api.networks import NetworkLike, as_network
from int8tune.tuner.api.tune import CampaignResult, campaign_result, listener_of
from int8tune.tuner.bundles.make import AwayDevice, Made, make_next
from int8tune.tuner.bundles.merge import Merged, merge
from int8tune.tuner.campaign.events import Listener, Progress
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.spec import DEFAULT_MIN_GAIN, DEFAULT_STRATEGY, DEFAULT_TRIALS, CampaignSpec
from int8tune.tuner.installed import require_tuning


@dataclass(frozen=True, slots=True)
class BundleResult:
    """What came of making a campaign's next bundle.

    Attributes:
        made: the bundle; None where nothing is left to measure, or somebody asked for the end.
        campaign: what is known so far, where nothing is left; None otherwise.
    """

    made: Made | None
    campaign: CampaignResult | None


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What came of bringing results home.

    Attributes:
        files: one for each file, in their order.
        campaigns: what is known now, of each campaign once.
    """

    files: tuple[Merged, ...]
    campaigns: tuple[CampaignResult, ...]


def make_bundle(
    network: NetworkLike,
    *,
    device: str,
    target: str,
    batch: int = 1,
    output: str | Path | None = None,
    results: str | Path = DEFAULT_RESULTS,
    name: str | None = None,
    threads: int = 1,
    strategy: str = DEFAULT_STRATEGY,
    trials: int = DEFAULT_TRIALS,
    seed: int = 0,
    min_gain: float = DEFAULT_MIN_GAIN,
    portable: bool = False,
    listener: Listener | Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> BundleResult:
    """Pack what is to be measured next on a device that can't be reached.

    `python3 FILE` measures there, `merge_bundles` brings the results home; the same call makes the next one.

    Args:
        network: a name such as `mobilenet_v2`, a model, a layer table, or a network.
        device: what records call it.
        target: a profile that its CPU must be able to run.
        batch: inputs at once, for each of the network.
        output: the file to write; `NAME.bundle-N.pyz` in the results folder if None.
        results: the folder of records, reports and best logs.
        name: of the campaign; the network's if None.
        threads: cores that a kernel uses there.
        strategy: how candidates are chosen, as in `tune`.
        trials: per distinct layer.
        seed: of all random choices.
        min_gain: a layer ends early when its next trials should save less than this share of its time.
        portable: for a device with an older C library than this machine's.
        listener: is told how far it is, on this thread; a function gets each `Progress`.
        stop: asked between candidates whether to end.

    Raises:
        SpecError: a value is out of its range.
        UnknownNetworkError, ModelError, LayerTableError, BatchError: the network can't be read.
        ProvisionError, NoLinkerError: the agent, or kernels, can't be made for the device.
        CampaignDiffersError, CampaignError, BuildPoolError: it can't start here, or can't go on.
        StoreError, OSError: records or the bundle can't be written.
    """
    require_tuning()
    layers = as_network(network, batch)
    spec = CampaignSpec(
        layers.name if name is None else name, layers, strategy, seed, trials, None, CacheMode.WARM, min_gain
    )
    away, folder = AwayDevice(device, target, threads, portable), Path(results)
    options = {
        "--device": (device, None),
        "--target": (target, None),
        "--batch": (batch, 1),
        "--output": (output, None),
        "--results": (results, DEFAULT_RESULTS),
        "--name": (name, None),
        "--threads": (threads, 1),
        "--strategy": (strategy, DEFAULT_STRATEGY),
        "--trials": (trials, DEFAULT_TRIALS),
        "--seed": (seed, 0),
        "--min-gain": (min_gain, DEFAULT_MIN_GAIN),
    }
    command = _command(layers.name if isinstance(network, Network) else str(network), options, portable)
    with Interrupts(stop) as asked:
        run_result, made = make_next(
            spec, away, folder, None if output is None else Path(output), command, listener_of(listener), asked
        )
    if made is not None or run_result.ending is Ending.INTERRUPTED:
        return BundleResult(made, None)
    return BundleResult(None, campaign_result(folder, spec.name, run_result.ending, run_result.nothing_left))


def _command(network: str, options: Mapping[str, tuple[object, object]], portable: bool) -> str:
    """What makes the same at a shell; `options` have their values and what they are if left out."""
    given = [word for option, (value, usual) in options.items() if value != usual for word in (option, str(value))]
    return shlex.join(["int8tune", "bundle", "make", network, *given, *(["--portable"] if portable else [])])


def merge_bundles(
    files: str | Path | Sequence[str | Path],
    *,
    results: str | Path = DEFAULT_RESULTS,
    listener: Callable[[Path, Merged], None] = lambda _file, _merged: None,
) -> MergeResult:
    """Bring the results of bundles home, into the records of their campaigns; writes reports and best logs.

    What is recorded already changes nothing. Lines that are damaged are named and left out.

    Args:
        files: what bundles have written.
        results: the folder of records, reports and best logs.
        listener: is told of each file once its results are recorded.

    Raises:
        ForeignResultsError: results are of a bundle that was not made here.
        CampaignDiffersError: they are from another device than the campaign's.
        CampaignError, StoreError: what is known of it can't be read or written.
        OSError: a file can't be read.
    """
    folder = Path(results)
    asked = [files] if isinstance(files, str | Path) else list(files)
    merged = []
    for file in map(Path, asked):
        merged.append(merge(folder, file))
        listener(file, merged[-1])
    names = dict.fromkeys(each.campaign for each in merged)
    campaigns = (campaign_result(folder, name, Ending.PACKED, nothing_left=False) for name in names)
    return MergeResult(tuple(merged), tuple(campaigns))
