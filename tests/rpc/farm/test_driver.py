"""Several devices under the farm's scheduler: threads, transports that fail, and a journal in a file."""

from __future__ import annotations

import ast
import errno
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import int8tune.rpc.farm
from int8tune.results.record import Outcome
from int8tune.rpc.errors import DeviceLostError, DeviceStartError, JournalError, UnreachableError
from int8tune.rpc.farm.driver import Ending, FarmDriver, Replies, Said
from int8tune.rpc.farm.entries import Entry, Opened, Submitted
from int8tune.rpc.farm.events import Open
from int8tune.rpc.farm.journal import JournalFile
from int8tune.rpc.farm.ledger import Ledger
from int8tune.rpc.farm.scheduler import Scheduler
from int8tune.rpc.farm.values import Board, Campaign, Limits, Rules, Trial, Verdict
from int8tune.rpc.request import Reply, Request, Timing
from int8tune.rpc.transports.base import Transport
from int8tune.rpc.transports.fake import FakeTransport

pytestmark = pytest.mark.promise(15, 16, 18)

CANARY = Request((), Timing(), 1.0)
LIMITS = Limits(grace_s=0.5, silence_s=None)
RULES = Rules(idle_s=0.05, lost_delay_s=0.05, first_delay_s=0.05)
LIMIT_S = 20.0


def reply(request: Request) -> Reply:
    """A kernel's time is its request's limit; the canary takes a millisecond."""
    return Reply(Outcome.OK, ((0.001 if request is CANARY else request.run_limit_s / 1000,),), (1,))


class Kernels(FakeTransport):
    """Runs each kernel for as long, and can be cancelled.

    Attributes:
        spans: when each session of a trial began and ended.
    """

    def __init__(self, seconds: float = 0.0, answer: Callable[[Request], Reply] = reply) -> None:
        super().__init__(answer)
        self.spans: list[tuple[float, float]] = []
        self.closed = False
        self._seconds = seconds
        self._cancelled = threading.Event()

    def run(self, request: Request) -> Reply:
        self._cancelled.clear()
        if request is CANARY:
            return super().run(request)
        began = time.monotonic()
        if self._cancelled.wait(self._seconds):
            return Reply(Outcome.DEVICE_LOST, error="cancelled")
        self.spans.append((began, time.monotonic()))
        return super().run(request)

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        self.closed = True


class NoDevice(Kernels):
    """Never starts."""

    def start(self) -> object:  # type: ignore[override]
        raise DeviceStartError("no such host")


class Farm:
    """A driver with boards of one target, and what came of its trials."""

    def __init__(self, *transports: Transport, journal: JournalFile | None = None, known: bool = False) -> None:
        self.boards = {f"b{number}": transport for number, transport in enumerate(transports)}
        specs = [Board(name, "t", limits=LIMITS, canary_s=0.001) for name in self.boards]
        ledger = Ledger.of(journal.entries) if journal and known else None
        self.scheduler = Scheduler(specs, RULES, lambda: 0.0, ledger)
        write = {"write": journal.write, "replies": journal.replies} if journal else {}
        self.driver = FarmDriver(self.boards, self.scheduler, CANARY, **write)  # type: ignore[arg-type]
        self.driver.tell(Open(Campaign("c")))

    def measure(self, count: int, run_limit_s: float = 5.0) -> dict[str, Ending]:
        self.submit(count, run_limit_s)
        return self.collect(count)

    def submit(self, count: int, run_limit_s: float = 5.0) -> None:
        for number in range(count):
            request = Request((), Timing(), number + 1.0)
            self.driver.submit((Trial(f"t{number}", "c", "t", run_limit_s=run_limit_s), request))

    def collect(self, count: int) -> dict[str, Ending]:
        ends: dict[str, Ending] = {}
        until_s = time.monotonic() + LIMIT_S
        while len(ends) < count and time.monotonic() < until_s:
            for ending in self.driver.take(0.5):
                assert ending.trial not in ends
                ends[ending.trial] = ending
        return ends


@pytest.fixture
def farms() -> Iterator[Callable[..., Farm]]:
    made: list[Farm] = []

    def make(*transports: Transport, **options: object) -> Farm:
        made.append(Farm(*transports, **options))  # type: ignore[arg-type]
        return made[-1]

    before = threading.active_count()
    yield make
    for farm in made:
        farm.driver.close()
        assert all(transport.closed for transport in farm.boards.values() if isinstance(transport, Kernels))
    assert threading.active_count() == before


