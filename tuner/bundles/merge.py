"""Brings results home. Nothing of what a file says is believed that the bundle did not ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from int8tune.results.base import Store
from int8tune.results.record import DeviceCheck, Duel, Entry, Measurement, Outcome, Trial
from int8tune.results.stats import median, spread
from int8tune.results.store import SqliteStore
from int8tune.rpc.bundle.manifest import Item, Manifest
from int8tune.rpc.bundle.results_file import Began, Damage, Line, read_lines
from int8tune.rpc.errors import ProtocolError
from int8tune.rpc.inventory.boards import TimingKind
from int8tune.rpc.protocol import reply_from_json
from int8tune.rpc.request import Capabilities, Reply
from int8tune.tuner.bundles.memory import AskedDuels, AskedPeak, AskedTrial, BundleMemory, Known, Remembered, memory_of
from int8tune.tuner.campaign.run import require_same_cpu
from int8tune.tuner.errors import CampaignDiffersError, ForeignResultsError
from int8tune.tuner.folders import STORE_FILE

MOST_FAULTS = 100


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of a file of results.

    Attributes:
        items: of its bundle.
        taken: results that are recorded now.
        known: those that were before, and were left out.
        faults: lines that were not taken, each as `FILE:LINE: why`; the first ones of very many.
        more_faults: how many others were not taken.
        command: what makes the campaign's next bundle.
    """

    campaign: str
    number: int
    items: int
    taken: int
    known: int
    faults: tuple[str, ...]
    more_faults: int
    command: str


def merge(results: Path, file: Path) -> Merged:
    """Record what a file of results has, all of it or nothing; what is recorded already is left out.

    Raises:
        ForeignResultsError: they are of a bundle that was not made here.
        CampaignDiffersError: they are from another device than the campaign's.
        CampaignError: what was known of the bundle is damaged.
        StoreError: the records can't be written.
        OSError: the file can't be read.
    """
    campaign, memory, bundle = _origin(results, file)
    remembered, manifest = memory.recall(bundle)
    reading = _Reading(file, campaign, bundle, manifest, memory.known())
    for number, line in read_lines(file):
        reading.take(number, line)
    with SqliteStore(results / STORE_FILE) as store:
        recording = _Recording(store, campaign, remembered, manifest)
        entries = [entry for answer in reading.answers for entry in recording.entries(answer)] + recording.check()
        store.append(entries)
    if reading.device:
        memory.learn(Known(reading.device, memory.known().no_duels | recording.no_duels))
    taken, count = len(reading.answers) - recording.known, len(manifest.items)
    return Merged(
        campaign=campaign,
        number=remembered.number,
        items=count,
        taken=taken,
        known=recording.known,
        faults=tuple(reading.faults),
        more_faults=reading.more_faults,
        command=remembered.command,
    )


def _origin(results: Path, file: Path) -> tuple[str, BundleMemory, str]:
    """The campaign whose results these are, what is known of its bundles, and the bundle."""
    number, first = 0, None
    for number, line in read_lines(file):  # noqa: B007
        if not isinstance(line, Damage):
            first = line
            break
    if first is None:
        raise ForeignResultsError(f"no line of it can be read, {number} lines: {file}")
    found = memory_of(results, first.bundle)
    if found is None:
        campaign = f" of campaign `{first.campaign[:64]}`" if isinstance(first, Began) else ""
        this = f"bundle {first.bundle[:16]}{campaign}"
        raise ForeignResultsError(f"these are results of {this}, which was not made here: {file}")
    return *found, first.bundle


@dataclass(frozen=True, slots=True)
class _Answer:
    item: Item
    reply: Reply
    device: Capabilities


class _Reading:
    """Takes in lines, and leaves out what can't be an answer to what the bundle asked.

    Attributes:
        device: what the results come from; None as long as that is not known.
        faults, more_faults: as those of `Merged`.
    """

    def __init__(self, file: Path, campaign: str, bundle: str, manifest: Manifest, known: Known) -> None:
        self.device = known.device
        self.faults: list[str] = []
        self.more_faults = 0
        self._file = file
        self._campaign = campaign
        self._bundle = bundle
        self._manifest = manifest
        self._items = {item.id: item for item in manifest.items}
        self._answers: dict[str, _Answer] = {}

    @property
    def answers(self) -> list[_Answer]:
        return list(self._answers.values())

    def take(self, number: int, line: Line) -> None:
        """Take in a line; one that can't be used is a fault.

        Raises:
            CampaignDiffersError: it comes from a device that the bundle was not made for, or from another one than the
                results before it.
        """
        if isinstance(line, Began) and line.bundle == self._bundle:
            self._require_device(line.capabilities)
            self.device = line.capabilities
        elif fault := self._fault(line):
            if len(self.faults) < MOST_FAULTS:
                self.faults.append(f"{self._file}:{number}: {fault}")
            else:
                self.more_faults += 1

    def _fault(self, line: Line) -> str:
        """Take in a result; why it can't be, or nothing."""
        if isinstance(line, Damage):
            return line.why
        if line.bundle != self._bundle or isinstance(line, Began):
            return f"of another bundle: {line.bundle[:16]}"
        item = self._items.get(line.item)
        if item is None:
            return f"nothing of the bundle: {line.item[:40]}"
        if item.id in self._answers:
            return f"a second result: {item.id}"
        if self.device is None:
            return "no line before it says where it was measured"
        try:
            reply = reply_from_json(line.reply, item.request)
        except ProtocolError as error:
            return str(error)
        if reply.outcome is Outcome.DEVICE_LOST:
            return "a lost device is no result"
        self._answers[item.id] = _Answer(item, reply, self.device)
        return ""

    def _require_device(self, device: Capabilities) -> None:
        target = self._manifest.target
        if missing := sorted(self._manifest.needs - device.features):
            raise CampaignDiffersError(f"results of a CPU that can't run `{target}`, it lacks: {', '.join(missing)}")
        if device.environment.get("timing") != TimingKind.MEASURED.value:
            raise CampaignDiffersError(f"times that are no measurements, but an emulator's: {self._file}")
        if self.device:
            require_same_cpu(self._campaign, self.device.environment, device.environment)


