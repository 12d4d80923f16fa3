"""Entries to table rows and back. Mappings and lists of times are kept as JSON text, and every row has a checksum."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic

from sqlalchemy import ColumnElement, Table

from int8tune.results.base import E
from int8tune.results.columns import config_of, entrant_of, entrants_of, integer_of, layers_of, numbers_of, times_of
from int8tune.results.errors import RecordError
from int8tune.results.record import (
    BenchResult,
    BoardEvent,
    BoardEventKind,
    Campaign,
    CampaignRun,
    Candidate,
    DeviceCheck,
    Duel,
    Entrant,
    Entry,
    Estimate,
    Measurement,
    Outcome,
    Trial,
)
from int8tune.results.schema import bench_results, board_events, campaign_runs, campaigns, device_checks, duels, trials
from int8tune.results.storable import as_unicode, require_storable

Values = dict[str, Any]
# Where the table of trials keeps an estimate: among what was observed, beside an empty list of times.
_CYCLES = "estimated_cycles"
# Columns of a run that could not have the field's name, which is a word of SQL.
_RUN_COLUMNS = {"user": "user_name", "commit": "commit_id"}
Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Codec(Generic[E]):
    """How entries of one kind are kept.

    Attributes:
        label: what messages call one entry.
        columns: the column that each filter of a query compares.
        encode: the entry's values by column, without references to other tables and without the checksum.
        decode: the entry of a row's values, the name of its campaign and its environment (empty where it has none).
    """

    table: Table
    label: str
    columns: Mapping[str, ColumnElement[Any]]
    encode: Callable[[E], Values]
    decode: Callable[[Values, str, Environment], E]

    @property
    def has_campaign(self) -> bool:
        return "campaign_id" in self.table.c

    @property
    def has_environment(self) -> bool:
        return "environment_id" in self.table.c

    def filters(self, **wanted: str | None) -> list[tuple[str, str]]:
        """The filters that are set, as (name, value).

        Raises:
            ValueError: entries of this kind have no such field.
        """
        chosen = [(name, value) for name, value in wanted.items() if value is not None]
        for name, _ in chosen:
            if name not in self.columns:
                raise ValueError(f"a {self.label} has no {name} to filter by")
        return chosen


def checksum(table: Table, values: Mapping[str, Any]) -> int:
    """CRC-32 of a row's values, all but its id and its checksum, in the order of the columns."""
    content = [values[name] for name in _summed_columns(table)]
    return zlib.crc32(_compact(content).encode())


_compact = json.JSONEncoder(separators=(",", ":")).encode
_compact_and_finite = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@functools.cache
def _summed_columns(table: Table) -> list[str]:
    return [name for name in table.c.keys() if name not in ("id", "checksum")]  # noqa: SIM118


def to_json(value: object, what: str) -> str:
    """JSON text that stays exact.

    Raises:
        RecordError: a NaN, an infinity, or no JSON value at all.
    """
    try:
        return _compact_and_finite(value)
    except (ValueError, TypeError) as error:
        raise RecordError(f"{what} can't be kept ({error}): {value!r:.200}") from error


def codec_of(kind: type[E]) -> Codec[E]:
    """The codec of a kind of entries, one of those that `Entry` names."""
    return _CODECS[kind]


def codec_of_table(name: str) -> Codec[Any]:
    """The codec of the entries that a table has.

    Raises:
        KeyError: there is no such table.
    """
    return {codec.table.name: codec for codec in _CODECS.values()}[name]


def encode(entry: Entry) -> Values:
    """Values of any entry, checked to be such that a table can keep them.

    Raises:
        RecordError: a value that can't be kept.
    """
    codec = codec_of(type(entry))
    values = codec.encode(entry)
    for name, value in values.items():
        require_storable(f"{name} of a {codec.label}", value)
    return values


def _encode_campaign(campaign: Campaign) -> Values:
    return {
        "name": campaign.name,
        "network": campaign.network,
        "device": campaign.device,
        "target": campaign.target,
        "strategy": campaign.strategy,
        "seed": str(campaign.seed),
        "trials_per_task": int(campaign.trials_per_task),
        "layers": to_json(_layers_to_json(campaign), "layers of a campaign"),
        "created_at": campaign.created_at,
    }


def _decode_campaign(row: Values, _campaign: str, _environment: Environment) -> Campaign:
    layers = layers_of(row["layers"])
    return Campaign(
        name=row["name"],
        network=row["network"],
        device=row["device"],
        target=row["target"],
        strategy=row["strategy"],
        seed=integer_of(row["seed"]),
        trials_per_task=row["trials_per_task"],
        layers={workload: count for workload, (count, _) in layers.items()},
        created_at=row["created_at"],
        names={workload: names for workload, (_, names) in layers.items() if names},
    )


