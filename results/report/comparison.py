"""A comparison as a table for terminals, as Markdown for a pull request, as values for JSON and as rows."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from int8tune.results.comparison.compare import Change, ComparedLayer, Comparison
from int8tune.results.comparison.side import LayerTime, Side
from int8tune.results.report.format import factor, interval, kilocycles, microseconds, milliseconds
from int8tune.results.report.markdown import cell, table

VERSION = 1
"""Version of the JSON form."""
WIDE = 96
_LABEL, _NARROW_LABEL, _TIME, _RATIO = 29, 26, 8, 17
_INDENT = 9
MEANING = {
    Change.FASTER: "by 1 % at least, and beyond doubt: all such claims hold together with 95 %",
    Change.SLOWER: "by 1 % at least, and beyond doubt: all such claims hold together with 95 %",
    Change.UNCHANGED: "neither faster nor slower beyond doubt, or the same binary",
    Change.ONLY_A: "only A has a time of the layer",
    Change.ONLY_B: "only B has a time of the layer",
    Change.NOT_TIMED: "one of the two schedules failed",
}


def render_comparison(comparison: Comparison, width: int = WIDE) -> str:
    """The layers in aligned plain text, with the network and what was done to make times comparable below."""
    is_wide = width >= WIDE
    lines = [part for line in _head(comparison) for part in _wrapped(line, width)]
    lines += ["", _line("layer", "runs", _titles(comparison), "A / B [95 %]", "change", is_wide=is_wide)]
    lines += [_layer(comparison, layer, is_wide=is_wide) for layer in comparison.layers]
    lines += ["", *(part for line in _foot(comparison) for part in _wrapped(line, width))]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def render_comparison_markdown(comparison: Comparison) -> str:
    """A headline, the layers that changed, and the others folded away."""
    changed = [layer for layer in comparison.layers if layer.change is not Change.UNCHANGED]
    same = [layer for layer in comparison.layers if layer.change is Change.UNCHANGED]
    network = comparison.network
    lines = [f"### {cell(title_of(comparison))}: {network.change.value}", ""]
    lines += [f"**{network_in_words(comparison)}**. {counts_in_words(comparison)}.", ""]
    lines += [*_markdown_table(comparison, changed), ""] if changed else []
    if same:
        lines += ["<details><summary>", "", f"{len(same)} unchanged", "", "</summary>", ""]
        lines += [*_markdown_table(comparison, same), "", "</details>", ""]
    lines += [f"- {cell(line)}" for line in (*_head(comparison), *comparison.notes)]
    return "\n".join(lines) + "\n"


def comparison_as_dict(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison as JSON values: seconds, or cycles where it is estimated."""
    return {
        "int8tune_comparison": VERSION,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "unit": "cycles" if comparison.is_estimated else "s",
        "differences": {name: list(pair) for name, pair in comparison.differences.items()},
        "network": {**asdict(comparison.network), "change": comparison.network.change.value},
        "layers": [_layer_values(layer) for layer in comparison.layers],
        "notes": list(comparison.notes),
    }


