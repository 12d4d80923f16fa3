"""What a search by MetaSchedule is asked for and what comes of it: plain values, as JSON in files of its folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from int8tune.results.bounded_json import parse_json
from int8tune.rpc.protocol import program_from_json
from int8tune.rpc.request import Program
from int8tune.rpc.wire.fields import Fields, integer, optional, positive, text
from int8tune.schedules.target import Target

JOB_FILE, FOUND_FILE, DATABASE = "job.json", "found.json", "database"


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A layer to be searched.

    Attributes:
        workload: the key of what is searched.
        folder: where everything goes; nothing else writes there.
        suite: folder of the workload's cases.
        cores: those that build; candidates are timed on the last one, while none is built.
        intrinsic: a tensor intrinsic that TVM knows, in place of the exact one of this library; empty for that.
        route: to the board that candidates run on, as `rpc.board.agent_route` writes it; None: to this machine's CPU.
        probe: what that board times before and after each candidate.
    """

    workload: str
    target: Target
    trials: int
    seed: int
    folder: str
    suite: str
    cores: tuple[int, ...]
    intrinsic: str = ""
    route: Mapping[str, object] | None = None
    probe: Program | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found.

    Attributes:
        trials: candidates that were built and timed, or failed.
        failed: those of them that did not build or run.
        search_s: what the search took, from its first proposal to its last time.
        program: the fastest candidate with the cases of the suite; None where all failed.
        version: of TVM.
    """

    trials: int
    failed: int
    search_s: float
    program: Program | None
    version: str


def job_to_json(job: SearchJob) -> str:
    return json.dumps(dataclasses.asdict(job))


def job_from_json(document: str) -> SearchJob:
    value = json.loads(document)
    read = {
        "target": Target(**value["target"]),
        "cores": tuple(value["cores"]),
        "probe": optional(program_from_json)("probe", value["probe"]),
    }
    return SearchJob(**value | read)


def found_to_json(found: Found) -> str:
    return json.dumps(dataclasses.asdict(found))


def found_from_json(document: str) -> Found:
    """Read what a search wrote; it ran candidates in processes of its own, so nothing of it is taken on trust.

    Raises:
        ProtocolError: a field is missing or has a wrong value.
        ValueError: it is not JSON.
    """
    fields = Fields("", parse_json(document), tuple(field.name for field in dataclasses.fields(Found)))
    return Found(
        trials=fields.read("trials", integer(0, 1 << 30)),
        failed=fields.read("failed", integer(0, 1 << 30)),
        search_s=fields.read("search_s", positive),
        program=fields.read("program", optional(program_from_json)),
        version=fields.read("version", text),
    )
