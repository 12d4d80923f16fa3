"""Which values a table can keep."""

from __future__ import annotations

import math

from int8tune.results.errors import RecordError


def require_storable(what: str, value: object) -> None:
    """Raises: RecordError: a text that is no Unicode, a number over 64 bits, or one that is none."""
    if isinstance(value, str) and not _is_unicode(value):
        raise RecordError(f"{what} is not valid Unicode: {value!a:.200}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise RecordError(f"{what} needs more than 64 bits: {value}")
    if isinstance(value, float) and math.isnan(value):
        raise RecordError(f"{what} is not a number: {value}")


def as_unicode(text: str) -> str:
    """The text, with letters such as `\\udc80` for what is no Unicode: no trial is lost for what a process printed."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
