"""Reading TOML that somebody else wrote: every fault of a file, each with its line and the path of its field."""

from __future__ import annotations

import difflib
import re
import stat
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from int8tune.results.text import printable, unknown_fields
from int8tune.rpc.errors import InventoryError

Value = TypeVar("Value")

LARGEST_BYTES = 1 << 20
MOST_FAULTS = 100
_LONGEST_SHOWN = 80
_LARGEST_SHOWN = 10**_LONGEST_SHOWN
_WHERE = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)
_MOST_PARTS = 32
_LONGEST_HEADER = 1000
_HEADER = re.compile(r"^\s*\[(\[?)([A-Za-z0-9_.\-\s\"']++)\]")
# What tomllib takes the square of the parts for.
_LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}""")
_KEY = re.compile(r"^\s*([A-Za-z0-9_\-]+|\"[^\"]*\"|'[^']*')\s*(?:=|\.\s*[A-Za-z0-9_\-\"']+\s*=)")


class Faults:
    """The faults of one file, gathered so that its author sees all of them at once."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._lines: list[tuple[int, str]] = []

    def add(self, line: int, place: str, what: str) -> None:
        """Note a fault of the field `place`, such as `boards[1].port`, that stands on `line`; 0 where there is none."""
        where = f"{self._source}:{line}" if line else str(self._source)
        if len(self._lines) == MOST_FAULTS:
            self._lines.append((sys.maxsize, f"{self._source}: more than {MOST_FAULTS} faults, the rest is not shown"))
        if len(self._lines) > MOST_FAULTS:
            return
        self._lines.append((line, printable(": ".join(filter(None, [where, place, what])))))

    def check(self) -> None:
        """Raise `InventoryError` if there are any."""
        if self._lines:
            raise InventoryError("\n".join(text for _, text in sorted(self._lines, key=lambda fault: fault[0])))


