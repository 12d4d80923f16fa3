"""Where things are if nobody says otherwise."""

from __future__ import annotations

from pathlib import Path

DEFAULT_RESULTS = Path("int8tune-results")
DEFAULT_INVENTORY = Path("farm.toml")
