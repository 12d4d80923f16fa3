"""The best log: the file that hands the best schedules to a compiler."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from int8tune.results.atomic import write_atomic
from int8tune.results.best import BestSchedule
from int8tune.results.bounded_json import parse_json
from int8tune.results.errors import BestLogError, RecordError
from int8tune.results.json_forms import Made, knobs, matching, number_over, printable_text, whole_number
from int8tune.results.record import Candidate
from int8tune.results.stats import Speedup
from int8tune.results.typed_json import TypedJsonError, from_json

VERSION = 1
HEADER = "int8tune_best_log"
MAX_BYTES = 64 << 20
MAX_LINE_BYTES = 1 << 20
MAX_SCHEDULES = 50_000
MAX_FAULTS = 100
TEXT_SHOWN = 60


def write_best_log(path: Path, schedules: Iterable[BestSchedule]) -> None:
    """Write a best log: a header line, then one JSON object per schedule. It is replaced whole or not at all.

    Raises:
        ExportError: the file can't be written; an older one is as it was.
    """
    write_atomic(path, best_log_text(schedules))


def best_log_text(schedules: Iterable[BestSchedule]) -> str:
    """A header line, then one JSON object per schedule."""
    lines = [json.dumps({HEADER: VERSION}), *(json.dumps(_as_line(best), allow_nan=False) for best in schedules)]
    return "".join(f"{line}\n" for line in lines)


def read_best_log(
    path: Path, more_faults: Callable[[BestSchedule], Sequence[str]] = lambda _: ()
) -> list[BestSchedule]:
    """Read a best log, which may come from anywhere: nothing of it is believed before it is checked.

    `more_faults` checks what only others know, such as which configs a template has; it says `field: what, allowed`.

    Raises:
        BestLogError: with every fault found, each as `file:line: field: what, allowed`.
    """
    faults: list[str] = []
    schedules: list[BestSchedule] = []
    lines_of: dict[tuple[str, str, str], int] = {}
    for number, text in _lines(path):
        schedule, wrong = _parse_line(text)
        if schedule is not None:
            key = (schedule.workload, schedule.target, schedule.device)
            if lines_of.setdefault(key, number) != number:
                wrong = [f"workload: is there for this target and device already, in line {lines_of[key]}: {key[0]}"]
            wrong = [*wrong, *more_faults(schedule)]
            schedules.append(schedule)
        faults += [f"{path}:{number}: {fault}" for fault in wrong]
        if len(faults) > MAX_FAULTS:
            faults[MAX_FAULTS:] = [f"{path}: more than {MAX_FAULTS} faults, the rest was not read"]
            break
    if faults:
        raise BestLogError(faults)
    return schedules


def _as_line(best: BestSchedule) -> dict[str, Any]:
    return {
        "workload": best.workload,
        "target": best.target,
        "device": best.device,
        "template": best.candidate.template,
        "template_version": best.candidate.template_version,
        "config": dict(best.candidate.config),
        "candidate": best.candidate.id,
        **({"estimated_cycles": best.estimated_cycles} if best.median_s is None else {"median_s": best.median_s}),
        "default_candidate": best.default_candidate,
        "speedup": asdict(best.speedup) if best.speedup is not None else None,
        "campaign": best.campaign,
        "sequence": best.sequence,
    }


_NAME = printable_text(512)
_Name = Annotated[str, _NAME]
_Count = Annotated[int, whole_number(0)]
_Id = Annotated[str, matching("[0-9a-f]{20}", "20 hexadecimal digits")]
_Positive = Annotated[float, number_over(0)]


@dataclass(frozen=True, slots=True)
class _Interval:
    """A speedup, as a line has it."""

    estimate: _Positive
    low: _Positive
    high: _Positive


_SPEEDUP = Made(_Interval, lambda found: Speedup(**asdict(found)), RecordError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A schedule, as a best log has it: it was measured or, in `_EstimatedLine`, only estimated."""

    workload: _Name
    target: _Name
    device: _Name
    template: _Name
    template_version: _Count
    config: Annotated[Mapping[str, Any], knobs(64, _NAME)]
    candidate: _Id
    default_candidate: _Id
    speedup: Annotated[Speedup, _SPEEDUP] | None
    campaign: Annotated[str, matching("[A-Za-z0-9._-]{1,64}", "1 to 64 letters, digits, `.`, `_`, `-`")]
    sequence: _Count


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasuredLine(_Line):
    median_s: Annotated[float, number_over(0, unit="seconds, a finite number")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EstimatedLine(_Line):
    estimated_cycles: Annotated[float, number_over(0, unit="cycles, a finite number")]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines after the header."""
    for number, line in enumerate(io.BytesIO(_read(path)), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise BestLogError([f"{path}:{number}: the line has over {MAX_LINE_BYTES} bytes"])
        if number > MAX_SCHEDULES + 1:
            raise BestLogError([f"{path}:{number}: a best log has at most {MAX_SCHEDULES} schedules"])
        try:
            text = line.decode().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise BestLogError([f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line)"]) from error
        if number == 1:
            _require_header(path, text)
        else:
            yield number, text


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise BestLogError([f"not a file: {path}" if path.exists() else f"no such best log: {path}"])
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BestLogError([f"the best log can't be read ({error.strerror}): {path}"]) from error
    if len(content) > MAX_BYTES:
        raise BestLogError([f"the best log has over {MAX_BYTES} bytes: {path}"])
    if not content:
        raise BestLogError([f"the best log is empty (0 bytes): {path}"])
    return content


def _require_header(path: Path, text: str) -> None:
    try:
        found = _object(text)
    except ValueError as error:
        raise BestLogError([f"{path}:1: not a best log: {error}"]) from error
    version = found.get(HEADER)
    if set(found) != {HEADER} or type(version) is not int:
        raise BestLogError([f'{path}:1: not a best log, which starts with {{"{HEADER}": {VERSION}}}: {text[:60]!a}'])
    if version != VERSION:
        raise BestLogError([f"{path}:1: {HEADER}: {version}, allowed: {VERSION}"])


def _parse_line(text: str) -> tuple[BestSchedule | None, Sequence[str]]:
    """The schedule of a line, or the faults in it."""
    try:
        found = _object(text)
        is_estimated = "estimated_cycles" in found
        line = from_json(_EstimatedLine, found) if is_estimated else from_json(_MeasuredLine, found)
    except TypedJsonError as error:
        return None, error.lines
    except ValueError as error:
        return None, [str(error)]
    schedule, faults = _schedule_of(line), []
    if schedule.candidate.id != line.candidate:
        faults.append(f"candidate: {line.candidate}, allowed: the id of this schedule, {schedule.candidate.id}")
    if schedule.speedup is not None and not schedule.is_default and schedule.speedup.low <= 1:
        faults.append(f"speedup: low {schedule.speedup.low}, allowed: over 1, unless it is the default's own")
    return (None, faults) if faults else (schedule, [])


def _object(text: str) -> dict[str, object]:
    """The JSON object of a line.

    Raises:
        ValueError: no JSON, too long, nested too deeply, a name that is there twice, or a value that is no object.
    """
    try:
        value = parse_json(text, is_finite=False)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON (column {error.colno}: {error.msg})") from error
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object: {text[:TEXT_SHOWN]!a}")
    return value


def _schedule_of(line: _MeasuredLine | _EstimatedLine) -> BestSchedule:
    return BestSchedule(
        workload=line.workload,
        target=line.target,
        device=line.device,
        candidate=Candidate(line.workload, line.target, line.template, line.template_version, line.config),
        median_s=line.median_s if isinstance(line, _MeasuredLine) else None,
        default_candidate=line.default_candidate,
        speedup=line.speedup,
        campaign=line.campaign,
        sequence=line.sequence,
        estimated_cycles=line.estimated_cycles if isinstance(line, _EstimatedLine) else None,
    )