class _Recording:
    """Makes entries of answers.

    Attributes:
        known: answers that were recorded before.
        no_duels: defaults and contenders that failed in their duels.
    """

    def __init__(self, store: Store, campaign: str, remembered: Remembered, manifest: Manifest) -> None:
        self.known = 0
        self.no_duels: set[tuple[str, str]] = set()
        self._campaign = campaign
        self._remembered = remembered
        self._manifest = manifest
        trials = list(store.query(Trial, campaign=campaign))
        self._trials = {trial.candidate.id for trial in trials}
        self._sequences = {trial.sequence for trial in trials}
        self._duels = {(duel.a, duel.b) for duel in store.query(Duel, campaign=campaign)}
        self._is_checked = any(store.query(DeviceCheck, device=manifest.device, target=manifest.target))
        self._peaks: list[tuple[AskedPeak, _Answer]] = []
        # The host's clock, as in all records: what a device calls now is its own affair.
        self._now = datetime.now(UTC).isoformat(timespec="milliseconds")

    def entries(self, answer: _Answer) -> list[Entry]:
        """None of what is recorded already; the device's peak waits for `check`."""
        match self._remembered.asked[answer.item.id]:
            case AskedTrial() as asked:
                return self._trial(asked, answer)
            case AskedDuels() as asked:
                return self._match(asked, answer)
            case AskedPeak() as asked:
                self._peaks.append((asked, answer))
                self.known += self._is_checked
                return []

    def check(self) -> list[Entry]:
        """What the device can do, at the quietest of a few moments; nothing as long as it did not say."""
        right = [(asked, answer) for asked, answer in self._peaks if answer.reply.outcome is Outcome.OK]
        if not right or self._is_checked:
            return []
        asked, answer = min(right, key=lambda peak: median(peak[1].reply.times_s[0]))
        times_s = answer.reply.times_s[0]
        device, target = self._manifest.device, self._manifest.target
        environment = self._environment(answer.device)
        return [DeviceCheck(device, target, asked.work / median(times_s), {}, spread(times_s), environment, self._now)]

    def _trial(self, asked: AskedTrial, answer: _Answer) -> list[Entry]:
        reply = answer.reply
        if asked.candidate.id in self._trials:
            self.known += 1
            return []
        measurement = None
        if reply.outcome is Outcome.OK:
            observed = {**reply.observed, **asked.advised}
            measurement = Measurement(reply.times_s[0], reply.calls_per_repeat[0], observed)
        self._trials.add(asked.candidate.id)
        trial = Trial(
            campaign=self._campaign,
            sequence=self._free(asked.sequence),
            candidate=asked.candidate,
            outcome=reply.outcome,
            measurement=measurement,
            device=self._manifest.device,
            environment=self._environment(answer.device),
            started_at=self._now,
            build_s=asked.build_s,
            run_s=reply.run_s,
            binary=asked.binary,
            error_class=reply.error_class,
            error=reply.error,
        )
        return [trial]

    def _match(self, asked: AskedDuels, answer: _Answer) -> list[Entry]:
        default, *rivals = asked.candidates
        pairs = [(default.id, rival.id) for rival in rivals]
        if answer.reply.outcome is not Outcome.OK:
            self.no_duels.update(pairs)
            return []
        self.known += set(pairs) <= self._duels
        return [self._duel(asked, answer, place) for place, pair in enumerate(pairs, 1) if pair not in self._duels]

    def _duel(self, asked: AskedDuels, answer: _Answer, place: int) -> Duel:
        default, rival = asked.candidates[0], asked.candidates[place]
        self._duels.add((default.id, rival.id))
        return Duel(
            campaign=self._campaign,
            workload=default.workload,
            target=default.target,
            device=self._manifest.device,
            a=default.id,
            b=rival.id,
            a_times_s=answer.reply.times_s[0],
            b_times_s=answer.reply.times_s[place],
            environment=self._environment(answer.device),
            started_at=self._now,
        )

    def _free(self, sequence: int) -> int:
        """This number, or the next one that no trial of the campaign has."""
        while sequence in self._sequences:
            sequence += len(self._sequences)
        self._sequences.add(sequence)
        return sequence

    def _environment(self, device: Capabilities) -> Mapping[str, str]:
        return {**device.environment, **self._remembered.environment}
