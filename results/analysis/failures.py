"""Which templates fail in which way, and which choices of a knob fail more often than others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from int8tune.results.record import Outcome, Trial

# A choice is named where so many of its trials failed, and it fails by this factor more often than its template.
LEAST_FAILED = 3
SUSPICIOUS = 1.5
MOST_CHOICES = 12


@dataclass(frozen=True, slots=True)
class TemplateOutcomes:
    """How the trials of one template ended."""

    template: str
    outcomes: Mapping[Outcome, int]

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())

    @property
    def failed(self) -> int:
        return self.trials - self.outcomes.get(Outcome.OK, 0)


@dataclass(frozen=True, slots=True)
class ChoiceFailures:
    """A choice of a knob that fails more often than its template does."""

    template: str
    knob: str
    choice: str
    trials: int
    failed: int


@dataclass(frozen=True, slots=True)
class Failures:
    """Templates by name, and suspicious choices, those with the most failures first."""

    templates: tuple[TemplateOutcomes, ...]
    choices: tuple[ChoiceFailures, ...]


@dataclass(slots=True)
class FailureNotes:
    """What is counted while the trials go by."""

    outcomes: dict[str, Counter[Outcome]] = field(default_factory=dict)
    tried: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failed: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, trial: Trial) -> None:
        template = trial.candidate.template
        self.outcomes.setdefault(template, Counter())[trial.outcome] += 1
        choices = [(template, knob, str(value)) for knob, value in trial.candidate.config.items()]
        self.tried.update(choices)
        if trial.outcome is not Outcome.OK:
            self.failed.update(choices)

    def failures(self) -> Failures:
        templates = tuple(TemplateOutcomes(name, dict(counts)) for name, counts in sorted(self.outcomes.items()))
        rates = {one.template: one.failed / one.trials for one in templates}
        choices = [
            ChoiceFailures(*choice, self.tried[choice], count)
            for choice, count in self.failed.items()
            if count >= LEAST_FAILED and count / self.tried[choice] >= SUSPICIOUS * rates[choice[0]]
        ]
        choices.sort(key=lambda one: (-one.failed, -one.failed / one.trials, one.template, one.knob, one.choice))
        return Failures(templates, tuple(choices[:MOST_CHOICES]))