def read_toml(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The tables of a file, and the line of each of its fields, by paths such as `boards[0].limits.run_s`.

    Raises:
        InventoryError: it can't be read, is too large, or no TOML in UTF-8; the message has the line and column.
    """
    text = _text(path)
    if long := _LONG_KEY.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise InventoryError(f"{path}:{line}: a name must have at most {_MOST_PARTS} parts with dots between")
    try:
        return tomllib.loads(text), lines_of(text)
    except tomllib.TOMLDecodeError as error:
        match = _WHERE.match(str(error))
        last_line = text.rstrip().count("\n") + 1
        place, what = (f"{path}:{match[2]}:{match[3]}", match[1]) if match else (f"{path}:{last_line}", str(error))
        raise InventoryError(printable(f"{place}: not TOML: {what}")) from error
    except RecursionError as error:
        raise InventoryError(f"{path}: lists and tables are nested too deeply") from error
    except ValueError as error:
        raise InventoryError(f"{path}: a number has too many digits") from error


class Table:
    """The fields of one table, taken by name.

    A field that is missing or not of its form is noted as a fault and gives a stand-in: call `Faults.check` before any
    value is used. The `place` of a whole file is empty.
    """

    def __init__(self, values: Mapping[str, Any], place: str, lines: Mapping[str, int], faults: Faults) -> None:
        self._values = values
        self._place = place
        self._lines = lines
        self._faults = faults

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def check_names(self, known: Collection[str], required: Collection[str] = ()) -> None:
        for name, what in unknown_fields(self._values, known):
            self.fault(name, what)
        for name in required:
            if name not in self._values:
                self.fault(name, "missing")

    def fault(self, name: str, what: str) -> None:
        """Note a fault of the field `name`."""
        place = f"{self._place}.{name}".removeprefix(".")
        self._faults.add(self._lines.get(place) or self._lines.get(self._place, 0), place, what)

    def value(self, name: str) -> Any:
        """The field as it was read; None where it is missing."""
        return self._values.get(name)

    def take(self, name: str, default: Value, read: Callable[[Any], Value | None], form: str) -> Value:
        """What `read` makes of the field, which gives None for what is not of its form; `form` says that in words."""
        if name not in self._values:
            return default
        value = read(self._values[name])
        if value is None:
            self.fault(name, f"must be {form}: {shown(self._values[name])}")
            return default
        return value

    def matching(self, name: str, pattern: re.Pattern[str], form: str, default: str = "") -> str:
        def read(value: Any) -> str | None:
            return value if isinstance(value, str) and pattern.fullmatch(value) else None

        return self.take(name, default, read, form)

    def one_of(self, name: str, known: Sequence[str], default: str) -> str:
        value = self._values.get(name, default)
        if isinstance(value, str) and value in known:
            return value
        near = difflib.get_close_matches(value[:_LONGEST_SHOWN], known, n=1) if isinstance(value, str) else []
        meant = f", did you mean `{near[0]}`?" if near else ""
        self.fault(name, f"must be one of {', '.join(known)}: {shown(value)}{meant}")
        return default

    def integer(self, name: str, low: int, high: int, default: int) -> int:
        def read(value: Any) -> int | None:
            return value if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high else None

        return self.take(name, default, read, f"an integer from {low} to {high}")

    def number(self, name: str, low: float, high: float, default: float) -> float:
        def read(value: Any) -> float | None:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return float(value) if is_number and low <= value <= high else None

        return self.take(name, default, read, f"a number from {low:g} to {high:g}")

    def many(self, name: str, read: Callable[[Any], Value | None], form: str, most: int) -> tuple[Value, ...]:
        """A list of at most `most` different items that `read` reads; `form` says of one in words."""
        values = self._values.get(name, [])
        if not isinstance(values, list) or len(values) > most:
            self.fault(name, f"must be a list of at most {most} items, each {form}: {shown(values)}")
            return ()
        items = [read(value) for value in values]
        for index, (item, value) in enumerate(zip(items, values, strict=True)):
            if item is None:
                self.fault(name, f"item {index} must be {form}: {shown(value)}")
            elif item in items[:index]:
                self.fault(name, f"item {index} is there twice: {shown(value)}")
        return tuple(item for item in items if item is not None)

    def table(self, name: str) -> Table:
        """A table in this one; an empty one where it is missing."""
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            self.fault(name, f"must be a table: {shown(value)}")
            value = {}
        return Table(value, f"{self._place}.{name}", self._lines, self._faults)


def shown(value: object) -> str:
    """A value as it may stand in a message of one line."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, int) and abs(value) >= _LARGEST_SHOWN:
        return "a number with over 80 digits"
    try:
        text = repr(value) if not isinstance(value, bool) else str(value).lower()
    except ValueError:  # a list with such a number in it
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InventoryError(f"{path}: not a file")
        if status.st_size > LARGEST_BYTES:
            raise InventoryError(f"{path}: must have at most {LARGEST_BYTES} bytes: {status.st_size}")
        data = path.read_bytes()
    except OSError as error:
        raise InventoryError(f"{path}: can't be read: {(error.strerror or str(error)).lower()}") from error
    if not data.strip():
        raise InventoryError(f"{path}: is empty ({len(data)} bytes)")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InventoryError(
            f"{path}:{line}: not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}"
        ) from error


def lines_of(text: str) -> dict[str, int]:
    """Where each table begins and each field stands, as far as lines tell: what is inside of a value has its line."""
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    quote = ""
    for number, line in enumerate(text.split("\n"), 1):
        if quote:
            quote = "" if quote in line else quote
            continue
        if len(line) <= _LONGEST_HEADER and (header := _HEADER.match(line)):
            table = _place_of(header[2].strip(), bool(header[1]), counts)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{table}.{key[1].strip(chr(34) + chr(39))}".lstrip("."), number)
        quote = next((mark for mark in ('"""', "'''") if line.count(mark) % 2), "")
    return lines


def _place_of(name: str, is_list: bool, counts: dict[str, int]) -> str:
    """The path of a table by its header: parts that are lists have the number of their last item."""
    place, plain = "", ""
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    for depth, part in enumerate(parts, 1):
        plain = f"{plain}.{part}".lstrip(".")
        if is_list and depth == len(parts):
            counts[plain] = counts.get(plain, -1) + 1
        place = f"{place}.{part}".lstrip(".") + (f"[{counts[plain]}]" if plain in counts else "")
    return place
