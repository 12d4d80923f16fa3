"""`int8tune watch`"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from int8tune.tuner.cli.options import DEFAULT_RESULTS, DebugOption, Format, FormatOption, port_number
from int8tune.tuner.cli.output import emit, emit_json, say, stdout_columns
from int8tune.tuner.cli.screen import again_and_again, show, show_until_interrupted, terminal

if TYPE_CHECKING:
    from int8tune.tuner.watching.overview import Overview
    from int8tune.tuner.watching.watcher import Watcher

PlaceArgument = Annotated[
    str | None,
    typer.Argument(metavar="[DIR|URL]", help="Records; those of your campaigns on this machine if left out."),
]
OnceOption = Annotated[bool, typer.Option("--once", help="Show it once, and end.")]
ServeOption = Annotated[
    int | None,
    typer.Option("--serve", metavar="PORT", parser=port_number, help="Show it as a page on this machine; 0: any port."),
]


def watch(
    where: PlaceArgument = None,
    once: OnceOption = False,
    serve: ServeOption = None,
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

    if serve is not None and (once or form is Format.JSON):
        raise typer.BadParameter("--serve goes on until Ctrl-C: leave --once and --format out")
    console = None if once or form is Format.JSON else terminal()
    with closing(Watcher(where, DEFAULT_RESULTS)) as watcher:
        if serve is not None:
            _serve(watcher, serve)
            return
        if console is not None:
            show_until_interrupted(console, watcher.look, _draw)
            return
        if where is not None:
            open_store(where, readonly=True).close()
        seen = watcher.look()
        if form is Format.JSON:
            emit_json(overview_fields(seen))
        else:
            show(_draw(seen, stdout_columns()))


def _serve(watcher: Watcher, port: int) -> None:
    from int8tune.tuner.watching.server import serving

    with serving(port) as server:
        server.show(watcher.look())
        server.start()
        emit(server.url)
        say("on this machine alone, until Ctrl-C")
        for seen in again_and_again(watcher.look):
            server.show(seen)


def _draw(seen: Overview, columns: int, rows: int | None = None) -> list[str]:
    from int8tune.tuner.cli.watch_view import overview_lines

    return overview_lines(seen, columns, rows)
