"""What happened in a simulated farm, as lines of plain values, and a checker that knows nothing of the scheduler.

The checker reads the log from its beginning and says what must not have happened. It has the rules' numbers and the
names of verdicts, no more: what the scheduler believes does not matter to it, only what came in and what went out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Line = dict[str, Any]

BAD = ("wrong", "crashed", "timed-out")
EXPLAINED = ("tried", "no board of", "it waited for its turn", "it was not")


class Log:
    """Takes what a simulated farm tells its watcher."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def __call__(self, now_s: float, what: Any) -> None:
        line = {"t": now_s, "kind": type(what).__name__}
        for name in what.__slots__:
            value = getattr(what, name)
            line[name] = value.id if name == "trial" and not isinstance(value, str) else value
        self.lines.append(line)


@dataclass(slots=True)
class _Lease:
    board: str
    trial: str
    began_s: float


@dataclass(slots=True)
class _Board:
    """What the log says of a board.

    Attributes:
        must_check: why its next lease has to be the canary's; empty: it need not.
        pending: fences of answers that wait for a canary.
        boot: which start of its system its last good canary was of.
    """

    lease: int = 0
    must_check: str = "it is new"
    since_canary: int = 0
    pending: list[int] = field(default_factory=list)
    boot: str = ""


@dataclass
class Checker:
    """Reads lines in order.

    Attributes:
        canary_s: what every board's canary takes.
        longest_s: what no lease may exceed.
    """

    canary_s: float = 0.1
    tolerance: float = 0.1
    canary_every: int = 4
    retries: int = 3
    most_attempts: int = 12
    longest_s: float = 60.0
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.submitted: set[str] = set()
        self.concluded: dict[str, Line] = {}
        self._boards: dict[str, _Board] = defaultdict(_Board)
        self._leases: dict[int, _Lease] = {}
        self._of_trial: dict[str, int] = {}
        self._attempts: dict[str, int] = defaultdict(int)
        self._failures: dict[str, int] = defaultdict(int)
        self._taken: dict[int, Line] = {}
        self._trusted: set[int] = set()
        self._heard: dict[int, Line] = {}
        self._last_fence = 0
        self._now_s = 0.0
        self._number = 0
        self._undone: tuple[_Board, list[int]] | None = None
        self._pending_refusals: set[tuple[str, int]] = set()

    def read(self, lines: Iterable[Line]) -> list[str]:
        """Check a whole log; what was wrong."""
        for line in lines:
            self._number += 1
            if line["t"] < self._now_s:
                self._say(line, "time went back")
            self._now_s = line["t"]
            if line["kind"] != "Kill":
                self._undone = None
            handler = getattr(self, f"_on_{line['kind'].lower()}", None)
            if handler:
                handler(line)
        for trial in sorted(self.submitted - self.concluded.keys()):
            self.violations.append(f"{trial} vanished")
        for trial in sorted(self.concluded.keys() - self.submitted):
            self.violations.append(f"{trial} was never submitted")
        for board, fence in sorted(self._pending_refusals):
            self.violations.append(f"an answer of {board} under lease {fence} was not refused")
        return self.violations

    def _say(self, line: Line, text: str) -> None:
        self.violations.append(f"line {self._number} at {line['t']:.3f} s: {text}: {line}")

    # What comes in

    def _on_answered(self, line: Line) -> None:
        lease = self._leases.get(line["fence"])
        board = self._boards[line["board"]]
        if lease is None or board.lease != line["fence"]:
            self._pending_refusals.add((line["board"], line["fence"]))
            return
        self._heard[line["fence"]] = line
        if line["verdict"] != "ok":
            board.must_check = f"{line['trial']} is {line['verdict']}"

    def _on_dropped(self, line: Line) -> None:
        if line["fence"] in self._leases and self._leases[line["fence"]].trial:
            self._boards[line["board"]].must_check = "a session broke"

    def _on_canaryanswered(self, line: Line) -> None:
        board = self._boards[line["board"]]
        lease = self._leases.get(line["fence"])
        if lease is None or lease.trial or board.lease != line["fence"]:
            return
        del self._leases[line["fence"]]
        board.lease = 0
        most = 1 + self.tolerance
        if line["exact"] and self.canary_s / most <= line["seconds"] <= self.canary_s * most:
            self._trust(board, line["boot"])
            board.since_canary, board.must_check = 0, ""
        else:
            self._undone = board, board.pending
            board.must_check = "its canary was bad"
        board.pending = []

    def _trust(self, board: _Board, boot: str) -> None:
        """What a good canary confirms: nothing of a board that was started anew since its last one."""
        if board.boot in ("", boot):
            self._trusted.update(board.pending)
        board.boot = boot

    def _on_refused(self, line: Line) -> None:
        self._pending_refusals.discard((line["board"], line["fence"]))
        if line["fence"] in self._leases and self._boards[line["board"]].lease == line["fence"]:
            self._say(line, "a valid lease was refused")

    def _on_kill(self, _line: Line) -> None:
        """What was not written was not heard."""
        if self._undone:
            board, pending = self._undone
            board.pending = pending
        self._pending_refusals.clear()
        for board in self._boards.values():
            board.lease, board.must_check = 0, "the coordinator is new"
        self._leases = {fence: lease for fence, lease in self._leases.items() if lease.trial}

    # What goes out

    def _on_submitted(self, line: Line) -> None:
        if line["trial"] in self.submitted:
            self._say(line, "it was submitted twice")
        self.submitted.add(line["trial"])

    def _on_issued(self, line: Line) -> None:
        fence, trial = line["fence"], line["trial"]
        board = self._boards[line["board"]]
        if fence <= self._last_fence:
            self._say(line, f"fence {fence} was given before")
        self._last_fence = max(fence, self._last_fence)
        if board.lease in self._leases and self._leases[board.lease].trial:
            self._say(line, f"its board has lease {board.lease}")
        self._leases[fence] = _Lease(line["board"], trial, line["t"])
        board.lease = fence
        if not trial:
            return
        self._check_issue(line, board, trial)
        self._of_trial[trial] = fence
        self._attempts[trial] += 1
        board.since_canary += 1

    def _check_issue(self, line: Line, board: _Board, trial: str) -> None:
        if board.must_check:
            self._say(line, f"no canary though {board.must_check}")
        if board.since_canary >= self.canary_every:
            self._say(line, f"no canary for {board.since_canary} trials")
        if trial in self._of_trial:
            self._say(line, f"it is measured under lease {self._of_trial[trial]}")
        if trial in self.concluded:
            self._say(line, "it is concluded")
        if trial not in self.submitted:
            self._say(line, "it was never submitted")
        if line["attempt"] != self._attempts[trial] + 1:
            self._say(line, f"it had {self._attempts[trial]} attempts")

    def _on_returned(self, line: Line) -> None:
        fence, trial = line["fence"], line["trial"]
        lease = self._leases.pop(fence, None)
        if lease is None or (lease.trial, lease.board) != (trial, line["board"]):
            self._say(line, "it had no such lease")
            return
        self._of_trial.pop(trial, None)
        if self._boards[lease.board].lease == fence:
            self._boards[lease.board].lease = 0
        if line["t"] - lease.began_s > self.longest_s:
            self._say(line, f"its lease took {line['t'] - lease.began_s:.1f} s")
        if line["verdict"] is None:
            self._failures[trial] += line["counts"]
            return
        answer = self._heard.get(fence)
        if answer is None or (answer["trial"], answer["verdict"]) != (trial, line["verdict"]):
            self._say(line, f"its board answered {answer}")
        self._taken[fence] = line
        self._boards[lease.board].pending.append(fence)

    def _on_turned(self, line: Line) -> None:
        if line["state"] in ("quarantined", "lost"):
            board = self._boards[line["board"]]
            board.must_check = f"it was {line['state']}"
            board.pending = []
            if board.lease in self._leases and not self._leases[board.lease].trial:
                del self._leases[board.lease]
                board.lease = 0

    def _on_concluded(self, line: Line) -> None:
        trial = line["trial"]
        if trial in self.concluded:
            self._say(line, f"it is {self.concluded[trial]['verdict']} already")
        if trial in self._of_trial:
            self._say(line, "a board has it")
        self.concluded[trial] = line
        if line["verdict"] == "infra-failed":
            self._check_giving_up(line, trial)
        elif line["verdict"] != "build-failed":
            self._check_answer(line, trial)

    def _check_giving_up(self, line: Line, trial: str) -> None:
        tried = self._failures[trial] > self.retries or self._attempts[trial] >= self.most_attempts
        if not line["cause"].startswith(EXPLAINED) or (line["cause"].startswith("tried") and not tried):
            self._say(line, f"given up after {self._failures[trial]} failures in {self._attempts[trial]} attempts")

    def _check_answer(self, line: Line, trial: str) -> None:
        """A verdict is what a board answered under a valid lease, and that board's next canary was good."""
        taken = self._taken.get(line["fence"], {})
        if (taken.get("trial"), taken.get("verdict"), taken.get("board")) != (trial, line["verdict"], line["board"]):
            self._say(line, f"the lease's answer was {taken}")
        elif line["fence"] not in self._trusted:
            self._say(line, "no good canary of the same start followed the answer, or a bad one did")