def comparison_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each layer."""
    for layer in comparison.layers:
        ratio = layer.ratio
        yield {
            "workload": layer.key,
            "label": layer.label,
            "count": layer.count,
            "names": layer.names,
            "change": layer.change.value,
            "why": layer.why,
            "a": layer.a.time if layer.a else None,
            "b": layer.b.time if layer.b else None,
            "unit": "cycles" if comparison.is_estimated else "s",
            "ratio": ratio.estimate if ratio else None,
            "ratio_low": ratio.low if ratio else None,
            "ratio_high": ratio.high if ratio else None,
            **_schedule_columns("a", layer.a),
            **_schedule_columns("b", layer.b),
        }


def _schedule_columns(prefix: str, time: LayerTime | None) -> dict[str, Any]:
    candidate = time.candidate if time else None
    return {
        f"{prefix}.times_s": time.times_s if time else (),
        f"{prefix}.candidate_id": candidate.id if candidate else None,
        f"{prefix}.template": candidate.template if candidate else None,
        f"{prefix}.config": dict(candidate.config) if candidate else None,
    }


def _head(comparison: Comparison) -> list[str]:
    lines = [f"A  {side_in_words(comparison.a)}", f"B  {side_in_words(comparison.b)}"]
    differing = [f"{name} {pair[0]} and {pair[1]}" for name, pair in comparison.differences.items()]
    return [*lines, *([f"differs: {'; '.join(differing)}"] if differing else [])]


def side_in_words(side: Side) -> str:
    """What a side is, and where it is from."""
    known = side.conditions
    cache = f"cache {known.cache}" if known.cache else ""
    words = [side.source, side.started_at[:16].replace("T", " "), side.estimated_by, known.cpu, known.target, cache]
    return ", ".join(filter(None, words))


def title_of(comparison: Comparison) -> str:
    """What was compared, in a few words."""
    network = comparison.b.network or comparison.a.network
    return network or f"{comparison.a.name} and {comparison.b.name}"


def _titles(comparison: Comparison) -> tuple[str, str]:
    return ("A kcyc", "B kcyc") if comparison.is_estimated else ("A us", "B us")


def time_in_words(comparison: Comparison, time: LayerTime | None) -> str:
    """Microseconds, or thousands of cycles."""
    return (kilocycles if comparison.is_estimated else microseconds)(time.time if time else None)


def _layer(comparison: Comparison, layer: ComparedLayer, *, is_wide: bool) -> str:
    times = time_in_words(comparison, layer.a), time_in_words(comparison, layer.b)
    change = f"{layer.change.value}{f' ({layer.why})' if layer.why and is_wide else ''}"
    return _line(layer.label, str(layer.count), times, interval(layer.ratio), change, is_wide=is_wide)


def _line(label: str, runs: str, times: tuple[str, str], ratio: str, change: str, *, is_wide: bool) -> str:
    width = _LABEL if is_wide else _NARROW_LABEL
    name = label if is_wide else label.replace("dwconv2d", "dw").replace("conv2d", "conv")
    cells = [name.ljust(width) if len(name) <= width else f"{name[: width - 2]}..", f"{runs:>4}" if is_wide else ""]
    columns = [f"{time:>{_TIME}}" for time in times]
    return " ".join([*filter(None, cells), *columns, f" {ratio:<{_RATIO}}", f" {change}"])


def _foot(comparison: Comparison) -> list[str]:
    counts = comparison.counts()
    lines = [f"network  {network_in_words(comparison)}", f"layers   {counts_in_words(comparison)}"]
    lines += [f"{'how' if not place else '':<{_INDENT}}{note}" for place, note in enumerate(comparison.notes)]
    known = [change for change in MEANING if change in counts]
    return [*lines, *(f"{change.value}: {MEANING[change]}" for change in known)]


def network_in_words(comparison: Comparison) -> str:
    """The network's times, and their ratio."""
    network = comparison.network
    unit = "thousand cycles" if comparison.is_estimated else "ms"
    a, b = map(kilocycles if comparison.is_estimated else milliseconds, (network.a, network.b))
    which = f"{network.runs} of {network.all_runs} layer runs"
    return f"{a} {unit} in A, {b} {unit} in B: A / B {interval(network.ratio)}, {network.change.value} ({which})"


def counts_in_words(comparison: Comparison) -> str:
    """How many layers changed in which way."""
    return ", ".join(f"{count} {change.value}" for change, count in comparison.counts().items())


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, max(width, 40), subsequent_indent=" " * _INDENT, break_on_hyphens=False)


def _markdown_table(comparison: Comparison, layers: Sequence[ComparedLayer]) -> list[str]:
    titles = ("layer", "runs", *_titles(comparison), "A / B", "95 %", "change")
    rows = [
        (
            cell(layer.label),
            str(layer.count),
            time_in_words(comparison, layer.a),
            time_in_words(comparison, layer.b),
            factor(layer.ratio.estimate if layer.ratio else None),
            f"{factor(layer.ratio.low)} to {factor(layer.ratio.high)}" if layer.ratio else "",
            cell(f"{layer.change.value}{f' ({layer.why})' if layer.why else ''}"),
        )
        for layer in layers
    ]
    return table(titles, rows, numbers=range(1, 5))


def _side(side: Side) -> dict[str, Any]:
    return {
        "source": side.source,
        "name": side.name,
        "network": side.network,
        "started_at": side.started_at,
        "estimated_by": side.estimated_by or None,
        "conditions": asdict(side.conditions),
        "environment": dict(side.environment),
    }


def _layer_values(layer: ComparedLayer) -> dict[str, Any]:
    return {
        "workload": layer.key,
        "label": layer.label,
        "count": layer.count,
        "names": list(layer.names),
        "change": layer.change.value,
        "why": layer.why,
        "ratio": asdict(layer.ratio) if layer.ratio else None,
        "a": _time_values(layer.a),
        "b": _time_values(layer.b),
    }


def _time_values(time: LayerTime | None) -> dict[str, Any] | None:
    if time is None:
        return None
    candidate = {"id": time.candidate.id, **asdict(time.candidate)} if time.candidate else None
    return {"time": time.time, "times_s": list(time.times_s), "candidate": candidate}