def _layers_to_json(campaign: Campaign) -> Values:
    """For each workload a count, or, where names are known, a list of the count and the names."""
    return {
        workload: [count, *map(as_unicode, campaign.names[workload])] if workload in campaign.names else count
        for workload, count in campaign.layers.items()
    }


def _encode_run(run: CampaignRun) -> Values:
    texts = {name: as_unicode(str(value)) for name, value in asdict(run).items() if name != "campaign"}
    return {_RUN_COLUMNS.get(name, name): text for name, text in texts.items()}


def _decode_run(row: Values, campaign: str, _environment: Environment) -> CampaignRun:
    names = [field.name for field in fields(CampaignRun) if field.name != "campaign"]
    return CampaignRun(campaign, **{name: row[_RUN_COLUMNS.get(name, name)] for name in names})


def _encode_board_event(event: BoardEvent) -> Values:
    return {
        "board": event.board,
        "kind": event.kind.value,
        "canary_s": float(event.canary_s),
        "cause": as_unicode(event.cause),
        "happened_at": event.happened_at,
    }


def _decode_board_event(row: Values, campaign: str, _environment: Environment) -> BoardEvent:
    kind = BoardEventKind(row["kind"])
    return BoardEvent(campaign, row["board"], kind, row["canary_s"], row["cause"], row["happened_at"])


def _encode_trial(trial: Trial) -> Values:
    candidate = trial.candidate
    return {
        "sequence": int(trial.sequence),
        "candidate_id": candidate.id,
        "workload": candidate.workload,
        "target": candidate.target,
        "template": candidate.template,
        "template_version": int(candidate.template_version),
        "config": to_json(dict(candidate.config), "the config of a trial"),
        "outcome": trial.outcome.value,
        **(_encode_estimate(trial.estimate) if trial.estimate else _encode_measurement(trial.measurement)),
        "device": trial.device,
        "started_at": trial.started_at,
        "build_s": float(trial.build_s),
        "run_s": float(trial.run_s),
        "binary": trial.binary,
        "reused_from": trial.reused_from,
        "error_class": as_unicode(trial.error_class),
        "error": as_unicode(trial.error),
        "attempts": int(trial.attempts),
    }


def _encode_measurement(measurement: Measurement | None) -> Values:
    if measurement is None:
        return {"times_s": None, "calls_per_repeat": None, "observed": None}
    return {
        "times_s": to_json(measurement.times_s, "times of a trial"),
        "calls_per_repeat": int(measurement.calls_per_repeat),
        "observed": to_json(dict(measurement.observed), "observations of a trial"),
    }


def _encode_estimate(estimate: Estimate) -> Values:
    """No times: what was verified is not always measured."""
    return {
        "times_s": "[]",
        "calls_per_repeat": 0,
        "observed": to_json({_CYCLES: estimate.cycles}, "the estimate of a trial"),
    }


def _decode_trial(row: Values, campaign: str, environment: Environment) -> Trial:
    return Trial(
        campaign=campaign,
        sequence=row["sequence"],
        candidate=Candidate(
            workload=row["workload"],
            target=row["target"],
            template=row["template"],
            template_version=row["template_version"],
            config=config_of(row["config"]),
        ),
        outcome=Outcome(row["outcome"]),
        measurement=_decode_measurement(row),
        device=row["device"],
        environment=environment,
        started_at=row["started_at"],
        build_s=row["build_s"],
        run_s=row["run_s"],
        binary=row["binary"],
        reused_from=row["reused_from"],
        error_class=row["error_class"],
        error=row["error"],
        attempts=row["attempts"],
        estimate=_decode_estimate(row),
    )


def _decode_estimate(row: Values) -> Estimate | None:
    return Estimate(_observed(row)[_CYCLES]) if row["times_s"] == "[]" else None


def _decode_measurement(row: Values) -> Measurement | None:
    if row["times_s"] is None or row["times_s"] == "[]":
        return None
    return Measurement(times_of(row["times_s"]), row["calls_per_repeat"], _observed(row))


def _observed(row: Values) -> Mapping[str, float]:
    if row["observed"] is None:
        raise RecordError("a trial that was measured says nothing of what was observed")
    return numbers_of(row["observed"])