def test_each_trial_has_its_own_reply(farms: Callable[..., Farm]) -> None:
    ends = farms(Kernels(), Kernels(), Kernels()).measure(60)
    assert {trial: end.reply.times_s[0][0] for trial, end in ends.items() if end.reply} == {
        f"t{number}": (number + 1.0) / 1000 for number in range(60)
    }
    assert {end.verdict for end in ends.values()} == {Verdict.OK}


def test_a_full_disk_stops_the_farm_until_there_is_room(tmp_path: Path) -> None:
    """Promise 15: an error each time that it is tried, and nothing is lost or measured twice when there is room."""
    journal, boards = JournalFile(tmp_path / "journal"), [Kernels(), Kernels()]
    calls = iter(range(10_000))

    def write(entries: Sequence[Entry], replies: Replies) -> None:
        if 5 <= next(calls) % 20 < 12:
            raise OSError(errno.ENOSPC, "no space left on device")
        journal.write(entries, replies)

    scheduler = Scheduler([Board(f"b{n}", "t", limits=LIMITS, canary_s=0.001) for n in range(2)], RULES, lambda: 0.0)
    driver = FarmDriver({f"b{n}": board for n, board in enumerate(boards)}, scheduler, CANARY, write)
    driver.tell(Open(Campaign("c")))
    driver.submit(*((Trial(f"t{n}", "c", "t"), Request((), Timing(), n + 1.0)) for n in range(60)))
    ends: list[str] = []
    errors = 0
    until_s = time.monotonic() + LIMIT_S
    while len(ends) < 60 and time.monotonic() < until_s:
        try:
            ends += [ending.trial for ending in driver.take(0.1)]
        except OSError:
            errors += 1
    driver.close()
    journal.close()
    assert errors > 5
    assert sorted(ends) == sorted(f"t{n}" for n in range(60))
    assert sum(len(board.spans) for board in boards) == 60
    assert Ledger.of(entries_of(tmp_path / "journal")).done["c"].keys() == set(ends)


def test_a_kernel_that_hangs_costs_its_board_its_limit(farms: Callable[..., Farm]) -> None:
    hung, well = Kernels(60.0), Kernels(0.02)
    began = time.monotonic()
    ends = farms(hung, well).measure(30, run_limit_s=0.3)
    assert {end.board for end in ends.values()} == {"b1"}
    assert time.monotonic() - began < 8.0
    assert hung.spans == []


@pytest.mark.parametrize("error", [DeviceLostError("gone"), ValueError("a bug")])
def test_a_transport_that_raises_loses_its_board_only(farms: Callable[..., Farm], error: Exception) -> None:
    # A board that is alone gets a trial again and again.
    other_runs = threading.Event()

    def fail(request: Request) -> Reply:
        if request is CANARY:
            return reply(request)
        other_runs.wait(LIMIT_S)
        raise error

    def answer(request: Request) -> Reply:
        other_runs.set()
        return reply(request)

    ends = farms(Kernels(answer=fail), Kernels(answer=answer)).measure(10)
    assert {(end.verdict, end.board) for end in ends.values()} == {(Verdict.OK, "b1")}


def test_a_board_that_does_not_start_is_lost_and_says_why(farms: Callable[..., Farm]) -> None:
    farm = farms(NoDevice(), Kernels())
    assert len(farm.measure(5)) == 5
    status = farm.scheduler.status()[0]
    assert (status.state, status.cause) in (("lost", "no such host"), ("checking", "no such host"))


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome.RUN_FAILED, Verdict.CRASHED),
        (Outcome.RUN_TIMEOUT, Verdict.TIMED_OUT),
        (Outcome.WRONG_ANSWER, Verdict.WRONG),
        (Outcome.DEVICE_LOST, Verdict.INFRA_FAILED),
    ],
)
def test_outcomes_become_verdicts(farms: Callable[..., Farm], outcome: Outcome, verdict: Verdict) -> None:
    def answer(request: Request) -> Reply:
        return reply(request) if request is CANARY else Reply(outcome, error="because")

    ends = farms(Kernels(answer=answer), Kernels(answer=answer)).measure(1)
    assert (ends["t0"].verdict, "because" in ends["t0"].cause) == (verdict, True)


