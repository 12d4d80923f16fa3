"""A report page, taken apart."""

from __future__ import annotations

import base64
import gzip
import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """The tags, attributes and texts of a page; scripts and styles apart."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self._is_hidden = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._is_hidden = self._is_hidden or tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._is_hidden = self._is_hidden and tag not in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._is_hidden:
            self.text += data.split()

    @property
    def words(self) -> str:
        return " ".join(self.text)

    @property
    def charts(self) -> list[str]:
        """The SVG elements, as text."""
        return re.findall(r"<svg.*?</svg>", self.html, flags=re.DOTALL)

    @property
    def downloads(self) -> dict[str, str]:
        """The files that the page carries, by name."""
        names = [value for tag, name, value in self.attributes if (tag, name) == ("a", "download")]
        links = [value for tag, name, value in self.attributes if (tag, name) == ("a", "href") and value[:5] == "data:"]
        found = {}
        for name, link in zip(names, links, strict=True):
            content = base64.b64decode(link.partition(",")[2])
            found[name] = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
        return found
