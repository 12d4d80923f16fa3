"""`int8tune simulate`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli.options import DebugOption, Format, FormatOption, duration_s, share, whole_number
from int8tune.tuner.cli.output import aligned, emit, emit_json
from int8tune.tuner.cli.plan import in_words

if TYPE_CHECKING:
    from int8tune.rpc.farm.simulation.accounting import FarmReport, Found, Waiting

_SHOWN_BOARDS = 20


def simulate(
    farm: Annotated[Path, typer.Argument(metavar="FARM.toml", help="The inventory of boards.")],
    boards: Annotated[
        int | None, typer.Option("--boards", metavar="N", parser=whole_number, help="As many boards of these kinds.")
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", parser=whole_number, help="Trials of all campaigns.")
    ] = 1000,
    campaigns: Annotated[
        int, typer.Option("--campaigns", metavar="N", parser=whole_number, help="That share the boards.")
    ] = 1,
    session: Annotated[
        float, typer.Option("--session", metavar="TIME", parser=duration_s, help="What a candidate takes on a board.")
    ] = "0.2s",  # type: ignore[assignment]
    bad: Annotated[
        float, typer.Option("--bad", metavar="SHARE", parser=share, help="Candidates that crash, hang or are wrong.")
    ] = 0.05,
    seed: Annotated[int, typer.Option("--seed", metavar="N", parser=whole_number, help="Random seed.")] = 0,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Show what a farm would do, without its boards.

    The farm's own scheduler runs simulated boards on a clock that does not wait. How a board behaves, and what goes
    wrong with it, is in its `simulation` table: speed, noise, crash_per_h, unplug_per_h, slow_per_h and others.

    Example: int8tune simulate farm.toml --boards 16 --trials 20000
    """
    from int8tune.tuner.api.boards import simulate as simulated
    from int8tune.tuner.errors import SpecError

    numbers = {"trials": trials, "campaigns": campaigns, "session_s": session, "bad": bad, "seed": seed}
    try:
        report = simulated(farm, boards=boards, **numbers).report  # type: ignore[arg-type]
    except SpecError as error:
        raise typer.BadParameter(str(error)) from error
    if form is Format.JSON:
        emit_json(_as_json(report))
    else:
        emit("\n\n".join(_sections(report)))


def _as_json(report: FarmReport) -> dict[str, Any]:
    derived = {"trials_per_s": report.trials_per_s, "utilisation": report.utilisation}
    return {"simulated": True} | asdict(report) | derived


def _sections(report: FarmReport) -> list[str]:
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in report.verdicts.items())
    ends = list(report.campaigns_s.values())
    last = f", the first campaign after {in_words(min(ends))}" if len(ends) > 1 else ""
    summary = [
        f"simulated: {report.trials:,} trials on {len(report.boards)} boards in {in_words(report.duration_s)}{last}",
        f"{report.trials_per_s:.2f} trials/s, boards measured {report.utilisation:.1%} of the time",
        f"{verdicts}; {report.attempts:,} sessions, {report.refused} late answers refused",
    ]
    sections = ["\n".join(summary), _boards(report), _waits(report.waits)]
    return [*sections, _sick(report.found)] if report.found else sections


def _boards(report: FarmReport) -> str:
    rows = [
        (use.board, f"{use.trials:,}", f"{use.measuring:.1%}", f"{use.checking:.1%}", f"{use.off:.1%}")
        for use in report.boards[:_SHOWN_BOARDS]
    ]
    more = len(report.boards) - len(rows)
    text = aligned([("board", "answers", "measures", "canaries", "off"), *rows], numbers=(1, 2, 3, 4))
    return f"{text}\nand {more} more: --format json has all" if more > 0 else text


def _waits(waits: tuple[Waiting, ...] | Any) -> str:
    rows = [
        (w.name, f"{w.count:,}", *(f"{s:.3f}" for s in (w.mean_s, w.median_s, w.p99_s, w.longest_s))) for w in waits
    ]
    head = ("waited for", "times", "mean s", "median s", "99 % s", "longest s")
    return aligned([head, *rows], numbers=(1, 2, 3, 4, 5))


def _sick(found: tuple[Found, ...] | Any) -> str:
    rows = [
        (f.board, f.kind, "not found" if f.after_s is None else f"{f.after_s:.1f}", str(f.after_trials or 0))
        for f in found[:_SHOWN_BOARDS]
    ]
    missed = sum(f.after_s is None for f in found)
    text = aligned([("sick board", "how", "found after s", "answers"), *rows], numbers=(2, 3))
    return f"{text}\n{len(found) - missed} of {len(found)} sick boards found"
