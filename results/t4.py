"""Trials in the T4 form, in which auto-tuners exchange what they measured.

Source of the form: https://github.com/odgaard/TuningSchema, results-schema.json, and what Kernel Tuner writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from int8tune.results.record import Outcome, Trial
from int8tune.results.stats import median

VERSION = "1.0.0"
_INVALIDITY = {
    Outcome.OK: "correct",
    Outcome.REJECTED: "constraints",
    Outcome.BUILD_FAILED: "compile",
    Outcome.BUILD_TIMEOUT: "timeout",
    Outcome.WRONG_ANSWER: "correctness",
    Outcome.RUN_FAILED: "runtime",
    Outcome.RUN_TIMEOUT: "timeout",
}


def t4_document(trials: Iterable[Trial]) -> dict[str, Any]:
    """Measured trials as an object for JSON; times are in milliseconds, as Kernel Tuner's are.

    The form is of one kernel: layer, template and target stand beside the knobs, as if they were some.
    """
    return {
        "schema_version": VERSION,
        "metadata": {"timeunit": "milliseconds"},
        "results": [_result(trial) for trial in trials],
    }


def _result(trial: Trial) -> dict[str, Any]:
    chosen = trial.candidate
    times_ms = [1e3 * time_s for time_s in trial.measurement.times_s] if trial.measurement else []
    measurements = [{"name": "time", "value": median(times_ms), "unit": "ms"}] if times_ms else []
    about = {"workload": chosen.workload, "target": chosen.target, "template": chosen.template}
    return {
        "timestamp": trial.started_at,
        "configuration": {**about, **chosen.config},
        "objectives": [each["name"] for each in measurements],
        "times": {
            "compilation_time": 1e3 * trial.build_s,
            "benchmark": 1e3 * trial.run_s,
            "runtimes": times_ms,
        },
        "invalidity": _INVALIDITY[trial.outcome],
        "correctness": int(trial.outcome is Outcome.OK),
        "measurements": measurements,
    }
