"""Ways to break the scheduler, each a change of one place of its source."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from int8tune.rpc.farm import evidence, health, ledger, queues, scheduler, state, waits


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module in which one text is replaced by another."""

    name: str
    module: ModuleType
    old: str
    new: str


MUTANTS = (
    Mutant("fences are not compared", scheduler, " and run.lease.fence == fence", ""),
    Mutant(
        "a trial stays in its queue",
        queues,
        "                self.remove(trial.id)\n",
        "                self.push(trial, True)\n",
    ),
    Mutant("fences are used again", state, "self.ledger.fence + 1", "len(self.ledger.open) + 1"),
    Mutant(
        "a new coordinator forgets fences",
        ledger,
        "self.fence = max(self.fence, entry.fence)",
        "self.fence += entry.trial == ''",
    ),
    Mutant(
        "a trial of a lost board is forgotten",
        evidence,
        "        self.queue(trial.id, cause)\n",
        "        None if counts else self.queue(trial.id, cause)\n",
    ),
    Mutant(
        "a void answer is forgotten",
        evidence,
        "            if waited:\n                self.queue(trial, cause)",
        "            if waited:\n                pass",
    ),
    Mutant(
        "a trial in flight dies with its coordinator",
        scheduler,
        "            self._evidence.not_measured(board, open_trial.lease.fence",
        "            (lambda *_, **__: None)(board, open_trial.lease.fence",
    ),
    Mutant(
        "an answer dies with its coordinator",
        scheduler,
        "            run.unconfirmed.append(trial)\n",
        "            pass\n",
    ),
    Mutant(
        "a new coordinator measures answered trials again", scheduler, "elif open_trial.answer is None:", "elif True:"
    ),
    Mutant("a trial is taken twice", scheduler, " or self._farm.ledger.knows(trial)", ""),
    Mutant(
        "no canary after a failure",
        scheduler,
        'self._health.check(run, suspect=True, cause=f"{answer.trial} is {answer.verdict}")',
        "self._rest(run)",
    ),
    Mutant(
        "no canary after a broken session",
        scheduler,
        "            self._health.check(run, suspect=True, cause=cause)",
        "            self._offer(run)",
    ),
    Mutant("no canary between trials", scheduler, "run.since_canary >= run.board.canary_every", "False"),
    Mutant(
        "a canary too few",
        scheduler,
        "run.since_canary >= run.board.canary_every",
        "run.since_canary > run.board.canary_every",
    ),
    Mutant(
        "a board comes back without a canary",
        scheduler,
        "                self._health.check(run, suspect=False, cause=run.cause)",
        "                self._offer(run)",
    ),
    Mutant("a canary's values don't matter", health, "        if not exact:\n", "        if False:\n"),
    Mutant(
        "a canary's time does not matter",
        health,
        "not self._agree(run, known_s, seconds):\n            return f",
        "False:\n            return f",
    ),
    Mutant("a sick board's answers count", health, "self._evidence.void(run, cause, blames=blames)", "pass"),
    Mutant(
        "answers before a slow canary count",
        health,
        "(not run.healthy):\n            self._evidence.void(run, fault, blames=False)\n",
        "(not run.healthy):\n",
    ),
    Mutant(
        "a slow board is never taken off",
        health,
        "run.slow < self._farm.rules.slow_canaries - (not run.healthy)",
        "run.slow < 1e9",
    ),
    Mutant(
        "an answer counts at once",
        evidence,
        "            run.streak.clear()\n",
        "            run.streak.clear()\n            self.confirm(run)\n",
    ),
    Mutant("one board's word is enough", evidence, "and self._needs_second(run, answer.verdict)", "and False"),
    Mutant(
        "no second board is asked about wrong values",
        evidence,
        "verdict is not Verdict.TIMED_OUT or",
        "verdict is Verdict.CRASHED or",
    ),
    Mutant("streaks don't matter", scheduler, "len(run.streak) >= self._farm.rules.streak", "False"),
    Mutant("false alarms don't matter", scheduler, "len(run.accused) >= rules.false_alarms", "False"),
    Mutant("an answer for another candidate counts", scheduler, " or lease.trial.id != answer.trial", ""),
    Mutant(
        "the first failure to measure is the last",
        evidence,
        "open_trial.failures > farm.rules.retries",
        "open_trial.failures > 0",
    ),
    Mutant("nobody listens", health, "        if silence_s is not None:\n", "        if False:\n"),
    Mutant(
        "sessions have no limit", state, "        self.waits.set(Wait.SESSION, run.board.name, due_s)", "        pass"
    ),
    Mutant("a hung kernel has a minute", state, "limit_s = own_s + limits.grace_s", "limit_s = own_s + 60"),
    Mutant(
        "a lost board is never looked at again",
        health,
        "        farm.waits.set(Wait.NEXT_CHECK",
        "        (lambda *_: None)(Wait.NEXT_CHECK",
    ),
    Mutant(
        "deadlines that were moved are forgotten",
        waits,
        "            if wanted_s is not None and key not in self._queued:",
        "            if False:",
    ),
    Mutant("priorities have no bound", queues, "min(priority, MOST_PRIORITY)", "priority"),
    Mutant(
        "sessions count alike", queues, "        line.used += (seconds - charged_s) / weight\n", "        return 1.0\n"
    ),
    Mutant("time may go back", scheduler, "farm.now_s = max(farm.now_s, now_s)", "farm.now_s = now_s"),
    Mutant("a late answer goes unnoticed", scheduler, "        self._farm.order(Refused(board, fence))\n", ""),
    Mutant(
        "answers before a restart count",
        health,
        'self._evidence.void(run, "the board was started anew after it", blames=False)',
        "pass",
    ),
    Mutant("a board's start is forgotten", health, "self._farm.note(Booted(name, boot))", "pass"),
    Mutant("a lost board's answers count", health, "self._evidence.void(run, cause, blames=False)", "pass"),
)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Let the classes of a module have the mutant's methods for a while."""
    source = inspect.getsource(mutant.module)
    assert source.count(mutant.old) == 1, f"{mutant.name}: {source.count(mutant.old)} places"
    changed = ModuleType(mutant.module.__name__)
    exec(compile(source.replace(mutant.old, mutant.new), mutant.module.__file__ or "", "exec"), changed.__dict__)
    kept: list[tuple[type, str, object]] = []
    for name, cls in vars(mutant.module).items():
        if isinstance(cls, type) and cls.__module__ == mutant.module.__name__:
            for method, value in vars(changed)[name].__dict__.items():
                if isinstance(value, types.FunctionType) and not method.startswith("__"):
                    kept.append((cls, method, cls.__dict__[method]))
                    setattr(cls, method, value)
    try:
        yield
    finally:
        for cls, method, original in kept:
            setattr(cls, method, original)
