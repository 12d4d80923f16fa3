"""A campaign that is looked at again and again: of its trials only those are read that are new."""

from __future__ import annotations

from collections.abc import Iterable

from int8tune.results.base import CountingStore, Store
from int8tune.results.contest import Task, task_of
from int8tune.results.drift import cost
from int8tune.results.record import Campaign, Duel, Outcome, Trial
from int8tune.results.selection import CANDIDATES_AT_ONCE
from int8tune.results.snapshot import CampaignSnapshot, Seen, snapshot, snapshot_of


class FollowedCampaign:
    """A campaign's snapshots, one after the other, all of one store. After an error it is of no more use.

    Of each task the default, the fastest trial and those that were timed against the default are kept, as no other
    decides.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self._row = 0
        self._seen = Seen()
        self._defaults: dict[Task, Trial] = {}
        self._fastest: dict[Task, Trial] = {}
        self._timed: dict[str, Trial] = {}

    def look(self, store: Store) -> CampaignSnapshot:
        """The campaign as it is now.

        Raises:
            StoreError: it can't be read.
        """
        if not isinstance(store, CountingStore):
            return snapshot(store, self.campaign)
        # Duels first: the trials of those are there.
        duels = list(store.query(Duel, campaign=self.campaign.name))
        rivals = {duel.b for duel in duels}
        for row, trial in store.trials_after(self.campaign.name, self._row):
            self._row = max(self._row, row)
            self._add(trial, rivals)
        self._find(store, rivals - self._timed.keys())
        return snapshot_of(self.campaign, duels, self._deciding(), self._seen)

    def _add(self, trial: Trial, rivals: set[str]) -> None:
        self._seen.note(trial)
        task = task_of(trial)
        default = self._defaults.setdefault(task, trial)
        if trial.sequence < default.sequence:
            self._defaults[task] = trial
        if trial.outcome is not Outcome.OK:
            return
        fastest = self._fastest.setdefault(task, trial)
        if (cost(trial), trial.sequence) < (cost(fastest), fastest.sequence):
            self._fastest[task] = trial
        if trial.candidate.id in rivals:
            self._timed[trial.candidate.id] = trial

    def _find(self, store: CountingStore, missing: Iterable[str]) -> None:
        """Trials that went by before somebody timed them against the default."""
        wanted = sorted(missing)
        for first in range(0, len(wanted), CANDIDATES_AT_ONCE):
            for trial in store.trials_of(self.campaign.name, wanted[first : first + CANDIDATES_AT_ONCE]):
                self._timed[trial.candidate.id] = trial

    def _deciding(self) -> list[Trial]:
        kept = [*self._defaults.values(), *self._fastest.values(), *self._timed.values()]
        return sorted({trial.sequence: trial for trial in kept}.values(), key=lambda trial: trial.sequence)
