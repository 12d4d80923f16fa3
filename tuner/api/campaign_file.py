"""Reads a file of campaigns, such as `CAMPAIGN.toml`: strictly, and whole before anything is tuned."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from int8tune.compiler.batches import MOST_BATCH
from int8tune.compiler.network_file import is_model, network_names
from int8tune.results.record import CacheMode
from int8tune.results.stores import is_url
from int8tune.rpc.errors import InventoryError
from int8tune.rpc.wire.toml_file import Faults, Table, read_toml, shown
from int8tune.schedules.target import PROFILE_NAMES
from int8tune.tuner.api.defaults import DEFAULT_INVENTORY, DEFAULT_RESULTS
from int8tune.tuner.campaign.spec import DEFAULT_MIN_GAIN, DEFAULT_STRATEGY, DEFAULT_TRIALS, LONGEST_S, MOST_TRIALS
from int8tune.tuner.campaign_name import NAME, require_name
from int8tune.tuner.durations import seconds_of
from int8tune.tuner.errors import CampaignFileError, GivenError, SamplesError, SpecError
from int8tune.tuner.models.given import BindLike, ShapeLike, all_given
from int8tune.tuner.search.registry import strategy_names

SUFFIX = ".toml"
TABLE_SUFFIX = ".json"
MOST_NETWORKS, MOST_TARGETS, MOST_DEVICES, MOST_THREADS, MOST_ENDS = 256, 32, 1024, 1024, 256

_TEXT = re.compile(r"[^\x00-\x1f\x7f]{1,1000}")
_SETTINGS = (
    "targets",
    "trials",
    "time",
    "seed",
    "strategy",
    "threads",
    "batch",
    "cache",
    "min_gain",
    "devices",
    "inventory",
    "results",
)
_OF_A_NETWORK = ("network", "name", "bind", "shape", "until")


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be said for all networks, and for one.

    Attributes:
        targets: profiles; the best that the device can run if empty.
        trials: per distinct layer.
        time_limit_s: of each campaign.
        devices: names of boards; this machine if empty.
    """

    results: Path
    inventory: Path
    targets: tuple[str, ...] = ()
    trials: int = DEFAULT_TRIALS
    time_limit_s: float | None = None
    seed: int = 0
    strategy: str = DEFAULT_STRATEGY
    threads: int = 1
    batch: int = 1
    cache: CacheMode | None = None
    min_gain: float = DEFAULT_MIN_GAIN
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A campaign of the file: a network on a target.

    Attributes:
        label: what the file calls the network.
        network: a name, or a path from where the program runs.
        target: None for the best that the device can run.
        bind, shape: of a model's inputs.
        until: values at which a model ends, in place of its outputs.
    """

    label: str
    network: str
    target: str | None
    bind: BindLike
    shape: ShapeLike
    until: tuple[str, ...]
    settings: Settings

    @property
    def name(self) -> str:
        """The campaign's name: it stays the same when targets are added."""
        return f"{self.label}-{self.target}" if self.target else self.label


def is_campaign_file(name: object) -> bool:
    """Whether what stands in the place of a network is the name of a file of campaigns."""
    return isinstance(name, str | Path) and Path(name).suffix.lower() == SUFFIX


def read_campaign_file(path: Path) -> tuple[FileEntry, ...]:
    """The campaigns of a file, network after network and target after target.

    Raises:
        CampaignFileError: with every fault of the file, a line for each.
    """
    try:
        values, lines = read_toml(path)
        return _entries(path, values, lines)
    except InventoryError as error:
        raise CampaignFileError(str(error)) from error


def _entries(path: Path, values: Mapping[str, Any], lines: Mapping[str, int]) -> tuple[FileEntry, ...]:
    faults = Faults(path)
    home = path.parent
    top = Table(values, "", lines, faults)
    top.check_names((*_SETTINGS, "networks"))
    usual = _settings(top, Settings(home / DEFAULT_RESULTS, home / DEFAULT_INVENTORY), home)
    tables = values.get("networks")
    if not (
        isinstance(tables, list) and 0 < len(tables) <= MOST_NETWORKS and all(isinstance(each, dict) for each in tables)
    ):
        top.fault("networks", f"must be 1 to {MOST_NETWORKS} tables, each begun by `[[networks]]`")
        tables = []
    found: dict[tuple[Path, str], FileEntry] = {}
    for index, each in enumerate(tables):
        table = Table(each, f"networks[{index}]", lines, faults)
        for entry in _entries_of(table, usual, home):
            place = (entry.settings.results, entry.name)
            if place in found:
                table.fault("name", f"campaign `{entry.name}` is there twice, give this network another `name`")
            found[place] = entry
    faults.check()
    return tuple(found.values())