def _encode_duel(duel: Duel) -> Values:
    return {
        "workload": duel.workload,
        "target": duel.target,
        "device": duel.device,
        "a": duel.a,
        "b": duel.b,
        "a_times_s": to_json(duel.a_times_s, "times of a duel"),
        "b_times_s": to_json(duel.b_times_s, "times of a duel"),
        "started_at": duel.started_at,
    }


def _decode_duel(row: Values, campaign: str, environment: Environment) -> Duel:
    return Duel(
        campaign=campaign,
        workload=row["workload"],
        target=row["target"],
        device=row["device"],
        a=row["a"],
        b=row["b"],
        a_times_s=times_of(row["a_times_s"]),
        b_times_s=times_of(row["b_times_s"]),
        environment=environment,
        started_at=row["started_at"],
    )


def _encode_check(check: DeviceCheck) -> Values:
    return {
        "device": check.device,
        "target": check.target,
        "peak_ops_per_s": float(check.peak_ops_per_s),
        "bandwidth_bytes_per_s": to_json(dict(check.bandwidth_bytes_per_s), "the bandwidth of a device check"),
        "noise": float(check.noise),
        "started_at": check.started_at,
    }


def _decode_check(row: Values, _campaign: str, environment: Environment) -> DeviceCheck:
    return DeviceCheck(
        device=row["device"],
        target=row["target"],
        peak_ops_per_s=row["peak_ops_per_s"],
        bandwidth_bytes_per_s=numbers_of(row["bandwidth_bytes_per_s"]),
        noise=row["noise"],
        environment=environment,
        started_at=row["started_at"],
    )


def _encode_bench(result: BenchResult) -> Values:
    candidate = result.candidate
    return {
        "bench": result.bench,
        "workload": candidate.workload,
        "target": candidate.target,
        "template": candidate.template,
        "template_version": int(candidate.template_version),
        "config": to_json(dict(candidate.config), "the config of a bench"),
        "is_tuned": int(result.is_tuned),
        "device": result.device,
        "threads": int(result.threads),
        "ours": to_json(_entrant_to_json(result.ours), "an entrant of a bench"),
        "peers": to_json([_entrant_to_json(peer) for peer in result.peers], "entrants of a bench"),
        "peak_ops_per_s": to_json(result.peak_ops_per_s, "peaks of a bench"),
        "started_at": result.started_at,
    }


def _decode_bench(row: Values, _campaign: str, environment: Environment) -> BenchResult:
    config = config_of(row["config"])
    return BenchResult(
        bench=row["bench"],
        candidate=Candidate(row["workload"], row["target"], row["template"], row["template_version"], config),
        is_tuned=bool(row["is_tuned"]),
        device=row["device"],
        threads=row["threads"],
        ours=entrant_of(row["ours"]),
        peers=entrants_of(row["peers"]),
        peak_ops_per_s=times_of(row["peak_ops_per_s"]),
        environment=environment,
        started_at=row["started_at"],
    )


def _entrant_to_json(entrant: Entrant) -> Values:
    return asdict(entrant) | {"error": as_unicode(entrant.error)}


def _columns(table: Table, names: Sequence[str]) -> dict[str, ColumnElement[Any]]:
    return {name: table.c[name] for name in names}


_CODECS: dict[type[Any], Codec[Any]] = {
    Campaign: Codec(
        campaigns,
        "campaign",
        {"campaign": campaigns.c.name, **_columns(campaigns, ("target", "device"))},
        _encode_campaign,
        _decode_campaign,
    ),
    CampaignRun: Codec(
        campaign_runs,
        "run of a campaign",
        {"campaign": campaigns.c.name},
        _encode_run,
        _decode_run,
    ),
    BoardEvent: Codec(
        board_events,
        "board event",
        {"campaign": campaigns.c.name},
        _encode_board_event,
        _decode_board_event,
    ),
    Trial: Codec(
        trials,
        "trial",
        {"campaign": campaigns.c.name, **_columns(trials, ("workload", "target", "device"))},
        _encode_trial,
        _decode_trial,
    ),
    Duel: Codec(
        duels,
        "duel",
        {"campaign": campaigns.c.name, **_columns(duels, ("workload", "target", "device"))},
        _encode_duel,
        _decode_duel,
    ),
    DeviceCheck: Codec(
        device_checks,
        "device check",
        _columns(device_checks, ("target", "device")),
        _encode_check,
        _decode_check,
    ),
    BenchResult: Codec(
        bench_results,
        "bench result",
        _columns(bench_results, ("workload", "target", "device")),
        _encode_bench,
        _decode_bench,
    ),
}
