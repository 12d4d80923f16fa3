"""Where this user's caches are: what can be made again, and is kept to save that."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache() -> Path:
    """The program's folder among the user's caches. A relative XDG_CACHE_HOME says nothing, as its specification asks.

    Raises:
        RuntimeError: the user has no home.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (named if named.is_absolute() else Path.home() / ".cache") / "int8tune"
