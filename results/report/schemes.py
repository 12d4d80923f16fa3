"""Schemes as a table for terminals, and as values for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from int8tune.results.report.format import MISSING, interval, milliseconds
from int8tune.results.report.markdown import cell, table
from int8tune.results.schemes import BoardRow, BoardTable, FloatRow, SchemeRow, SchemeSummary
from int8tune.results.shares import PairedTest, Share
from int8tune.results.stats import MedianTime

HEAD = ("top-1", "top-5", "p", "same answer", "SQNR, dB", "made, s", "KiB", "ms [95 %]", "speedup [95 %]", "scheme")
BOARD_HEAD = ("ms [95 %]", "speedup [95 %]", "scheme")
FRONT = "*"
VERSION = 1
"""Version of the JSON form."""
Cells = tuple[str, ...]


def render_schemes(summary: SchemeSummary) -> str:
    """The float model in each runtime, the schemes, and what the words mean."""
    front = {id(row) for row in summary.front}
    rows = [HEAD, *(float_cells(summary, row) for row in summary.floats)]
    rows += [scheme_cells(row, is_best=id(row) in front) for row in summary.rows]
    lines = [
        *_head(summary),
        "",
        *_aligned(rows),
        "",
        *(f"{word:<11}  {text}" for word, text in meanings(summary).items()),
    ]
    lines += [f"{row.scheme}: {row.failure}" for row in summary.rows if row.failure]
    lines += [f"{row.runtime}: {row.failure}" for row in summary.floats if row.failure]
    lines += [f"times are doubtful: {summary.disturbance}"] if summary.disturbance else []
    for board in summary.boards:
        lines += ["", *board_lines(board)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def render_schemes_markdown(summary: SchemeSummary) -> str:
    """The same for a pull request."""
    front = {id(row) for row in summary.front}
    rows = [float_cells(summary, row) for row in summary.floats]
    rows += [scheme_cells(row, is_best=id(row) in front) for row in summary.rows]
    cells = [tuple(map(cell, row)) for row in rows]
    lines = [f"### {cell(summary.model)}", "", *map(cell, _head(summary)), "", *table(HEAD, cells), ""]
    lines += [f"- {cell(word)}: {text}" for word, text in meanings(summary).items()]
    lines += [f"- {cell(row.scheme)}: {cell(row.failure)}" for row in summary.rows if row.failure]
    for board in summary.boards:
        on_board = [tuple(map(cell, board_cells(row))) for row in board.rows]
        lines += ["", cell(board_title(board)), "", *table(BOARD_HEAD, on_board), ""]
        lines += [f"- {cell(row.label)}: {cell(row.failure)}" for row in board.rows if row.failure]
    return "\n".join(lines) + "\n"


def schemes_as_dict(summary: SchemeSummary) -> dict[str, Any]:
    """The whole summary as JSON values, without details; times in seconds, shares as counts, ratios as they are."""
    found = {"int8tune_schemes": VERSION, **asdict(summary)}
    del found["details"]
    for row, each in zip(found["rows"], summary.rows, strict=True):
        row["p_value"] = each.paired.p_value if each.paired else None
        row["is_on_front"] = each in summary.front
    return found


def float_cells(summary: SchemeSummary, row: FloatRow) -> Cells:
    """The float model as a row of the table: its answers are the same in each runtime but for rounding."""
    top1, top5 = (share(each) for each in (summary.answers.top1, summary.answers.top5))
    size = f"{summary.float_bytes / 1024:,.0f}"
    return (top1, top5, *[MISSING] * 4, size, time(row.time), MISSING, f"float, {row.runtime} {row.version}")


def scheme_cells(row: SchemeRow, *, is_best: bool) -> Cells:
    """A scheme as a row of the table."""
    return (
        *(share(each) for each in (row.answers.top1, row.answers.top5)),
        p_value(row.paired),
        share(row.agreement),
        decibels(row),
        _number(row.calibration_s, "{:.1f}"),
        _number(None if row.file_bytes is None else row.file_bytes / 1024, "{:,.0f}"),
        time(row.time),
        interval(row.speedup),
        row.scheme + (f" {FRONT}" if is_best else ""),
    )


def board_title(board: BoardTable) -> str:
    """Which board a table is of, and what its numbers are."""
    threads = f"{board.threads} {'thread' if board.threads == 1 else 'threads'}"
    timed = next((row.label for row in board.rows if row.time is not None), "")
    what = f"speedups are over {timed}" if timed else "nothing was timed"
    times = what if board.is_measured else "its times are no measurements"
    return f"on {board.board}: {board.cpu} ({board.target}), {threads}; outputs compared bit for bit there; {times}"


def board_lines(board: BoardTable, of: str = BOARD_HEAD[-1]) -> list[str]:
    """A board's table for terminals; `of` is what has a row each."""
    head = (*BOARD_HEAD[:-1], of)
    lines = [board_title(board), "", *_aligned([head, *map(board_cells, board.rows)])]
    return lines + [f"{row.label}: {row.failure}" for row in board.rows if row.failure]


def board_cells(row: BoardRow) -> Cells:
    """A compiled model on a board as a row of its table."""
    exact = MISSING if row.failure else "exact"
    return (exact if row.time is None else time(row.time), interval(row.speedup), row.label)


def meanings(summary: SchemeSummary) -> dict[str, str]:
    """What the columns mean, by their words."""
    fastest = summary.floats[0].runtime if summary.floats else "none"
    quality = "top-1" if summary.has_labels else "SQNR"
    found = {"p": "McNemar's exact test of top-1 beside the float model: below 0.05, a difference is hardly chance"}
    return (found if summary.has_labels else {}) | {
        "same answer": "as the float model; SQNR is that model's outputs over what differs from them",
        "made": "seconds of calibrating and writing the model; KiB are those of its file",
        "ms": f"of a run of the compiled library, or of a runtime; speedups are over float, {fastest}",
        FRONT: f"no other scheme is at least as fast and has at least as good a {quality} (Pareto front)",
    }


def share(value: Share | None) -> str:
    """A share with half its interval, such as `80.9% ± 2.0`."""
    return MISSING if value is None else f"{value.estimate:.1%} ± {value.half_width * 100:.1f}"


def p_value(test: PairedTest | None) -> str:
    return MISSING if test is None else f"{test.p_value:.2f}" if test.p_value >= 0.005 else "<0.01"


def decibels(row: SchemeRow) -> str:
    """Its SQNR; of outputs that are equal, infinite."""
    if row.agreement is None:
        return MISSING
    return "∞" if row.sqnr_db is None else f"{row.sqnr_db:.1f}"


def time(value: MedianTime | None) -> str:
    """Milliseconds with the ends of the interval."""
    if value is None:
        return MISSING
    ends = ", ".join(milliseconds(each) for each in (value.low_s, value.high_s))
    return f"{milliseconds(value.estimate_s)} [{ends}]"


def _number(value: float | None, form: str) -> str:
    return MISSING if value is None else form.format(value)


def _head(summary: SchemeSummary) -> list[str]:
    threads = f"{summary.threads} {'thread' if summary.threads == 1 else 'threads'}"
    return [
        f"{summary.model} on {summary.cpu} ({summary.target}), {threads}",
        f"ranges by {summary.calibrated:,} samples, compared on {summary.tested:,}",
    ]


def _aligned(rows: Sequence[Cells]) -> list[str]:
    """Columns two spaces apart; all but the last one aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)), row[-1]])
        for row in rows
    ]
