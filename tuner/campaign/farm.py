"""Campaigns on the boards of an inventory: one for each target that they have, all boards of it at a time."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from compiler.linker import find_linker
from rpc.base import Transport
from rpc.inventory import Board, TimingKind, TransportKind
from rpc.local import LocalTransport
from rpc.request import Capabilities, Program
from rpc.ssh import AgentTransport
from schedules.target import Target, target_for
from tuner.campaign.boards import Boards
from tuner.campaign.measuring import Measuring
from tuner.campaign.run import Ground
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.surroundings import Purpose
from tuner.cores import bound_to, measuring_and_build_cores
from tuner.errors import SpecError

_LONGEST_NAME = 64


@contextmanager
def grounds_of(boards: Sequence[Board], profile: str | None) -> Iterator[list[Ground]]:
    """Start the boards, and put those together that have one CPU and one target.

    Args:
        profile: of the target; by default each board's own, or the best for its CPU.

    Raises:
        SpecError: there are none, or a board's times are no measurements.
        DeviceStartError: a board can't be reached, or has no agent of this version.
        UnknownTargetError: a board can't run the profile.
        NoLinkerError: nothing here links for a board's architecture.
    """
    for board in boards:
        _require_times(board)
    with ExitStack() as stack:
        building = _building_cores(boards)
        alike: dict[tuple[str, str], list[tuple[Board, Transport, Capabilities, Target]]] = {}
        for board in boards:
            transport = _transport(board)
            stack.callback(transport.close)
            found = transport.start()
            find_linker(found.architecture)
            chosen = profile or board.target or None
            target = target_for(found.features, found.llvm_cpu, found.llvm_triple, chosen, board.threads)
            alike.setdefault((target.name, found.cpu), []).append((board, transport, found, target))
        stack.enter_context(bound_to(building))
        yield [_ground(members, building) for members in alike.values()]


def spec_on(spec: CampaignSpec, ground: Ground, grounds: Sequence[Ground]) -> CampaignSpec:
    """The campaign on one of several grounds: each has a name of its own.

    Raises:
        SpecError: the name is too long with that.
    """
    return spec if len(grounds) == 1 else replace(spec, name=f"{spec.name}-{ground.target.name}")


def _require_times(board: Board) -> None:
    if board.transport not in (TransportKind.LOCAL, TransportKind.SSH):
        found = f'board `{board.name}` has transport = "{board.transport.value}"'
        raise SpecError(f"campaigns measure on boards with transport local or ssh: {found}")
    if board.timing is TimingKind.NONE:
        raise SpecError(f'board `{board.name}` has timing = "none": its times are no measurements to tune by')


def _building_cores(boards: Sequence[Board]) -> tuple[int, ...]:
    """Cores of this machine that build: those that no board of this machine measures on, if there are any."""
    own = tuple(sorted(os.sched_getaffinity(0)))
    taken = {core for board in boards if board.transport is TransportKind.LOCAL for core in _local_cores(board)}
    return tuple(core for core in own if core not in taken) or own[:1]


def _local_cores(board: Board) -> tuple[int, ...]:
    return board.cores or measuring_and_build_cores(board.threads)[0]


def _transport(board: Board) -> Transport:
    return LocalTransport(_local_cores(board)) if board.transport is TransportKind.LOCAL else AgentTransport(board)


def _ground(members: Sequence[tuple[Board, Transport, Capabilities, Target]], building: Sequence[int]) -> Ground:
    """Boards that are alike; the first one is checked."""
    first, transport, capabilities, target = members[0]
    transports = {board.name: each for board, each, _, _ in members}

    def measuring(probe: Program, cold_bytes: int) -> Measuring[Purpose]:
        every = min(board.canary_every for board, *_ in members)
        return Boards(transports, target.name, probe, random.random, cold_bytes=cold_bytes, canary_every=every)

    name = "+".join(sorted(transports))
    device = name if len(name) <= _LONGEST_NAME else f"{first.name[:40]}+{len(members) - 1} boards"
    memory_bytes = min(board.limits.memory_bytes for board, *_ in members)
    return Ground(device, transport, capabilities, target, measuring, building[:-1], building[-1], memory_bytes)
