"""`int8tune quantize --choose`"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli import completing
from int8tune.tuner.cli.calibration import number
from int8tune.tuner.cli.options import Format, duration_s
from int8tune.tuner.cli.output import aligned, emit, emit_json, say

if TYPE_CHECKING:
    from int8tune.results.shares import Share
    from int8tune.tuner.api.choosing import ChoiceResult
    from int8tune.tuner.choice.choose import Point

MOST_NAMED = 4

ChooseOption = Annotated[bool, typer.Option("--choose", help="Find the form of each layer.", show_default=False)]
DropOption = Annotated[
    float | None,
    typer.Option("--max-drop", metavar="POINTS", parser=number, help="So much top-1 may fall; 0.5 if left out."),
]
ChoiceResultsOption = Annotated[
    Path | None, typer.Option("--results", metavar="DIR", help="Records with schedules for the choice.")
]
ChoiceDeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="NAME", autocompletion=completing.boards, help="Choose by the times of this board."
    ),
]
ChoiceInventoryOption = Annotated[
    Path | None, typer.Option("--inventory", metavar="FILE", help="Boards; farm.toml if left out.")
]
ChoiceTimeOption = Annotated[
    float | None,
    typer.Option("--time", metavar="TIME", parser=duration_s, help="Choose for 90s, 5m; 2m if left out."),
]


def require_choice(choose: bool, given: Mapping[str, object]) -> None:
    """Refuse options that mean nothing without `--choose`."""
    name = next((name for name, value in given.items() if value is not None), None)
    if not choose and name is not None:
        option = name.removesuffix("_s").replace("_", "-")
        raise typer.BadParameter(f"--{option} is for a choice: add --choose")


def choose_and_show(model: Path, data: str | None, ranges: Path | None, form: Format, **options: Any) -> None:
    """Choose, and print the front."""
    from int8tune.tuner.api.choosing import choose
    from int8tune.tuner.cli.waiting import waiting

    if ranges is not None:
        raise typer.BadParameter("--choose needs samples, not ranges: --data FILE in place of --ranges")
    if data is None:
        raise typer.BadParameter("samples are needed: --data FILE")
    with waiting("choose") as report:
        found = choose(model, data, report=report, **{name: each for name, each in options.items() if each is not None})
    if form is Format.JSON:
        emit_json(as_json(found))
        return
    emit(_table(found))
    for line in _notes(found):
        say(line)


def _table(found: ChoiceResult) -> str:
    usual = found.choice.usual_form
    has_labels = found.choice.float_top1 is not None
    head = ["", "ms [95 %]", *(["top-1"] if has_labels else []), "same answer", "drop", "SQNR, dB", f"not {usual}"]
    rows = [_cells(found, point) for point in found.choice.points if point.is_on_front or not point.forms]
    return aligned([head, *rows], numbers=range(1, len(head) - 1))


def _cells(found: ChoiceResult, point: Point) -> list[str]:
    time = point.time
    ms = f"{time.estimate_s * 1e3:.4f} [{time.low_s * 1e3:.4f}, {time.high_s * 1e3:.4f}]"
    shares = [_share(share) for share in (point.top1, point.agreement) if share is not None]
    sqnr_db = "-" if point.sqnr_db is None else f"{point.sqnr_db:.1f}"
    mark = "chosen" if point == found.chosen else "" if point.is_on_front else "(usual)"
    return [mark, ms, *shares, f"{point.drop:.2f}", sqnr_db, _in_words(point)]


def _in_words(point: Point) -> str:
    """The layers of each form that is not the usual one; their number where they are many."""
    parts = []
    for form, count in Counter(point.forms.values()).items():
        names = [name for name, each in point.forms.items() if each is form]
        parts.append(f"{form}: {', '.join(names) if count <= MOST_NAMED else f'{count} layers'}")
    return "; ".join(parts) or "-"


def _share(share: Share) -> str:
    return f"{share.estimate:.2%} ± {share.half_width:.2%}"


def _notes(found: ChoiceResult) -> list[str]:
    choice = found.choice
    right = "" if choice.float_top1 is None else f" from {choice.float_top1.estimate:.2%} of the float model"
    from int8tune.tuner.api.frames import listed

    lines = [
        f"{listed(len(choice.points), 'network was', 'networks were')} compiled,"
        f" run on {choice.chosen.agreement.samples:,} samples and timed;"
        f" the fastest with a drop of {found.measure} of at most {found.max_drop:g} points{right} is {found.file}"
    ]
    if choice.timed < choice.to_time:
        lines.append(f"{choice.timed} of {choice.to_time} forms of layers were timed; for more: --time 10m")
    if choice.disturbance:
        lines.append(f"times are doubtful: {choice.disturbance}")
    return lines


def as_json(found: ChoiceResult) -> dict[str, Any]:
    """What `--format json` prints."""
    choice = found.choice
    return {
        "file": str(found.file),
        "measure": found.measure,
        "max_drop": found.max_drop,
        "float_top1": None if choice.float_top1 is None else choice.float_top1.estimate,
        "usual_form": str(choice.usual_form),
        "forms_timed": choice.timed,
        "forms_to_time": choice.to_time,
        "failures": list(choice.failures),
        "disturbance": choice.disturbance,
        "networks": found.rows(),
    }
