"""An overview as a page, whose styles and script are files of their own: nothing in it is executed."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from int8tune.results.label import layer_label
from int8tune.results.report.format import MISSING, factor, kilocycles, milliseconds
from int8tune.results.snapshot import NetworkCost
from int8tune.tuner.board_states import BoardState
from int8tune.tuner.watching.overview import CampaignView, Failure, Overview, Phase

EVERY_S = 2
# Without a script the page loads itself anew, which moves a reader's place now and then.
PLAIN_EVERY_S = 10

CSS = """\
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #b3261e; --dim: #5f6368; }
@media (prefers-color-scheme: dark) { :root { --good: #57c878; --bad: #ff8a80; --dim: #a8adb3; } }
body { font: 16px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1rem; }
header { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: baseline; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .25rem 0; } .dim { color: var(--dim); } .bad { color: var(--bad); } .good { color: var(--good); }
ul { list-style: none; margin: 0; padding: 0; }
li { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; margin: .5rem 0; overflow-wrap: anywhere; }
progress { width: 100%; height: .6rem; }
.facts { display: flex; flex-wrap: wrap; gap: 0 1.25rem; font-variant-numeric: tabular-nums; }
.row { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
button { font: inherit; }
"""

SCRIPT = """\
"use strict";
const button = document.querySelector("button");
let paused = false;
button.hidden = false;
button.addEventListener("click", () => {
  paused = !paused;
  button.textContent = paused ? "Go on" : "Pause";
});
async function update() {
  try {
    if (!paused && !document.hidden && String(getSelection()) === "") {
      const answer = await fetch("/overview.html", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error(answer.statusText);
      const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.querySelector("main").replaceChildren(...parsed.body.childNodes);
    }
  } catch (error) {
    document.querySelector("#moment").textContent = "not reached any more";
  }
  setTimeout(update, EVERY_MS);
}
setTimeout(update, EVERY_MS);
""".replace("EVERY_MS", str(1000 * EVERY_S))


def page(overview: Overview) -> str:
    """The whole page; with a script it goes on by itself, without one it is loaded anew now and then."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>int8tune watch</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/watch.css"><script src="/watch.js" defer></script>'
        f'<noscript><meta http-equiv="refresh" content="{PLAIN_EVERY_S}"></noscript></head><body>'
        "<header><h1>int8tune watch</h1><button hidden>Pause</button></header>"
        f"<main>{body(overview)}</main></body></html>\n"
    )


def body(overview: Overview) -> str:
    """What changes of it."""
    parts = [f'<p class="dim" id="moment">{_moment(overview.at)}</p>']
    parts += [_element("p", f"{place.name}: {place.fault}", "bad") for place in overview.places if place.fault]
    parts.append("<h2>Campaigns</h2>")
    parts.append(_items([_campaign(view, overview.at) for view in overview.campaigns], "no campaign yet"))
    if overview.left_out:
        parts.append(_element("p", f"and {overview.left_out} more", "dim"))
    if overview.boards:
        parts.append("<h2>Boards</h2>" + _items([_board(board, overview.at) for board in overview.boards], ""))
    if overview.failures:
        parts.append("<h2>Last failures</h2>" + _items([_failure(each) for each in overview.failures], ""))
    return "\n".join(parts)


def _campaign(view: CampaignView, now: float) -> str:
    phase, stored = view.phase(now), view.snapshot.campaign if view.snapshot else None
    style = "good" if phase in (Phase.RUNNING, "finished") else "bad" if phase in ("failed", Phase.KILLED) else "dim"
    about = f"{stored.network}, {stored.target} on {stored.device}" if stored else ""
    parts = [_row(_element("h3", view.name), _element("span", str(phase), style))]
    parts += [_element("p", about, "dim")] if about else []
    if phase == Phase.RUNNING and view.budget:
        share = min(view.trials, view.budget)
        parts.append(f'<progress max="{view.budget}" value="{share}" aria-label="trials of the budget"></progress>')
    parts.append(_facts(_progress(view, now)))
    if view.snapshot and view.snapshot.cost:
        parts.append(_facts(_cost(view.snapshot.cost)))
    if view.status and view.status.error and phase == "failed":
        parts.append(_element("p", view.status.error, "bad"))
    return "".join(parts)


def _progress(view: CampaignView, now: float) -> list[str]:
    pace, left_s = view.per_minute(now), view.left_s(now)
    is_running = view.phase(now) == Phase.RUNNING
    budget = f" of {view.budget:,}" if is_running and view.budget else ""
    facts = [f"{view.trials:,}{budget} trials"]
    facts += [f"{view.layers[0]} of {view.layers[1]} layers"] if is_running and view.layers else []
    facts += [f"{view.snapshot.failed:,} failed"] if view.snapshot and view.snapshot.failed else []
    facts += [f"{pace:.0f} trials a minute"] if pace else []
    facts += [f"{max(1, round(left_s / 60))} min left"] if left_s is not None else []
    return facts


def _cost(cost: NetworkCost) -> list[str]:
    in_words, unit = (kilocycles, "kcyc (estimated)") if cost.is_estimate else (milliseconds, "ms")
    return [
        f"network {in_words(cost.default)} {unit} by default",
        f"{in_words(cost.so_far)} {unit} so far",
        f"{factor(cost.speedup)} times faster",
        f"{factor(cost.confirmed_speedup)} confirmed",
    ]


def _board(state: BoardState, now: float) -> str:
    report, running = state.report, state.running
    what = str(running.state) if running else "idle"
    facts = [f"campaign {report.campaign}"] if report else []
    if running:
        facts += [f"waits for {running.waits_for}", f"{running.per_minute:.0f} trials a minute"]
    if report and report.canary_at is not None:
        ago = max(0, round(now - report.canary_at))
        facts.append(f"canary {'bad' if report.canary_fault else 'good'} {ago} s ago")
    cause = running.cause if running else state.last_words
    text = _row(_element("h3", state.name), _element("span", what, "bad" if cause else "")) + _facts(facts)
    return text + (_element("p", cause, "bad") if cause else "")


def _failure(failure: Failure) -> str:
    trial = failure.trial
    facts = [trial.campaign, layer_label(trial.candidate.workload), trial.candidate.template, trial.started_at[:19]]
    return _row(_element("h3", trial.outcome.value)) + _facts(facts) + _element("p", trial.error or MISSING, "dim")


def _items(items: list[str], without: str) -> str:
    if not items:
        return _element("p", without, "dim")
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _facts(facts: list[str]) -> str:
    return f'<p class="facts">{"".join(_element("span", fact) for fact in facts)}</p>'


def _row(*parts: str) -> str:
    return f'<div class="row">{"".join(parts)}</div>'


def _element(tag: str, text: str, style: str = "") -> str:
    with_class = f' class="{style}"' if style else ""
    return f"<{tag}{with_class}>{escape(text)}</{tag}>"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
