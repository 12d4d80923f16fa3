"""The order in which a board's agent is asked to time programs. What it answers are numbers of this file."""

from __future__ import annotations

from dataclasses import replace

from int8tune.rpc.board.calls import BoardCalls
from int8tune.rpc.board.timing import BoardTiming
from int8tune.rpc.request import Program, Request, Timing

PROGRAM = Program("kernel.so", "0" * 64, "kernel", ())
TIMING = Timing(repeats=4, min_repeat_s=0.0001)


class Recorded(BoardCalls):
    """Calls that go nowhere: three of a program make a repeat, each takes a millisecond."""

    def __init__(self) -> None:
        self.turns: list[tuple[int, int]] = []

    def put(self, function: str, *arguments: object) -> None:
        pass

    def put_turns(self, turns: list[tuple[int, int]]) -> None:
        self.turns += turns

    def flush(self) -> None:
        pass

    def calls(self, place: str) -> tuple[int, int]:  # noqa: ARG002
        return 3, 0

    def times(self, count: int, place: str) -> tuple[tuple[float, ...], int]:  # noqa: ARG002
        return (1e-3,) * count, 0


def test_programs_are_timed_there_and_back_between_two_probes() -> None:
    """A device that slows down slows all of them down alike."""
    recorded = Recorded()
    request = Request((PROGRAM, replace(PROGRAM, entry="other")), TIMING, 10.0, PROGRAM)
    timed = BoardTiming(recorded, request, 1, 7).run()
    numbers = [number for number, _ in recorded.turns]
    probes = numbers.index(1)
    assert probes > 0
    assert numbers == [0] * probes + [1, 2, 2, 1] * 2 + [0] * probes
    assert {(number, calls) for number, calls in recorded.turns} == {(0, 7), (1, 3), (2, 3)}
    assert [len(times_s) for times_s in timed.times_s] == [4, 4]
