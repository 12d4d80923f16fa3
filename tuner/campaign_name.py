"""What a campaign may be called."""

from __future__ import annotations

import re

from int8tune.tuner.errors import SpecError

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def require_name(name: str) -> None:
    """Raises: SpecError: files are called after it, and this is no name for them."""
    if not NAME.fullmatch(name) or name in (".", ".."):
        raise SpecError(f"a campaign's name has 1 to 64 of the characters A-Z a-z 0-9 . _ -: {name[:80]!r}")