def test_a_campaign_goes_on_from_its_journal(farms: Callable[..., Farm], tmp_path: Path) -> None:
    """What was answered is not measured again, and its reply is there; what was under way is."""
    first = JournalFile(tmp_path / "journal")
    boards = [Kernels(0.05), Kernels(0.05)]
    farm = farms(*boards, journal=first)
    farm.submit(40)
    ends = farm.collect(0)
    until_s = time.monotonic() + LIMIT_S
    while sum(len(board.spans) for board in boards) < 12 and time.monotonic() < until_s:
        for ending in farm.driver.take(0.05):
            ends[ending.trial] = ending
    farm.driver.close()
    first.close()

    second = JournalFile(tmp_path / "journal")
    ledger = Ledger.of(second.entries)
    answered = {trial for trial, open_trial in ledger.open.items() if open_trial.answer} | ledger.done["c"].keys()
    assert len(answered) >= 8
    again = [Kernels(), Kernels()]
    farm = farms(*again, journal=second, known=True)
    farm.submit(40)
    left = 40 - len(ledger.done["c"])
    more = farm.collect(left)
    assert ends.keys() | more.keys() == {f"t{number}" for number in range(40)}
    assert not ends.keys() & more.keys()
    assert all(end.reply is not None and end.verdict is Verdict.OK for end in more.values())
    measured = sum(len(board.spans) for board in again)
    assert measured == 40 - len(answered)
    second.close()


# The journal


def entries_of(path: Path) -> list[Entry]:
    journal = JournalFile(path)
    journal.close()
    return journal.entries


ENTRIES = (Opened(Campaign("c")), Submitted(Trial("x", "c", "t", frozenset({"big"}))))


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = JournalFile(path)
    journal.write(ENTRIES[:1])
    kept = path.stat().st_size
    journal.write(ENTRIES[1:], {"x": {3: Reply(Outcome.OK, ((0.5,),), (1,))}})
    journal.close()
    whole = path.read_bytes()
    for cut in (*range(kept, len(whole), 5), len(whole) - 1, len(whole)):
        path.write_bytes(whole[:cut])
        journal = JournalFile(path)
        is_whole = cut == len(whole)
        assert journal.entries == list(ENTRIES if is_whole else ENTRIES[:1])
        assert journal.replies == ({"x": {3: Reply(Outcome.OK, ((0.5,),), (1,))}} if is_whole else {})
        journal.write(ENTRIES[1:])
        journal.close()
        assert entries_of(path) == ([*ENTRIES, *ENTRIES[1:]] if is_whole else list(ENTRIES))


@pytest.mark.parametrize(("fence", "is_read"), [(0, False), (1, True)])
def test_fences_begin_at_one(fence: int, is_read: bool, tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "journal")
    journal.write(ENTRIES, {"x": {fence: Reply(Outcome.OK, ((0.5,),), (1,))}})
    journal.close()
    if is_read:
        assert entries_of(tmp_path / "journal") == [*ENTRIES]
        return
    with pytest.raises(JournalError, match="journal:1: "):
        JournalFile(tmp_path / "journal")


def test_a_line_that_was_changed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = JournalFile(path)
    for entry in ENTRIES:
        journal.write([entry])
    journal.close()
    whole = bytearray(path.read_bytes())
    first = whole.index(b"\n")
    for place in range(first):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(JournalError, match="journal:1: damaged"):
            JournalFile(path)


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    """The file may not grow by more than a part of a line; with more room, it goes on."""
    path = tmp_path / "journal"
    journal = JournalFile(path)
    journal.write(ENTRIES[:1])
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.write(ENTRIES[1:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.stat().st_size == size
    journal.write(ENTRIES[1:])
    journal.close()
    assert entries_of(path) == list(ENTRIES)


def test_the_farm_goes_by_the_clock_that_nobody_sets() -> None:
    """Promise 18: no deadline looks at the time of day."""
    used = set()
    for path in Path(int8tune.rpc.farm.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime")), path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time":
                used.add(node.attr)
    assert used == {"monotonic"}


def test_a_session_that_is_over_is_not_cancelled(farms: Callable[..., Farm]) -> None:
    """A board is told that it is given up when it says that it is gone: that would end its next session."""

    class Counting(Kernels):
        cancelled = 0

        def cancel(self) -> None:
            self.cancelled += 1

    answers = iter([Reply.lost(UnreachableError("no route to host"), 0.1)] * 3)
    board = Counting(answer=lambda request: next(answers, reply(request)))
    farm = farms(board)
    told = farm.driver._say

    def tell_at_once(said: Said) -> None:
        told(said)
        time.sleep(0.1)

    farm.driver._boards["b0"]._say = tell_at_once
    assert farm.measure(2).keys() == {"t0", "t1"}
    assert board.cancelled == 0
