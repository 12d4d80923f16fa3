"""Pages in a real browser, without a window: what axe finds in them, and how wide they are."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

LIMIT_S = 90.0
_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_ANSWER = re.compile(r'<pre id="answer">(.*?)</pre>', re.DOTALL)
# The answer is written into the page, which the browser prints when nothing is left to do.
_ASK = """<script>{axe}</script><script>
addEventListener("load", async () => {{
  const pre = document.createElement("pre");
  let answer;
  try {{ answer = await (async () => {{ {question} }})(); }} catch (error) {{ answer = {{ error: String(error) }}; }}
  pre.id = "answer";
  pre.textContent = JSON.stringify(answer);
  document.body.append(pre);
}});</script>"""
AXE = """const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const found = await axe.run({runOnly: rules});
const places = (one) => one.nodes.slice(0, 3).map((node) => node.html).join(" ");
return found.violations.map((one) => `${one.id}: ${one.help}: ${places(one)}`);"""


@cache
def browser() -> str | None:
    """Chromium's program; None where there is none."""
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


@cache
def axe() -> Path | None:
    """What `npm install --no-save axe-core` puts into a folder, which `AXE_CORE` may name; None where it is not."""
    folders = [os.environ.get("AXE_CORE", ""), "node_modules/axe-core"]
    if npm := shutil.which("npm"):
        root = subprocess.run([npm, "root", "-g"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        folders.append(f"{root.stdout.strip()}/axe-core")
    return next((path for folder in folders if folder and (path := Path(folder) / "axe.min.js").is_file()), None)


def ask(page: str, question: str, folder: Path, width: int = 1024, *, dark: bool = False, script: str = "") -> Any:
    """What JavaScript answers inside of a page, of a window this wide; the page's policy is left out for it."""
    program = browser()
    assert program is not None
    asked = _POLICY.sub("", page).replace("</body>", _ASK.format(axe=script, question=question) + "</body>")
    path = folder / "asked.html"
    path.write_text(asked)
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={width},900",
        f"--user-data-dir={folder / 'profile'}",
    ]
    options += ["--blink-settings=preferredColorScheme=0"] if dark else []
    done = subprocess.run(
        [program, *options, "--virtual-time-budget=20000", "--dump-dom", path.resolve().as_uri()],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    answers = _ANSWER.findall(done.stdout)
    assert answers, done.stderr[-2000:]
    return json.loads(html.unescape(answers[-1]))


def axe_findings(page: str, folder: Path, width: int = 1024, *, dark: bool = False) -> list[str]:
    """What axe finds wrong with a page."""
    script = axe()
    assert script is not None
    found: list[str] = ask(page, AXE, folder, width, dark=dark, script=script.read_text())
    return found
