"""Reading JSON that somebody else wrote: every fault of a file is found, each with its place.

`json` alone keeps the last of two members of one name, takes NaN for a number and True for 1; here these are faults.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from int8tune.compiler.errors import LayerTableError
from int8tune.results.bounded_json import Pairs, parse_json, repeated_names
from int8tune.results.text import MOST_UNKNOWN, printable, unknown_fields

MAX_SHOWN = 80
MAX_FAULTS = 100


class JsonObject(dict[str, object]):
    """A JSON object that remembers which of its names were given more than once."""

    repeated: tuple[str, ...] = ()


class Faults:
    """The faults of one file, gathered so that its author sees all of them at once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: list[str] = []

    def add(self, place: str, what: str) -> None:
        """Note a fault at `place`, such as `layers[3].count`; the whole file where it is empty."""
        if len(self._lines) < MAX_FAULTS:
            self._lines.append(printable(": ".join(part for part in (self._source, place, what) if part)))
        elif len(self._lines) == MAX_FAULTS:
            self._lines.append(printable(f"{self._source}: more than {MAX_FAULTS} faults, the rest is not shown"))

    def check(self) -> None:
        """Raise `LayerTableError` if there are any."""
        if self._lines:
            raise LayerTableError(self._lines)


class Fields:
    """The members of one JSON object, taken by name.

    A member that is missing or not of its form is noted as a fault and gives a stand-in (`""`, 0, NaN, `[]`):
    call `Faults.check` before any value is used.
    """

    def __init__(
        self, value: object, place: str, faults: Faults, required: Sequence[str], optional: Sequence[str] = ()
    ) -> None:
        self._place = place
        self._faults = faults
        self._members = value if isinstance(value, JsonObject) else JsonObject()
        if not isinstance(value, JsonObject):
            faults.add(place, f"must be an object: {shown(value)}")
            return
        for name in value.repeated:
            self.fault(name, "given more than once")
        for name, what in unknown_fields(value, [*required, *optional]):
            self.fault(name, what)
        for name in required:
            if name not in value:
                self.fault(name, "missing")

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def fault(self, name: str, what: str) -> None:
        """Note a fault of the member `name`."""
        self._faults.add(self.place(name), what)

    def place(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name

    def value(self, name: str) -> object:
        """The member as it was read; None where it is missing."""
        return self._members.get(name)

    def text(self, name: str, longest: int) -> str:
        """A text of 1 to `longest` printable characters."""
        value = self.value(name)
        if isinstance(value, str) and 0 < len(value) <= longest and value.isprintable():
            return value
        if name in self:
            self.fault(name, f"must be a text of 1 to {longest} printable characters: {shown(value)}")
        return ""

    def matching(self, name: str, pattern: re.Pattern[str], form: str) -> str:
        """A text that all of `pattern` matches; `form` says it in words."""
        value = self.value(name)
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        if name in self:
            self.fault(name, f"must be {form}: {shown(value)}")
        return ""

    def integer(self, name: str, least: int, most: int) -> int:
        """An integer of `least` to `most`; neither a boolean nor a float."""
        value = self.value(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            if value <= most:
                return value
            self.fault(name, f"must be at most {most}: {shown(value)}")
        elif name in self:
            self.fault(name, f"must be an integer of at least {least}: {shown(value)}")
        return 0

    def number(self, name: str, above: float, most: float) -> float:
        """A number over `above`, at most `most`; never NaN."""
        value = self.value(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and above < value <= most:
            return float(value)
        if name in self:
            self.fault(name, f"must be a number over {above:g}, at most {most:g}: {shown(value)}")
        return math.nan

    def items(self, name: str, most: int) -> list[object]:
        """A list of 1 to `most` items."""
        value = self.value(name)
        if isinstance(value, list) and 0 < len(value) <= most:
            return value
        if isinstance(value, list):
            self.fault(name, f"must have 1 to {most} items: {len(value)}")
        elif name in self:
            self.fault(name, f"must be a list: {shown(value)}")
        return []


def decode_json(data: bytes, source: str) -> object:
    """The JSON value of UTF-8 text, its objects as `JsonObject`.

    Raises:
        LayerTableError: the text is no UTF-8 or no JSON; the message has the line and column.
    """
    try:
        return parse_json(data, objects=_as_object, is_finite=False)
    except UnicodeDecodeError as error:
        fault = f"{source}: not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
    except json.JSONDecodeError as error:
        fault = f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}"
    except ValueError as error:
        fault = f"{source}: {error}"
    raise LayerTableError([printable(fault)])


def shown(value: object) -> str:
    """A JSON value as it may stand in a message of one line."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return clipped(json.dumps(value, ensure_ascii=False))


def clipped(text: str) -> str:
    """The text, or its beginning where it is too long for a message."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def reason_of(error: Exception) -> str:
    """What TVM says of an error, in one line: a program comes first, then the reason, then remarks on the program."""
    lines = [line.strip() for line in str(error).splitlines()]
    return clipped(([line for line in lines if line and not line.startswith("#")] or [type(error).__name__])[-1])


def _as_object(pairs: Pairs) -> JsonObject:
    members = JsonObject(pairs)
    if len(members) < len(pairs):
        members.repeated = tuple(map(clipped, repeated_names(pairs)[:MOST_UNKNOWN]))
    return members
