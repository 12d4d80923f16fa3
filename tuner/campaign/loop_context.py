"""What a campaign's loop works with, and what it has the device do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from int8tune.results.base import Store
from int8tune.results.record import Candidate
from int8tune.rpc.request import Program
from int8tune.tuner.builder.job import Built
from int8tune.tuner.campaign.candidate_builder import CandidateBuilder
from int8tune.tuner.campaign.events import Listener
from int8tune.tuner.campaign.measuring import Measuring
from int8tune.tuner.campaign.task import Slot, TaskRun


@dataclass(slots=True)
class Match:
    """Duels of a task's default against its contenders, and the programs that were built for them so far."""

    run: TaskRun
    candidates: tuple[Candidate, ...]
    programs: dict[str, Program] = field(default_factory=dict)


Purpose = tuple[Slot, Built] | Match


@dataclass(frozen=True, slots=True)
class LoopContext:
    """What a loop works with.

    Attributes:
        environment: of the device, for the records.
        stop_requested: asked between steps; once it says yes, the loop finishes what the device is doing and ends.
    """

    store: Store
    builds: CandidateBuilder
    device: Measuring[Purpose]
    device_name: str
    environment: Mapping[str, str]
    listener: Listener
    stop_requested: Callable[[], bool]

    @property
    def environment_now(self) -> Mapping[str, str]:
        """The environment of the reply that was taken last."""
        board = self.device.board
        return {**self.environment, "board": board} if board else self.environment
