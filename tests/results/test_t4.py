"""Trials in the T4 form: what the form asks for is there, and nothing of them changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from int8tune.results.record import Outcome, Trial
from int8tune.results.store import SqliteStore
from tests.support.program.cli_program import in_process
from tests.support.program.results_samples import LAYER, TARGET, campaign, candidate, failed, ok

jsonschema = pytest.importorskip("jsonschema", reason="needs the extra `test`: jsonschema")
NUMBER, TEXT = {"type": "number"}, {"type": "string"}
# What readers of version 1.0.0 need, and how an invalid one may have ended (github.com/odgaard/TuningSchema).
RESULT = {
    "type": "object",
    "required": ["configuration", "times", "invalidity", "correctness"],
    "properties": {
        "timestamp": TEXT,
        "configuration": {"type": "object", "minProperties": 1},
        "objectives": {"type": "array", "items": TEXT},
        "times": {"type": "object", "properties": {"compilation_time": NUMBER, "runtimes": {"items": NUMBER}}},
        "invalidity": {"enum": ["correct", "constraints", "compile", "runtime", "timeout", "correctness"]},
        "correctness": {"enum": [0, 1]},
        "measurements": {"items": {"required": ["name", "value", "unit"], "properties": {"name": TEXT, "unit": TEXT}}},
    },
}
DOCUMENT = {
    "required": ["schema_version", "results"],
    "properties": {"schema_version": {"pattern": r"^\d+\.\d+\.\d+$"}, "results": {"type": "array", "items": RESULT}},
}


def exported(tmp_path: Path, trials: list[Trial]) -> list[dict[str, Any]]:
    """The results of a file that was written of a campaign with these trials."""
    with SqliteStore(tmp_path / "records.db") as store:
        store.append([campaign(), *trials])
    out = tmp_path / "out.t4.json"
    ended = in_process("results", "export", out, "--results", tmp_path)
    assert ended.code == 0, ended.err
    document = json.loads(out.read_text())
    jsonschema.Draft202012Validator(DOCUMENT).validate(document)
    assert document["schema_version"] == "1.0.0"
    results: list[dict[str, Any]] = document["results"]
    return results


def test_a_trial_is_its_configuration_its_times_and_how_it_ended(tmp_path: Path) -> None:
    timed = ok(0, 2e-3, chosen=candidate(7))
    first, second = exported(tmp_path, [timed, failed(1)])
    assert first["configuration"] == {
        "workload": LAYER, "target": TARGET, "template": "direct", "tile": 7, "unroll": True, "order": "khw"
    }  # fmt: skip
    assert timed.measurement is not None
    assert first["times"]["runtimes"] == pytest.approx([1e3 * time_s for time_s in timed.measurement.times_s])
    assert first["measurements"] == [{"name": "time", "value": pytest.approx(2.0, rel=0.1), "unit": "ms"}]
    assert (first["objectives"], first["invalidity"], first["correctness"]) == (["time"], "correct", 1)
    assert (second["objectives"], second["correctness"], second["times"]["runtimes"]) == ([], 0, [])


def test_each_outcome_is_one_that_the_form_knows(tmp_path: Path) -> None:
    outcomes = [outcome for outcome in Outcome if outcome not in (Outcome.OK, Outcome.DEVICE_LOST)]
    trials = [replace(failed(number), outcome=outcome) for number, outcome in enumerate(outcomes)]
    found = [result["invalidity"] for result in exported(tmp_path, [*trials, ok(90)])]
    assert found == ["constraints", "compile", "timeout", "correctness", "runtime", "timeout", "correct"]
