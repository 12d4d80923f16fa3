"""This library's contestant: the best schedule that is known of a layer, built and verified as in a campaign."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from int8tune.results.base import Store
from int8tune.results.record import Candidate, Outcome, Trial, as_in_networks
from int8tune.results.stats import median
from int8tune.rpc.request import Program, Request, Timing
from int8tune.rpc.transports.base import Transport
from int8tune.schedules.errors import UnknownTemplateError, WorkloadError
from int8tune.schedules.operands import Operands
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.space import ConfigSpace
from int8tune.schedules.target import Target
from int8tune.schedules.template import Template
from int8tune.schedules.upgrades import with_same_kernel
from int8tune.schedules.workload import Workload
from int8tune.tuner.builder.base import Pool
from int8tune.tuner.builder.job import Built, Job
from int8tune.tuner.campaign.candidate_builder import BUILD_LIMIT_S, SUITE_LIMIT_S
from int8tune.tuner.campaign.measuring import SESSION_LIMIT_S, calls_limit_s
from int8tune.tuner.suggest import recorded_best
from int8tune.tuner.verify import write_case

OWN_NAME = "int8tune"
# How it is timed here does not count: it is timed beside the others.
ONCE = Timing(repeats=1, min_repeat_s=0.0)


@dataclass(frozen=True, slots=True)
class Choice:
    """What this library runs for a layer, and whether a campaign found it."""

    candidate: Candidate
    is_tuned: bool


class NotPreparedError(Exception):
    """The candidate was not built, or is not exact; the text says why."""

    def __init__(self, outcome: Outcome, error: str) -> None:
        super().__init__(error)
        self.outcome = outcome


def choose(store: Store, workload: Workload, target: Target, device: str, template: str | None = None) -> Choice:
    """The best schedule in the records that this version can still make, else the default of the layer's template.

    Args:
        template: whose schedule it must be; then the best one is the fastest trial, whoever won.

    Raises:
        UnknownTemplateError: there is no such template.
        WorkloadError: no template takes the layer, or this one does not.
    """
    own = template_for(workload, target) if template is None else template_named(template)
    if rejection := own.rejects(workload, target):
        raise WorkloadError(f"{own.name} does not take {workload.key}: {rejection.reason}")
    space = own.space(workload, target)
    if template is None:
        best = recorded_best(store, workload, target, device)
    else:
        best = _fastest(store, workload, target, device, own, space)
    config = space.written(space.default)
    return Choice(best or Candidate(workload.key, target.name, own.name, own.version, config), best is not None)


def _fastest(
    store: Store, workload: Workload, target: Target, device: str, template: Template, space: ConfigSpace
) -> Candidate | None:
    """The fastest of a template's trials, of configs that it still has."""
    found = [
        (median(trial.measurement.times_s), trial.candidate)
        for trial in as_in_networks(store.query(Trial, workload=workload.key, target=target.name, device=device))
        if trial.measurement is not None
        and trial.outcome is Outcome.OK
        and trial.candidate.template == template.name
        and _is_in(space, trial.candidate)
    ]
    return min(found, key=lambda one: one[0])[1] if found else None


def _is_in(space: ConfigSpace, candidate: Candidate) -> bool:
    """Whether a template still makes a candidate's kernel, and its space has it."""
    try:
        found = with_same_kernel(candidate.template, candidate.template_version, candidate.config)
    except UnknownTemplateError:
        return False
    return space.fault(found.config) is None


class Preparation:
    """Builds candidates one after the other, and verifies each on a device."""

    def __init__(self, pool: Pool, transport: Transport, target: Target) -> None:
        self._pool = pool
        self._transport = transport
        self._target = target

    def program(self, workload: Workload, candidate: Candidate, operands: Operands, folder: Path) -> Program:
        """The verified program of a candidate, whose one case is that of the operands. The folder takes its files.

        Raises:
            NotPreparedError: it does not build, or is not exact on the adversarial suite or these operands.
        """
        suite = self.write_suite(workload, operands, folder)
        return self.verified(workload, self.build(workload, candidate, suite, folder))

    def write_suite(self, workload: Workload, operands: Operands, folder: Path) -> Path:
        """The folder of a workload's adversarial suite, the operands as its last case.

        Raises:
            NotPreparedError: the oracle's outputs could not be computed.
        """
        suite, key = folder / "suite", workload.key
        self._built(Job("suite", self._target, str(folder / "suite.job"), SUITE_LIMIT_S, key, suite=str(suite)))
        write_case(suite / f"{len(list(suite.glob('*.npz')))}.npz", workload, operands)
        return suite

    def build(self, workload: Workload, candidate: Candidate, suite: Path, folder: Path) -> Program:
        """The program of a candidate with all cases of a suite.

        Raises:
            NotPreparedError: it does not build.
        """
        job = Job("kernel", self._target, str(folder / "kernel"), BUILD_LIMIT_S, workload.key, candidate, str(suite))
        program = self._built(job).program
        assert program is not None
        return program

    def verified(self, workload: Workload, program: Program) -> Program:
        """The program with its last case alone, once it was exact on all.

        Raises:
            NotPreparedError: it is not, or did not run to its end.
        """
        limit_s = SESSION_LIMIT_S + calls_limit_s(workload, None)
        reply = self._transport.run(Request((program,), ONCE, limit_s))
        if reply.outcome is not Outcome.OK:
            raise NotPreparedError(reply.outcome, reply.error)
        return replace(program, cases=program.cases[-1:])

    def _built(self, job: Job) -> Built:
        self._pool.submit(job)
        deadline = time.monotonic() + 2 * job.limit_s
        while time.monotonic() < deadline:
            for built in self._pool.collect(1.0):
                if built.outcome is not Outcome.OK:
                    raise NotPreparedError(built.outcome, built.error)
                return built
        raise NotPreparedError(Outcome.BUILD_TIMEOUT, f"the build server did not answer within {2 * job.limit_s:g} s")