def _entries_of(table: Table, usual: Settings, home: Path) -> list[FileEntry]:
    """The campaigns of one network, one for each target."""
    table.check_names((*_OF_A_NETWORK, *_SETTINGS), required=("network",))
    settings = _settings(table, usual, home)
    network = _network(table, home)
    bind, shape = _given(table, network, home)
    until = table.many("until", _text, "a value's name", MOST_ENDS) if "until" in table else ()
    name = _label(table, network, settings.batch)
    if settings.devices and settings.threads != 1:
        table.fault("threads", "is for this machine, boards have their own: `threads` in the inventory")
    if not (network and name):
        return []
    entries = [FileEntry(name, network, each, bind, shape, until, settings) for each in settings.targets or (None,)]
    try:
        for entry in entries:
            require_name(entry.name)
    except SpecError as error:
        table.fault("name", str(error))
    return entries


def _settings(table: Table, usual: Settings, home: Path) -> Settings:
    """What a table says, and the usual for the rest."""
    found = replace(
        usual,
        trials=table.integer("trials", 1, MOST_TRIALS, usual.trials),
        time_limit_s=table.take("time", usual.time_limit_s, _limit_s, 'a duration from "1s" to "720h", such as "30m"'),
        seed=table.integer("seed", 0, 2**32 - 1, usual.seed),
        strategy=table.one_of("strategy", strategy_names(), usual.strategy),
        threads=table.integer("threads", 1, MOST_THREADS, usual.threads),
        batch=table.integer("batch", 1, MOST_BATCH, usual.batch),
        min_gain=table.take("min_gain", usual.min_gain, _share, "a share from 0 to below 1"),
        results=_path(table, "results", usual.results, home),
        inventory=_path(table, "inventory", usual.inventory, home),
    )
    if "cache" in table:
        found = replace(found, cache=CacheMode(table.one_of("cache", tuple(CacheMode), CacheMode.NETWORK)))
    if "targets" in table:
        known = f"one of {', '.join(PROFILE_NAMES)}"
        found = replace(found, targets=table.many("targets", _target, known, MOST_TARGETS))
    if "devices" in table:
        form = "a board's name: 1 to 64 letters, digits, `.`, `_` and `-`"
        found = replace(found, devices=table.many("devices", _board, form, MOST_DEVICES))
    return found


def _path(table: Table, name: str, usual: Path, home: Path) -> Path:
    if name not in table:
        return usual
    if is_url(str(table.value(name))):  # which may have a password
        table.fault(name, "must be a path in this file, records at a URL are for `int8tune tune NETWORK`")
        return usual
    return home / table.matching(name, _TEXT, "a path")


def _limit_s(value: Any) -> float | None:
    found = seconds_of(value) if isinstance(value, str) else None
    return found if found is not None and 1 <= found <= LONGEST_S else None


def _share(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1 else None


def _target(value: Any) -> str | None:
    return value if isinstance(value, str) and value in PROFILE_NAMES else None


def _board(value: Any) -> str | None:
    return value if isinstance(value, str) and NAME.fullmatch(value) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _network(table: Table, home: Path) -> str:
    """The network's name or path; empty where it is none."""
    text = table.matching("network", _TEXT, "a network's name, or a path")
    if not text or text in network_names():
        return text
    if is_model(text) or Path(text).suffix.lower() == TABLE_SUFFIX:
        path = home / text
        if not path.is_file():
            table.fault("network", f"no such file: {path}")
        return str(path)
    near = difflib.get_close_matches(text, network_names(), n=1)
    meant = f", did you mean `{near[0]}`?" if near else ""
    known = "a name that `int8tune networks` lists, a model (.tflite, .onnx) or a layer table (.json)"
    table.fault("network", f"must be {known}: {shown(text)}{meant}")
    return ""


def _label(table: Table, network: str, batch: int) -> str:
    """What the network is called: as the file says, or after its own name; empty where that is no name."""
    if "name" in table:
        return table.matching("name", NAME, "1 to 64 letters, digits, `.`, `_` and `-`")
    path = Path(network)
    is_file = is_model(path) or path.suffix.lower() == TABLE_SUFFIX
    own = (path.stem if is_file else network) + (f"-batch{batch}" if batch > 1 else "")
    if network and not NAME.fullmatch(own):
        table.fault("name", f"missing, and campaigns can't be called after the network: {shown(own)}")
        return ""
    return own


def _given(table: Table, network: str, home: Path) -> tuple[BindLike, ShapeLike]:
    """Values and shapes of a model's inputs, checked."""
    for name in ("bind", "shape", "until"):
        if name in table and network and not is_model(network):
            table.fault(name, "is of models alone")
    bind = {name: home / each if isinstance(each, str) else each for name, each in _fields(table, "bind").items()}
    shape = _fields(table, "shape")
    for name, values in (("bind", (bind, None)), ("shape", (None, shape))):
        try:
            all_given(*values)
        except (GivenError, SamplesError) as error:
            table.fault(name, str(error))
        except (TypeError, ValueError, OverflowError):
            form = "numbers, lists of them, or names of .npy files" if name == "bind" else "lists of whole numbers"
            table.fault(name, f"must be {form}, by the names of inputs")
    return bind, shape


def _fields(table: Table, name: str) -> dict[str, Any]:
    table.table(name)  # notes a fault of what is none
    value = table.value(name)
    return value if isinstance(value, dict) else {}
