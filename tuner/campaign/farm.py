"""Campaigns on the boards of an inventory: one for each target that they have, all boards of it at a time."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from int8tune.compiler.toolchain.linker import find_linker
from int8tune.rpc.inventory.boards import Board, TransportKind
from int8tune.rpc.request import Capabilities, Cold, Program
from int8tune.rpc.transports.base import Transport
from int8tune.schedules.target import Target, target_for
from int8tune.tuner.board_transports import TRANSPORTS, local_cores, require_transport
from int8tune.tuner.campaign.board_events import BoardEvents
from int8tune.tuner.campaign.board_reports import BoardReports
from int8tune.tuner.campaign.boards import Boards
from int8tune.tuner.campaign.farm_journal import FarmJournal
from int8tune.tuner.campaign.loop_context import Purpose
from int8tune.tuner.campaign.measuring import Measuring, Occasion
from int8tune.tuner.campaign.run import MeasuringSite
from int8tune.tuner.campaign.spec import CampaignSpec
from int8tune.tuner.cores import bound_to
from int8tune.tuner.errors import SpecError
from int8tune.tuner.folders import journal_path

_LONGEST_NAME = 64
ESTIMATED_ARCHITECTURE = "aarch64"


@contextmanager
def sites_of(
    boards: Sequence[Board], profile: str | None, reports: Path | None = None
) -> Iterator[list[MeasuringSite]]:
    """Start the boards, and put those together that have one CPU and one target.

    Args:
        profile: of the target; by default each board's own, or the best for its CPU.
        reports: the folder where campaigns say how the boards are; None: they don't.

    Raises:
        SpecError: a board has a transport that campaigns can't use.
        ProvisionError: an agent of this machine's can't be made.
        DeviceStartError: a board can't be reached, or has no agent of this version.
        UnknownTargetError: a board can't run the profile.
        NoLinkerError: nothing here links for a board's architecture.
    """
    for board in boards:
        require_transport(board)
    with ExitStack() as stack:
        building = _building_cores(boards)
        alike: dict[tuple[Target, str, bool], list[tuple[Board, Transport, Capabilities, Target]]] = {}
        for board in boards:
            transport = TRANSPORTS[board.transport](board)
            stack.callback(transport.close)
            found = transport.start()
            find_linker(found.architecture)
            _require_model(board, found)
            chosen = profile or board.target or None
            target = target_for(found.features, found.llvm_cpu, found.llvm_triple, chosen, board.threads)
            kind = target, found.cpu, board.is_measured
            alike.setdefault(kind, []).append((board, transport, found, target))
        stack.enter_context(bound_to(building))
        yield [_site(members, building, reports) for members in alike.values()]


def spec_on(spec: CampaignSpec, site: MeasuringSite, sites: Sequence[MeasuringSite]) -> CampaignSpec:
    """The campaign on one of several sites: each has a name of its own.

    Raises:
        SpecError: the name is too long with that.
    """
    if len(sites) == 1:
        return spec
    alike = [other for other in sites if other.target.name == site.target.name]
    own = site.target.name if len(alike) == 1 else f"{site.target.name}-{site.device.replace('+', '.')}"
    return replace(spec, name=f"{spec.name}-{own}")


def _require_model(board: Board, found: Capabilities) -> None:
    """Where times are no measurements, kernels are estimated, and there are models of ARM's cores only."""
    if not board.is_measured and found.architecture != ESTIMATED_ARCHITECTURE:
        raise SpecError(
            f'board `{board.name}` has timing = "none", and estimates are for {ESTIMATED_ARCHITECTURE} only: '
            f"{found.architecture}"
        )


def _building_cores(boards: Sequence[Board]) -> tuple[int, ...]:
    """Cores of this machine that build: those that no board of this machine measures on, if there are any."""
    own = tuple(sorted(os.sched_getaffinity(0)))
    taken = {core for board in boards if board.transport is TransportKind.LOCAL for core in local_cores(board)}
    return tuple(core for core in own if core not in taken) or own[:1]


def _site(
    members: Sequence[tuple[Board, Transport, Capabilities, Target]], building: Sequence[int], folder: Path | None
) -> MeasuringSite:
    """Boards that are alike; the first one is checked."""
    first, transport, capabilities, target = members[0]
    transports = {board.name: each for board, each, _, _ in members}

    def measuring(probe: Program, cold: Cold | None, occasion: Occasion) -> Measuring[Purpose]:
        every = min(board.canary_every for board, *_ in members)
        return Boards(
            transports,
            target.name,
            probe,
            random.random,
            cold=cold,
            canary_every=every,
            is_measured=first.is_measured,
            reports=BoardReports(folder, occasion.campaign, target.name, occasion.notice) if folder else None,
            owned={board.name: board for board, *_ in members},
            notice=occasion.notice,
            events=BoardEvents(occasion.campaign, occasion.keep),
            journal=FarmJournal(
                journal_path(occasion.results, occasion.campaign), probe.sha256, transports, occasion.notice
            ),
        )

    name = "+".join(sorted(transports))
    device = name if len(name) <= _LONGEST_NAME else f"{first.name[:40]}+{len(members) - 1} boards"
    memory_bytes = min(board.limits.memory_bytes for board, *_ in members)
    estimate_cpu = "" if first.is_measured else first.cpu or capabilities.llvm_cpu
    return MeasuringSite(
        device, transport, capabilities, target, measuring, building[:-1], building[-1], memory_bytes, estimate_cpu
    )
