"""SVG elements as text that is safe inside a page."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

# Of a character of the charts' font, relative to its size: labels are placed by it.
CHARACTER_WIDTH = 0.56


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0").replace("-0", "0" if abs(value) < 0.05 else "-0")


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element; children that are no `Markup` are escaped. `stroke_width` names `stroke-width`."""
    texts = []
    for key, value in attributes.items():
        if value is not None:
            text = value if isinstance(value, str) else number(value)
            texts.append(Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), text))
    content = Markup("").join(escape(child) for child in children)
    start = Markup("<{}{}").format(Markup(name), Markup("").join(texts))
    return start + (Markup(">{}</{}>").format(content, Markup(name)) if content else Markup("/>"))


# A chart that is narrower than this is drawn for phones.
PHONE = 480.0


def image(width: float, height: float, label: str, children: Iterable[str], role: str = "img") -> Markup:
    """A chart that scales with its place, which a screen reader tells by its label.

    Args:
        role: `group` of a chart with links in it, which would be hidden in an `img`.
    """
    box = f"0 0 {number(width)} {number(height)}"
    kind = "phone" if width < PHONE else "desk"
    return tag("svg", *children, class_=kind, viewBox=box, width=width, height=height, role=role, aria_label=label)


def text(content: str, x: float, y: float, *, anchor: str = "start", class_: str | None = None) -> Markup:
    """A label whose baseline is at `y`; it ends at `x` or has its middle there with another `anchor`."""
    return tag("text", content, x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("path", d=f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", class_=class_)


def dots(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """Round dots, to a pixel, as one path of strokes without length; their size is the stroke's width."""
    path, at = "", (0, 0)
    for x, y in points:
        place = round(x), round(y)
        path += f"m{place[0] - at[0]} {place[1] - at[1]}h0"
        at = place
    return tag("path", d=path.replace(" -", "-"), class_=f"dots {class_}")


def steps(points: Iterable[tuple[float, float]], end_x: float, class_: str) -> Markup:
    """A line that keeps each value until the next, to a pixel."""
    path, at = "", 0
    for x, y in points:
        if not path:
            path = f"M{round(x)} {round(y)}"
        elif round(y) != at:
            path += f"H{round(x)}V{round(y)}"
        at = round(y)
    return tag("path", d=f"{path}H{round(end_x)}" if path else "", class_=class_)


def width_of(content: str, size: float = 12) -> float:
    """How wide a label is, about."""
    return len(content) * size * CHARACTER_WIDTH
