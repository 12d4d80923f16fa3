"""How long a campaign took, by labels that nobody promised to be in order."""

from __future__ import annotations

from int8tune.results.wall_clock import WallClock, seconds_of

BEGAN = "2026-03-01T12:00:00+00:00"


def test_time_passes_from_record_to_record() -> None:
    clock = WallClock(["2026-03-01T12:05:00+00:00", BEGAN, "2026-03-01T12:01:00.500+00:00"])
    assert (clock.total_s, clock.pauses) == (300, 0)
    assert clock.at("2026-03-01T12:01:00.500+00:00") == 60.5
    assert clock.at(BEGAN) == 0


def test_a_long_silence_is_a_pause() -> None:
    clock = WallClock([BEGAN, "2026-03-01T12:01:00+00:00", "2026-03-08T12:01:00+00:00", "2026-03-08T12:02:00+00:00"])
    assert (clock.total_s, clock.pauses) == (120, 1)


def test_what_is_no_time_is_left_out() -> None:
    clock = WallClock([BEGAN, "yesterday", ""])
    assert clock.total_s == 0
    assert clock.at("yesterday") is None
    assert WallClock([]).total_s == 0


def test_a_time_without_a_zone_is_utc() -> None:
    assert seconds_of("2026-03-01T12:00:00") == seconds_of("2026-03-01T13:00:00+01:00")
