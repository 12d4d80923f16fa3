"""`int8tune help`: the documentation as it is installed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from int8tune.tuner.cli.options import DebugOption
from int8tune.tuner.cli.output import aligned, emit

TopicArgument = Annotated[
    str | None, typer.Argument(metavar="[TOPIC]", show_default=False, help="The page to show, such as farm.")
]


def help_(topic: TopicArgument = None, _debug: DebugOption = False) -> None:
    """Show a page of the documentation, or list them.

    Example: int8tune help farm
    """
    from int8tune.tuner.api.pages import page, pages

    if topic is None:
        emit(aligned([(each.topic, each.title) for each in pages()]))
    elif sys.stdout.isatty():
        _show(page(topic).text)
    else:
        emit(page(topic).text)


def _show(text: str) -> None:
    """Markdown in a terminal, by its pager."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(Console().width, 100))
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))
