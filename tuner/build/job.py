"""What a build is asked for and what comes of it: plain values, sent as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from results.record import Candidate, Outcome
from rpc.request import Case, Program
from schedules.target import Target

RESULT_FILE = "result.json"
"""What a build leaves in its folder: a `Built`, as JSON."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to build: a candidate, a workload's adversarial suite, or a probe of the device.

    Attributes:
        folder: where the result goes; nothing else writes there.
        limit_s: after this long the build is killed.
        candidate: to be built, with its cases from the folder `suite`.
        suite: folder of the suite of `workload`; without a candidate, the suite is to be written there.
        probe: `peak`, or `words` for a GPU's loop without tensor cores, or the bytes that a bandwidth probe reads.
        estimate_cpu: whose cycles a candidate is estimated to take, by LLVM's name; empty: they are not.
    """

    id: str
    target: Target
    folder: str
    limit_s: float
    workload: str = ""
    candidate: Candidate | None = None
    suite: str = ""
    probe: str | int = ""
    estimate_cpu: str = ""


@dataclass(frozen=True, slots=True)
class Built:
    """How a build ended: `OK`, `REJECTED`, `BUILD_FAILED` or `BUILD_TIMEOUT`.

    Attributes:
        program: none for a suite.
        binary: sha256 over the library and its packed weights: equal ones behave alike.
        work: operations or bytes of one call of a probe.
        estimated_cycles: of one call of a candidate, where they were asked for.
    """

    id: str
    outcome: Outcome
    program: Program | None = None
    binary: str = ""
    error_class: str = ""
    error: str = ""
    build_s: float = 0.0
    work: int = 0
    estimated_cycles: float | None = None


def job_to_json(job: Job) -> dict[str, Any]:
    return dataclasses.asdict(job)


def job_from_json(value: Mapping[str, Any]) -> Job:
    candidate = Candidate(**value["candidate"]) if value["candidate"] else None
    return Job(**{**value, "target": Target(**value["target"]), "candidate": candidate})


def built_to_json(built: Built) -> dict[str, Any]:
    return dataclasses.asdict(built)


def built_from_json(value: Mapping[str, Any]) -> Built:
    program = value["program"]
    if program is not None:
        cases = tuple(Case(tuple(case["inputs"]), case["expected"]) for case in program["cases"])
        program = Program(**{**program, "cases": cases})
    return Built(**{**value, "outcome": Outcome(value["outcome"]), "program": program})
