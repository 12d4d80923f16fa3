"""`int8tune watch`"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.options import DEFAULT_RESULTS, DebugOption, Format, FormatOption
from int8tune.tuner.cli.output import emit_json, stdout_columns
from int8tune.tuner.cli.screen import show, show_until_interrupted, terminal

if TYPE_CHECKING:
    from int8tune.tuner.watching.overview import Overview

PlaceArgument = Annotated[
    str | None,
    typer.Argument(metavar="[DIR|URL]", help="Records; those of your campaigns on this machine if left out."),
]
OnceOption = Annotated[bool, typer.Option("--once", help="Show it once, and end.")]


def watch(
    where: PlaceArgument = None,
    once: OnceOption = False,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Watch campaigns and boards while they are at work.

    Nothing is changed. On a terminal it goes on until Ctrl-C; elsewhere it is shown once.

    Example: int8tune watch int8tune-results
    """
    from int8tune.results.stores import open_store
    from int8tune.tuner.watching.overview import overview_fields
    from int8tune.tuner.watching.watcher import Watcher

    console = None if once or form is Format.JSON else terminal()
    with closing(Watcher(where, DEFAULT_RESULTS)) as watcher:
        if console is not None:
            show_until_interrupted(console, watcher.look, _draw)
        if where is not None:
            open_store(where, readonly=True).close()
        seen = watcher.look()
        if form is Format.JSON:
            emit_json(overview_fields(seen))
        else:
            show(_draw(seen, stdout_columns()))


def _draw(seen: Overview, columns: int, rows: int | None = None) -> list[str]:
    from int8tune.tuner.cli.watch_view import overview_lines

    return overview_lines(seen, columns, rows)
