"""Where things are if nobody says otherwise."""

from __future__ import annotations

from pathlib import Path

from int8tune.results.stores import DEFAULT_FOLDER

DEFAULT_RESULTS = DEFAULT_FOLDER
DEFAULT_INVENTORY = Path("farm.toml")
