"""Pages that need no other file and no network, and run nothing but their own script."""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from int8tune.results.report import format

# Beyond this, a download is compressed: a page is to stay small enough for a mail.
MOST_PLAIN_BYTES = 24_000


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart for screens and paper, and one for phones."""

    desk: Markup
    phone: Markup


def page_environment() -> Environment:
    """What pages are rendered with: their templates, and numbers as people read them."""
    environment = Environment(
        loader=PackageLoader("int8tune.results", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        microseconds=format.microseconds,
        kilocycles=format.kilocycles,
        milliseconds=format.milliseconds,
        giga=format.giga,
        percent=format.percent,
        factor=format.factor,
        interval=format.interval,
        seconds=format.seconds,
        moment=format.moment,
    )
    return environment


def render_document(template: str, **values: Any) -> str:
    """A page of a template that extends `document.html.j2`; equal values give an equal page.

    Its policy names its style and its script by their hashes: nothing else that gets into a page has an effect.
    """
    environment = page_environment()
    style = environment.get_template("document.css.j2").render()
    script = environment.get_template("table.js.j2").render()
    return environment.get_template(template).render(
        style=Markup(f"<style>{style}</style>"),
        script=Markup(f"<script>{script}</script>"),
        policy=_policy(style, script),
        **values,
    )


def download(content: str, kind: str, name: str) -> dict[str, str]:
    """A file inside the page, as the attributes of a link: its name, its size in words, and its content."""
    data = content.encode()
    if len(data) > MOST_PLAIN_BYTES:
        data, kind, name = gzip.compress(data, mtime=0), "application/gzip", f"{name}.gz"
    link = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"href": link, "name": name, "size": f"{max(len(data) / 1024, 1):,.0f} KiB"}


def _policy(style: str, script: str) -> str:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )
