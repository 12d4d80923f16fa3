"""Reads `farm.toml`: strictly, and whole before any board is touched."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from int8tune.results.atomic import write_atomic
from int8tune.results.entry_points import TRANSPORTS, parts
from int8tune.rpc.errors import InventoryError
from int8tune.rpc.inventory.boards import (
    ARCHITECTURES,
    CANARY_TOLERANCES,
    FIRST_GPU,
    GPU_MEMORY_BYTES,
    LOCALHOST,
    Board,
    Inventory,
    Limits,
    TimingKind,
    TransportKind,
    is_public_key,
    public_key_blob,
)
from int8tune.rpc.wire.toml_file import Faults, Table, lines_of, read_toml, shown

MOST_BOARDS = 10_000

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ADDRESS = re.compile(r"(?!-)[A-Za-z0-9._:\-]{1,253}(%[A-Za-z0-9._-]{1,15})?")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,31}")
_FOLDER = re.compile(r"(?!.*(^|/)\.\.(/|$))(?!-)[A-Za-z0-9._/-]{1,200}")
_CPU = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_LINE = re.compile(r"[^\x00-\x1f\x7f]{1,1000}")
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(KiB|MiB|GiB|TiB)")
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_LEAST_MEMORY, _MOST_MEMORY = 16 << 20, 1 << 42
_LARGEST_KEY_FILE = 1 << 16
_DAY_S = 86_400.0
_MOST_TAGS, _MOST_CORES, _HIGHEST_CORE, _HIGHEST_GPU = 64, 1024, 4095, 63

_ANY = (
    "name",
    "transport",
    "target",
    "tags",
    "cores",
    "threads",
    "timing",
    "limits",
    "cooldown_s",
    "power_cycle",
    "canary_every",
    "canary_tolerance",
)
_REQUIRED: Mapping[TransportKind, tuple[str, ...]] = {
    TransportKind.LOCAL: (),
    TransportKind.SSH: ("address", "user", "key_file", "host_key"),
    TransportKind.TRACKER: ("address", "port", "tracker_key", "architecture"),
    TransportKind.MCA: ("target", "cpu", "emulator", "architecture"),
    TransportKind.GPU: (),
    TransportKind.SIMULATED: ("target",),
    TransportKind.EXTENSION: (),
}
_OPTIONAL: Mapping[TransportKind, tuple[str, ...]] = {
    TransportKind.LOCAL: (),
    TransportKind.SSH: ("port", "folder", "emulator", "architecture", "gpu"),
    TransportKind.TRACKER: ("cpu",),
    TransportKind.MCA: (),
    TransportKind.GPU: ("gpu",),
    TransportKind.SIMULATED: ("simulation",),
    TransportKind.EXTENSION: ("address", "port", "user", "key_file", "cpu", "architecture", "options"),
}
_LIMITS = ("connect_s", "transfer_s", "run_s", "total_s", "memory", "disk")
_ANY_FIELD = {*_ANY, *(name for names in (*_REQUIRED.values(), *_OPTIONAL.values()) for name in names)}


def read_inventory(path: Path, profiles: Sequence[str] = ()) -> Inventory:
    """Read `farm.toml`.

    Args:
        profiles: what a board's `target` may be; any name if empty.

    Raises:
        InventoryError: with every fault of the file, a line for each.
    """
    values, lines = read_toml(path)
    faults = Faults(path)
    for name in values:
        if name != "boards":
            faults.add(lines.get(name, 0), name[:80], "unknown field, known: boards")
    tables = values.get("boards")
    if (
        not isinstance(tables, list)
        or not 0 < len(tables) <= MOST_BOARDS
        or not all(isinstance(t, dict) for t in tables)
    ):
        faults.add(lines.get("boards", 0), "boards", f"must be 1 to {MOST_BOARDS} tables, each begun by `[[boards]]`")
        faults.check()
    assert isinstance(tables, list)
    read = [Table(table, f"boards[{index}]", lines, faults) for index, table in enumerate(tables)]
    boards = tuple(_board(table, path.resolve().parent, profiles) for table in read)
    _check_apart(boards, read)
    faults.check()
    return Inventory(path, boards)


def _board(table: Table, home: Path, profiles: Sequence[str]) -> Board:
    kind, extension = _kind(table)
    _check_names(table, kind, extension)
    emulator = _command(table, "emulator")
    board = Board(
        name=table.matching("name", _NAME, "1 to 64 letters, digits, `.`, `_` and `-`"),
        transport=kind,
        target=_target(table, profiles),
        cpu=table.matching("cpu", _CPU, "LLVM's name of a CPU, such as `cortex-a53`"),
        address=_address(table),
        port=table.integer("port", 1, 65_535, 22),
        user=table.matching("user", _USER, "a user's name, such as `pi`"),
        key_file=_key_file(table, home),
        host_key=_host_key(table, home),
        folder=table.matching("folder", _FOLDER, "a path without `..` and blanks", ".int8tune"),
        emulator=emulator,
        architecture=table.one_of("architecture", ARCHITECTURES, "") if "architecture" in table else "",
        tracker_key=table.matching("tracker_key", _NAME, "1 to 64 letters, digits, `.`, `_` and `-`"),
        tags=frozenset(table.many("tags", _tag, "1 to 64 letters, digits, `.`, `_` and `-`", _MOST_TAGS)),
        cores=table.many("cores", _core, f"a core's number from 0 to {_HIGHEST_CORE}", _MOST_CORES),
        threads=table.integer("threads", 1, _MOST_CORES, 1),
        gpu=table.integer("gpu", 0, _HIGHEST_GPU, FIRST_GPU) if kind is TransportKind.GPU or "gpu" in table else None,
        timing=_timing(table, kind, bool(emulator)),
        limits=_limits(table, kind is TransportKind.GPU or "gpu" in table),
        cooldown_s=table.number("cooldown_s", 0, 3600, 0.0),
        power_cycle=_command(table, "power_cycle"),
        canary_every=table.integer("canary_every", 1, 1_000_000, 50),
        canary_tolerance=table.number("canary_tolerance", *CANARY_TOLERANCES, 0.0) or None,
        simulation=_simulation(table),
        extension=extension,
        options=_options(table),
    )
    if board.cores and len(board.cores) < board.threads:
        table.fault("threads", f"must be at most the {len(board.cores)} of `cores`: {board.threads}")
    if board.emulator and not board.architecture and "architecture" not in table:
        table.fault("architecture", "missing: an emulator does not say what it emulates")
    return board


def _kind(table: Table) -> tuple[TransportKind, str]:
    """The way to a board; its name, if another package has it.

    Raises:
        ExtensionError: two packages have a transport of one name.
    """
    own = [kind.value for kind in TransportKind.own()]
    if "transport" not in table or table.value("transport") in own:
        return TransportKind(table.value("transport") or own[0]), ""
    others = parts(TRANSPORTS, tuple(own))
    chosen = table.one_of("transport", [*own, *others], own[0])
    return (TransportKind.EXTENSION, chosen) if chosen in others else (TransportKind(chosen), "")


def _check_names(table: Table, kind: TransportKind, extension: str) -> None:
    is_known = table.value("transport") == (extension or kind.value)
    known = {*_ANY, *_REQUIRED[kind], *_OPTIONAL[kind]}
    for name in sorted(_ANY_FIELD - known):
        if name in table and is_known:
            table.fault(name, f"means nothing for transport `{extension or kind.value}`")
    table.check_names(_ANY_FIELD, ("name", "transport", *_REQUIRED[kind]) if is_known else ("name", "transport"))


def _target(table: Table, profiles: Sequence[str]) -> str:
    if profiles and "target" in table:
        return table.one_of("target", profiles, "")
    return table.matching("target", _CPU, "a target profile, such as `generic`")


def _address(table: Table) -> str:
    return table.matching("address", _ADDRESS, "a host's name or address")


def _timing(table: Table, kind: TransportKind, is_emulated: bool) -> TimingKind:
    is_model = is_emulated or kind is TransportKind.MCA
    timing = TimingKind(table.one_of("timing", [kind.value for kind in TimingKind], "none" if is_model else "measured"))
    if is_model and timing is TimingKind.MEASURED:
        why = "estimates" if kind is TransportKind.MCA else "an emulator's times"
        table.fault("timing", f"must be `none`, {why} are no measurements: 'measured'")
    return timing


def _limits(table: Table, has_gpu: bool) -> Limits:
    limits = table.table("limits")
    limits.check_names(_LIMITS)
    usual = Limits(memory_bytes=GPU_MEMORY_BYTES) if has_gpu else Limits()
    read = Limits(
        connect_s=limits.number("connect_s", 1, 300, usual.connect_s),
        transfer_s=limits.number("transfer_s", 1, 3600, usual.transfer_s),
        run_s=limits.number("run_s", 0.1, _DAY_S, usual.run_s),
        total_s=limits.number("total_s", 1, _DAY_S, usual.total_s),
        memory_bytes=limits.take("memory", usual.memory_bytes, _size, "a size from 16 MiB to 4 TiB, such as `512 MiB`"),
        disk_bytes=limits.take("disk", usual.disk_bytes, _size, "a size from 16 MiB to 4 TiB, such as `1 GiB`"),
    )
    if read.total_s < read.run_s:
        limits.fault("total_s", f"must be at least `run_s`, {read.run_s:g}: {read.total_s:g}")
    return read


def _simulation(table: Table) -> Mapping[str, float]:
    simulation = table.table("simulation")
    values = table.value("simulation")
    if not isinstance(values, dict):
        return {}
    return {name: simulation.number(name, 0, 1e9, 0.0) for name in values}


def _options(table: Table) -> Mapping[str, str | int | float | bool]:
    """What a transport of another package is told."""
    values = table.value("options") if "options" in table else {}
    if not isinstance(values, dict) or not all(isinstance(value, str | int | float) for value in values.values()):
        table.fault("options", "must be a table of texts, numbers and booleans")
        return {}
    return values


def _size(value: Any) -> int | None:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    return size if _LEAST_MEMORY <= size <= _MOST_MEMORY else None


def _tag(value: Any) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def _core(value: Any) -> int | None:
    is_core = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _HIGHEST_CORE
    return value if is_core else None


def _command(table: Table, name: str) -> tuple[str, ...]:
    """The words of a command, as a shell would split them; no shell sees them."""

    def read(value: Any) -> tuple[str, ...] | None:
        if not isinstance(value, str) or not _LINE.fullmatch(value):
            return None
        try:
            words = tuple(shlex.split(value))
        except ValueError:
            return None
        return words or None

    return table.take(name, (), read, "a command on one line, its quotes closed")


def _key_file(table: Table, home: Path) -> Path | None:
    """Its path and its mode are looked at, never its content."""
    written = table.matching("key_file", _LINE, "the path of a private key")
    if not written:
        return None
    path = _path(written, home)
    try:
        status = path.stat()
    except OSError as error:
        table.fault("key_file", f"can't be read: {(error.strerror or '').lower()}: {path}")
        return path
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_KEY_FILE:
        table.fault("key_file", f"not a private key: {path}")
    elif status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        table.fault(
            "key_file", f"others may read it, mode {mode:04o}, must be 0600: chmod 600 {shlex.quote(str(path))}"
        )
    elif status.st_uid != os.geteuid():
        table.fault("key_file", f"belongs to another user (uid {status.st_uid}): {path}")
    return path


def _host_key(table: Table, home: Path) -> str:
    written = table.matching("host_key", _LINE, "a public key, `ssh-ed25519 AAAA...`, or a `known_hosts` file")
    if not written:
        return ""
    if is_public_key(written):
        if public_key_blob(written) is None:
            table.fault("host_key", f"not a public key, its base64 is damaged: {shown(written)}")
        return written
    path = _path(written, home)
    if not path.is_file():
        table.fault(
            "host_key", f"neither a public key, `ssh-ed25519 AAAA...`, nor a `known_hosts` file: {shown(written)}"
        )
    elif path.stat().st_size > 1 << 20:
        table.fault("host_key", f"must have at most {1 << 20} bytes: {path}")
    return str(path)


def replace_host_key(inventory: Inventory, board: Board, host_key: str) -> None:
    """Write another host key of a board into the inventory's file; other boards may have the known one, too.

    Raises:
        InventoryError: the known key does not stand in that file.
    """
    text = inventory.source.read_text(encoding="utf-8")
    start, end = _line_of_host_key(inventory, board, text)
    if not is_public_key(board.host_key) or text.count(board.host_key, start, end) != 1:
        where = board.host_key if not is_public_key(board.host_key) else str(inventory.source)
        raise InventoryError(f"the host key of `{board.name}` is not replaced, do it by hand in {where}: {host_key}")
    line = text[start:end].replace(board.host_key, host_key)
    write_atomic(inventory.source, text[:start] + line + text[end:])


def _line_of_host_key(inventory: Inventory, board: Board, text: str) -> tuple[int, int]:
    """Where the line of a board's key begins and ends; of a file in another form, the whole text."""
    number = lines_of(text).get(f"boards[{inventory.boards.index(board)}].host_key")
    if number is None:
        return 0, len(text)
    lines = text.split("\n")
    start = sum(len(line) + 1 for line in lines[: number - 1])
    return start, start + len(lines[number - 1])


def _path(written: str, home: Path) -> Path:
    path = Path(written).expanduser() if written.startswith("~") else Path(written)
    return path if path.is_absolute() else home / path


def _check_apart(boards: Sequence[Board], tables: Sequence[Table]) -> None:
    """No two of one name, and no two that share a core of one machine, or a GPU."""
    names: set[str] = set()
    places: dict[tuple[str, int], list[Board]] = {}
    for board, table in zip(boards, tables, strict=True):
        if board.name and board.name in names:
            table.fault("name", f"there is a board of this name already: {board.name}")
        names.add(board.name)
        if not board.name or board.transport not in (TransportKind.LOCAL, TransportKind.SSH, TransportKind.GPU):
            continue
        place = (board.address.lower(), board.port) if board.transport is TransportKind.SSH else (LOCALHOST, 0)
        for other in places.setdefault(place, []):
            if board.gpu is not None and board.gpu == other.gpu:
                table.fault("gpu", f"is that of `{other.name}` at {place[0]}, too: {board.gpu}")
                break
            if board.gpu is None and other.gpu is None and _overlap(board.cores, other.cores):
                what = (
                    f"at {place[0]}, its cores: {_in_words(board.cores)}, of `{other.name}`: {_in_words(other.cores)}"
                )
                table.fault("cores", f"shares cores with `{other.name}` {what}")
                break
        places[place].append(board)


def _overlap(cores: Collection[int], others: Collection[int]) -> bool:
    return not cores or not others or not set(cores).isdisjoint(others)


def _in_words(cores: Sequence[int]) -> str:
    return ", ".join(map(str, cores)) or "all"
