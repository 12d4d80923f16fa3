"""Where the repository and its tests lie."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
# For `PYTHONPATH` of processes that tests start: these sources, wherever the package is installed from, and `tests`.
PYTHON_PATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
