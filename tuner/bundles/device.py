"""A device that can't be reached, as a campaign's loop sees it: what it is to measure is packed."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, replace

from int8tune.results.label import layer_label
from int8tune.results.record import Candidate
from int8tune.rpc.bundle.manifest import Item
from int8tune.rpc.bundle.pack import Packer
from int8tune.rpc.request import Capabilities, Cold, Program, Reply, Request
from int8tune.schedules.gpus import GPUS
from int8tune.schedules.target import PROFILES, Profile
from int8tune.schedules.workload import Workload
from int8tune.tuner.bundles.memory import Asked, AskedDuels, AskedPeak, AskedTrial
from int8tune.tuner.campaign.loop_context import Match, Purpose
from int8tune.tuner.campaign.measuring import SESSION_LIMIT_S, duel_request, trial_request
from int8tune.tuner.device_check import PEAK_ATTEMPTS, PEAK_TIMING, RUN_LIMIT_S
from int8tune.tuner.errors import SpecError

# What code for any CPU of an architecture may use, by LLVM's name.
_PLAINEST = {"x86_64": "x86-64", "aarch64": "generic"}


def profile_named(name: str) -> Profile:
    """Raises: SpecError: there is none."""
    known = (*PROFILES, *(Profile(gpu.profile, frozenset({gpu.feature})) for gpu in GPUS))
    for profile in known:
        if profile.name == name:
            return profile
    raise SpecError(f"unknown target `{name[:60]}`, known: {', '.join(profile.name for profile in known)}")


def assumed(profile: Profile) -> Capabilities:
    """What is known of a device that nobody has seen: that it can run the profile. It is as this machine otherwise."""
    families = {"x86": "x86_64", "arm": "aarch64"}
    architecture = families.get(profile.name.partition("-")[0], platform.machine())
    return Capabilities(
        architecture=architecture,
        cpu="",
        llvm_cpu=_PLAINEST[architecture],
        llvm_triple=f"{architecture}-linux-gnu",
        features=profile.needs,
        cores=(),
        cache_bytes={},
        environment={},
    )


class Packing:
    """Packs what is started, and never answers; `tuner.campaign.measuring.Measuring` of a campaign's purposes.

    Attributes:
        canary: the probe, with the names that its files have in the bundle.
    """

    def __init__(self, packer: Packer, probe: Program, peak_work: int) -> None:
        """`peak_work`: as `tuner.campaign.measuring.Occasion` has it."""
        self.canary = packer.program(probe)
        self.probe: Program | None = probe
        self.session_limit_s = SESSION_LIMIT_S
        self.cold: Cold | None = None
        self._packer = packer
        self._items: dict[tuple[int, int, str], tuple[Item, Asked]] = {}
        self._never = os.eventfd(0, os.EFD_CLOEXEC)
        if peak_work:
            request = Request((probe,), PEAK_TIMING, RUN_LIMIT_S)
            for attempt in range(PEAK_ATTEMPTS):
                self._add((0, attempt, f"peak-{attempt}"), "the device's peak", (), request, AskedPeak(peak_work))

    @property
    def items(self) -> list[tuple[Item, Asked]]:
        """In an order that no build's haste changes: the peak, layer by layer their trials, the duels."""
        return [self._items[key] for key in sorted(self._items)]

    @property
    def shares_cores(self) -> bool:
        return False

    @property
    def answers_later(self) -> bool:
        return True

    @property
    def board(self) -> str:
        return ""

    @property
    def done(self) -> int:
        return self._never

    @property
    def idle(self) -> bool:
        return True

    def start_trial(self, purpose: Purpose, workload: Workload, program: Program, best_s: float | None) -> None:
        assert not isinstance(purpose, Match)
        slot, built = purpose
        asked = AskedTrial(slot.sequence, slot.candidate, built.build_s, built.binary, built.advised)
        request = trial_request(self, workload, program, best_s)
        place = 1 + slot.task.task.index, slot.sequence, slot.candidate.id
        self._add(place, layer_label(workload.key), (slot.candidate,), request, asked)

    def start_duels(self, purpose: Purpose, workload: Workload, programs: tuple[Program, ...]) -> None:
        assert isinstance(purpose, Match)
        request = duel_request(self, workload, programs)
        # All of its rounds, which take no second: whether fewer would do is asked with numpy, and here it is not.
        request = replace(request, timing=replace(request.timing, min_gain=None))
        task = purpose.run.task
        place = 1 + task.index, 1 << 62, f"duels-{task.index}"
        label = f"duels of {layer_label(workload.key)}"
        self._add(place, label, purpose.candidates, request, AskedDuels(purpose.candidates))

    def take(self, limit_s: float) -> tuple[Purpose, Reply] | None:  # noqa: ARG002
        return None

    def close(self) -> None:
        os.close(self._never)

    def _add(
        self,
        place: tuple[int, int, str],
        label: str,
        candidates: tuple[Candidate, ...],
        request: Request,
        asked: Asked,
    ) -> None:
        item = Item(place[2], label, tuple(map(asdict, candidates)), self._packer.request(request))
        self._items[place] = item, asked
