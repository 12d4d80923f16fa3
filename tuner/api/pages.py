"""The documentation that is installed with the package: one page for each topic."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib.resources import files

from int8tune.tuner.errors import UnknownPageError


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the documentation.

    Attributes:
        topic: its name, such as `farm`.
        title: its first heading.
        text: Markdown.
    """

    topic: str
    title: str
    text: str


def pages() -> tuple[Page, ...]:
    """All pages, by topic."""
    found = [each for each in (files("int8tune") / "docs").iterdir() if each.name.endswith(".md")]
    return tuple(sorted((_page(each.name, each.read_text("utf-8")) for each in found), key=lambda page: page.topic))


def page(topic: str) -> Page:
    """The page of a topic.

    Raises:
        UnknownPageError: there is none of that name.
    """
    known = {each.topic: each for each in pages()}
    if topic in known:
        return known[topic]
    near = difflib.get_close_matches(topic, known, n=1)
    more = f", did you mean {near[0]}?" if near else f", known: {', '.join(known)}"
    raise UnknownPageError(f"no page of the documentation is called: {topic[:80]}{more}")


def _page(name: str, text: str) -> Page:
    return Page(name.removesuffix(".md"), text.partition("\n")[0].removeprefix("# "), text)
