"""What a campaign on boards keeps for its next start, should it be killed.

The records have all that counts; this file only spares what was answered and waited for its board's next canary, and
remembers how the boards were: what their canaries take, which are in quarantine. So it waits for no disk, and where it
is damaged, of another canary, or can't be written, the campaign does without.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from int8tune.results.record import Outcome
from int8tune.results.text import printable
from int8tune.rpc.errors import JournalError, ProtocolError
from int8tune.rpc.farm.driver import Replies
from int8tune.rpc.farm.entries import Began, Booted, Calibrated, Entry, Turned
from int8tune.rpc.farm.health import TOOK_OTHERWISE
from int8tune.rpc.farm.journal import JournalFile
from int8tune.rpc.farm.ledger import Ledger
from int8tune.rpc.farm.state import Status
from int8tune.rpc.farm.values import State, Verdict
from int8tune.rpc.process.status_files import host_boot
from int8tune.rpc.protocol import reply_from_json, reply_to_json
from int8tune.rpc.request import Reply, Request

# A board that was left alone for longer may have been ill when it answered, and be well now.
LONGEST_GAP_S = 600.0
_MARK = ":"
_LONGEST_S = 1e6


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that no canary has confirmed yet."""

    board: str
    reply: Reply


def trial_id(serial: int, key: str) -> str:
    """A trial's name in the journal: another one each time, with `key` for what is measured."""
    return f"{serial}{_MARK}{key}"


class FarmJournal:
    """A journal that begins with what the one before it knew.

    Attributes:
        ledger: how the boards were.
    """

    def __init__(self, path: Path, canary: str, boards: Iterable[str], notice: Callable[[str], None]) -> None:
        """
        Args:
            canary: the sha256 of its library.
            notice: is told why there is no journal, where that is so.
        """
        self._path = path
        self._notice = notice
        self._file: JournalFile | None = None
        self._kept: dict[str, Kept] = {}
        entries: list[Entry] = [Began(host_boot(), canary)]
        try:
            entries += self._take_over(entries[0], set(boards))
            self._begin(entries)
        except OSError as error:
            self._do_without(error)
        self.ledger = Ledger.of(entries)
        self._inherited = set(self.ledger.canaries_s)

    def write(self, entries: Sequence[Entry], replies: Replies) -> None:
        """Add what the farm decided; it is `rpc.farm.driver.FarmDriver`'s `write`."""
        for entry in entries:
            if isinstance(entry, Booted | Calibrated):
                self._forget(entry.board)
            elif isinstance(entry, Turned) and entry.state in (State.QUARANTINED, State.LOST):
                self._forget(entry.board)
                self._tell(entry)
        if self._file:
            try:
                self._file.write(entries, replies)
            except OSError as error:
                self._do_without(error)

    def take(self, key: str, request: Request, boards: Sequence[Status]) -> Kept | None:
        """What a board answered before of the same candidate, once its first canary of this run was good."""
        kept = self._kept.get(key)
        if kept is None or not any(status.board == kept.board and _is_well(status) for status in boards):
            return None
        del self._kept[key]
        try:
            return Kept(kept.board, reply_from_json(json.loads(json.dumps(reply_to_json(kept.reply))), request))
        except ProtocolError:
            return None

    def close(self) -> None:
        """Leave the file for the next start."""
        if self._file:
            self._file.close()
            self._file = None

    def _forget(self, board: str) -> None:
        """The board was off, started anew or disturbed since its canary was good, or before that."""
        self._kept = {key: kept for key, kept in self._kept.items() if kept.board != board}

    def _tell(self, turned: Turned) -> None:
        """A board that changed for good between two runs would be held to its old canary for ever."""
        if turned.board in self._inherited and TOOK_OTHERWISE in turned.cause:
            self._inherited.discard(turned.board)
            self._notice(
                f"`{turned.board}`: {turned.cause}, as known from the run before; to forget that: rm {self._path}"
            )

    def _take_over(self, began: Entry, boards: set[str]) -> list[Entry]:
        """What holds of the last run's journal.

        Raises:
            OSError: it can't be read.
        """
        if not self._path.exists():
            return []
        gap_s = time.time() - self._path.stat().st_mtime
        try:
            file = JournalFile(self._path, waits_for_disk=False)
            file.close()
            before = Ledger.of(file.entries)
            if before.began is None or not isinstance(began, Began) or before.began.canary != began.canary:
                return []
            if before.began == began and 0 <= gap_s <= LONGEST_GAP_S:
                self._kept = _answered(before, file.replies, boards)
            return _known(before, boards)
        except (JournalError, LookupError, TypeError, AttributeError) as error:
            said = printable(f"{type(error).__name__}: {error}")[:200]
            self._notice(f"the boards' journal can't be read, what it kept is measured again: {self._path}: {said}")
            return []

    def _begin(self, entries: Sequence[Entry]) -> None:
        """Replace the file by one that begins with these entries."""
        fresh = self._path.with_name(f".{self._path.name}.new")
        fresh.unlink(missing_ok=True)
        self._file = JournalFile(fresh, waits_for_disk=False)
        self._file.write(entries)
        fresh.replace(self._path)

    def _do_without(self, error: OSError) -> None:
        """Half of a journal would be worse than none: an answer without its later entries would be believed."""
        self.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
        self._notice(f"there is no journal of the boards: {self._path}: {(error.strerror or str(error)).lower()}")


def _known(before: Ledger, boards: set[str]) -> list[Entry]:
    """How the boards were, as a journal begins."""
    times = {board: s for board, s in before.canaries_s.items() if board in boards and 0 < s < _LONGEST_S}
    entries: list[Entry] = [Calibrated(board, seconds) for board, seconds in times.items()]
    entries += [Booted(board, str(boot)) for board, boot in before.boots.items() if board in boards]
    off = [(board, cause) for board, (state, cause) in before.states.items() if state is State.QUARANTINED]
    return entries + [Turned(board, State.QUARANTINED, str(cause)) for board, cause in off if board in boards]


def _answered(before: Ledger, replies: Mapping[str, Mapping[int, Reply]], boards: set[str]) -> dict[str, Kept]:
    """Right answers that nobody contradicted, by what was measured."""
    kept = {}
    for trial, open_trial in before.open.items():
        answer = open_trial.answer
        if answer is None or answer.verdict is not Verdict.OK or open_trial.blames or answer.board not in boards:
            continue
        reply = replies.get(trial, {}).get(answer.fence)
        if reply is not None and reply.outcome is Outcome.OK:
            kept[trial.partition(_MARK)[2]] = Kept(answer.board, reply)
    return kept


def _is_well(status: Status) -> bool:
    return status.canary is not None and not status.canary.fault
