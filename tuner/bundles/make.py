"""Makes a campaign's next bundle: all that can be measured before results come home."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from int8tune.compiler.toolchain.linker import find_linker
from int8tune.results.record import CacheMode, Campaign
from int8tune.results.user_cache import default_cache
from int8tune.rpc.agent.build import Bundle as AgentBundle
from int8tune.rpc.agent.build import compilers, make_bundle
from int8tune.rpc.bundle.archive import Bundle, open_bundle, own_bytes
from int8tune.rpc.bundle.manifest import Manifest, id_of
from int8tune.rpc.bundle.pack import Packer
from int8tune.rpc.errors import ProvisionError
from int8tune.rpc.request import Capabilities, Cold, Program
from int8tune.schedules.target import Target, target_for
from int8tune.tuner.bundles.device import Packing, assumed, profile_named
from int8tune.tuner.bundles.memory import BundleMemory, Known, Remembered
from int8tune.tuner.campaign.events import Listener
from int8tune.tuner.campaign.loop import Ending
from int8tune.tuner.campaign.loop_context import Purpose
from int8tune.tuner.campaign.measuring import Measuring, Occasion
from int8tune.tuner.campaign.run import CampaignRunResult, MeasuringSite, environment_of, run_on
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.campaign_name import NAME
from int8tune.tuner.errors import SpecError
from int8tune.tuner.folders import make_folder
from int8tune.tuner.installed import require_tuning
from int8tune.tuner.publish import open_records
from int8tune.tuner.verify import SUITE_NAME, SUITE_SEED


@dataclass(frozen=True, slots=True)
class AwayDevice:
    """A device that can't be reached.

    Attributes:
        name: in the records.
        profile: of the target; its CPU must have what that needs.
        has_old_libraries: whether its C library may be older than this machine's.
    """

    name: str
    profile: str
    threads: int = 1
    has_old_libraries: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A bundle that was written.

    Attributes:
        number: of the campaign's bundles, from 1.
        own_bytes: what it would take without any candidate.
        is_new: whether no bundle of the campaign was the same before.
    """

    bundle: Bundle
    number: int
    size_bytes: int
    own_bytes: int
    is_new: bool


def make_next(
    spec: CampaignSpec,
    device: AwayDevice,
    results: Path,
    path: Path | None,
    command: str,
    listener: Listener,
    stop_requested: Callable[[], bool],
) -> tuple[CampaignRunResult, Made | None]:
    """Run a campaign until all that is left waits for the device, and pack that; None where nothing is left.

    Args:
        path: of the bundle; in the results folder if None.
        command: what makes the next one.

    Raises:
        SpecError: the device's name or profile can't be used.
        ProvisionError: the agent can't be made.
        NoLinkerError: nothing here links for the device's architecture.
        BuildPoolError, CampaignError, StoreError: as `tuner.campaign.run.run_on`.
        OSError: the bundle can't be written.
    """
    require_tuning()
    away = _away(device)
    memory = BundleMemory(make_folder(results), spec.name)
    with TemporaryDirectory(prefix=".bundle-", dir=results) as staging:
        packer = Packer(Path(staging), away.agent, away.kind)
        packings: list[Packing] = []

        def measuring(probe: Program, _cold: Cold | None, occasion: Occasion) -> Measuring[Purpose]:
            packings.append(Packing(packer, probe, occasion.peak_work))
            return packings[0]

        run_result = run_on(_site(away, memory.known(), measuring), spec, results, listener, stop_requested)
        if run_result.ending is not Ending.PACKED:
            return run_result, None
        (packing,) = packings
        content = packer.finish(_manifest(spec, away, packing, _started_at(results, spec.name)))
        environment = environment_of(away.unseen, away.target) | {"cache": CacheMode.WARM.value, "transport": "bundle"}
        number, is_new = _remember(memory, content, packing, command, environment)
        path = path or results / f"{spec.name}.bundle-{number}.pyz"
        packer.write(path, content)
        return run_result, _made(path, number, is_new)


@dataclass(frozen=True, slots=True)
class _Away:
    """What is known of a device before anything comes home: `unseen` is what its profile lets one expect."""

    name: str
    threads: int
    unseen: Capabilities
    needs: frozenset[str]
    target: Target
    agent: AgentBundle

    @property
    def kind(self) -> str:
        return "cpu" if self.target.gpu is None else "gpu"


def _away(device: AwayDevice) -> _Away:
    """Raises: SpecError, ProvisionError, NoLinkerError: as `make_next` does."""
    if not NAME.fullmatch(device.name):
        raise SpecError(f"a device's name has 1 to 64 of the characters A-Z a-z 0-9 . _ -: {device.name[:80]!r}")
    profile = profile_named(device.profile)
    unseen = assumed(profile)
    find_linker(unseen.architecture)
    target = target_for(unseen.features, unseen.llvm_cpu, unseen.llvm_triple, profile.name, device.threads)
    agent = _agent(unseen.architecture, device.has_old_libraries, target.gpu is not None)
    return _Away(device.name, device.threads, unseen, profile.needs, target, agent)


def _agent(architecture: str, is_portable: bool, has_gpu: bool) -> AgentBundle:
    """Raises: ProvisionError: it can't be made."""
    portable = next((compiler for compiler in compilers(architecture) if "ziglang" in compiler), None)
    if is_portable and portable is None:
        raise ProvisionError("for an old C library Zig must be installed: pip install 'int8tune[cross]'")
    return make_bundle(architecture, default_cache(), portable if is_portable else None, has_gpu=has_gpu)


def _site(
    away: _Away, known: Known, measuring: Callable[[Program, Cold | None, Occasion], Measuring[Purpose]]
) -> MeasuringSite:
    """All cores of this machine build; records name the device's CPU once that is known."""
    *building, guest = sorted(os.sched_getaffinity(0))
    environment = known.device.environment if known.device else away.unseen.environment
    capabilities = replace(away.unseen, environment=environment)
    return MeasuringSite(
        away.name, None, capabilities, away.target, measuring, building, guest, no_duels=known.no_duels
    )


def _manifest(spec: CampaignSpec, away: _Away, packing: Packing, started_at: str) -> Manifest:
    """All but the files, which the packer knows."""
    return Manifest(
        kind=away.kind,
        version=version("int8tune"),
        campaign=spec.name,
        started_at=started_at,
        device=away.name,
        target=away.target.name,
        architecture=away.unseen.architecture,
        needs=away.needs,
        threads=away.threads,
        suite=f"{SUITE_NAME}, seed {SUITE_SEED}",
        canary=packing.canary,
        agent=away.agent.name,
        items=tuple(item for item, _ in packing.items),
        files={},
    )


def _remember(
    memory: BundleMemory, content: bytes, packing: Packing, command: str, environment: Mapping[str, str]
) -> tuple[int, bool]:
    """The bundle's number, and whether it is a new one."""
    bundle = id_of(content)
    if memory.has(bundle):
        return memory.recall(bundle)[0].number, False
    number = memory.next_number()
    asked = {item.id: asked for item, asked in packing.items}
    memory.remember(bundle, content, Remembered(number, command, environment, asked))
    return number, True


def _started_at(results: Path, campaign: str) -> str:
    with open_records(results) as store:
        return next(store.query(Campaign, campaign=campaign)).created_at


def _made(path: Path, number: int, is_new: bool) -> Made:
    bundle = open_bundle(path)
    return Made(bundle, number, path.stat().st_size, own_bytes(bundle), is_new)
