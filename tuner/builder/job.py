"""What a build is asked for and what comes of it: plain values, sent as JSON."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from int8tune.results.record import ADVICE, Candidate, Outcome
from int8tune.rpc.request import Case, Program
from int8tune.schedules.target import Target

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
        advice: what a GPU's compiler says of code that will be slow, as `nvrtc.compile_cubin` tells it.
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
    advice: tuple[str, ...] = ()

    @property
    def advised(self) -> dict[str, float]:
        """How often each code is in the advice, as records have it among what was observed."""
        counts = Counter(map(advice_code, self.advice))
        return {f"{ADVICE}{code}": float(count) for code, count in sorted(counts.items())}


def advice_code(line: str) -> str:
    """The code that a line of advice begins with, such as `C7515` of `(C7515) Potential Performance Loss: ...`."""
    return line.partition(")")[0].removeprefix("(")


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
    read = {"outcome": Outcome(value["outcome"]), "program": program, "advice": tuple(value["advice"])}
    return Built(**{**value, **read})
