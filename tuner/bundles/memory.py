"""What a results folder remembers of a campaign's bundles: what each of them asked, and what is known of the device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from int8tune.results.atomic import sync_folder, write_own
from int8tune.results.bounded_json import read_json
from int8tune.results.own_files import make_own_folder, require_own_folder
from int8tune.results.record import Candidate
from int8tune.results.typed_json import from_json
from int8tune.rpc.bundle.manifest import LONGEST_BYTES, Manifest, id_of, manifest_from_json
from int8tune.rpc.errors import BundleError, ProtocolError
from int8tune.rpc.protocol import capabilities_from_json, capabilities_to_json
from int8tune.rpc.request import Capabilities
from int8tune.tuner.errors import CampaignError
from int8tune.tuner.folders import bundles_path, make_folder

_DEVICE = "device.json"
_MANIFEST = ".manifest.json"


@dataclass(frozen=True, slots=True)
class AskedTrial:
    """A candidate that was built, and its place in the campaign.

    Attributes:
        advised: as `tuner.builder.job.Built` has it.
    """

    sequence: int
    candidate: Candidate
    build_s: float
    binary: str
    advised: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskedDuels:
    """A task's default and its contenders, in turn."""

    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class AskedPeak:
    """The device's own peak loop, of which a call does so many operations."""

    work: int


Asked = AskedTrial | AskedDuels | AskedPeak


@dataclass(frozen=True, slots=True)
class Remembered:
    """A bundle that was made here.

    Attributes:
        number: of the campaign's bundles, from 1.
        command: what made it.
        environment: what records of its results say beside what the device says of itself.
        asked: by the ids of its items.
    """

    number: int
    command: str
    environment: Mapping[str, str]
    asked: Mapping[str, Asked]


@dataclass(frozen=True, slots=True)
class Known:
    """What came home of the device.

    Attributes:
        device: None before anything did.
        no_duels: defaults and contenders whose duels failed there: they would fail again.
    """

    device: Capabilities | None = None
    no_duels: frozenset[tuple[str, str]] = frozenset()


class BundleMemory:
    """The files of one campaign. Those of a bundle are named by it."""

    def __init__(self, results: Path, campaign: str) -> None:
        """Raises: NotOwnFileError: a link is in the place of their folder."""
        self.folder = bundles_path(results, campaign)
        require_own_folder(self.folder)

    def known(self) -> Known:
        """Raises: CampaignError: the file is damaged."""
        path = self.folder / _DEVICE
        if not path.exists():
            return Known()
        value = _read(path)
        try:
            device = capabilities_from_json(value["device"])
            pairs = from_json(tuple[tuple[str, ...], ...], value["no_duels"])
            return Known(device, frozenset((default, rival) for default, rival in pairs))
        except (LookupError, TypeError, ValueError, ProtocolError) as error:
            raise _damaged(path) from error

    def learn(self, known: Known) -> None:
        """Raises: ExportError, NotOwnFileError: it can't be written."""
        assert known.device is not None
        value = {"device": capabilities_to_json(known.device), "no_duels": sorted(known.no_duels)}
        self._write(_DEVICE, json.dumps(value, indent=1) + "\n")

    def next_number(self) -> int:
        """Raises: OSError: the folder can't be read."""
        return 1 + len(list(self.folder.glob(f"*{_MANIFEST}")))

    def remember(self, bundle: str, manifest: bytes, remembered: Remembered) -> None:
        """Raises: ExportError, NotOwnFileError: it can't be written."""
        values = asdict(remembered)
        values["asked"] = {
            item: {"kind": type(asked).__name__, **asdict(asked)} for item, asked in remembered.asked.items()
        }
        self._write(f"{bundle}.json", json.dumps(values) + "\n")
        # The last one: only with its manifest, a bundle is known.
        self._write(f"{bundle}{_MANIFEST}", manifest.decode())

    def has(self, bundle: str) -> bool:
        return (self.folder / f"{bundle}{_MANIFEST}").is_file()

    def recall(self, bundle: str) -> tuple[Remembered, Manifest]:
        """Raises: CampaignError: it is not there, or damaged."""
        path = self.folder / f"{bundle}.json"
        value = _read(path)
        try:
            with (self.folder / f"{bundle}{_MANIFEST}").open("rb") as file:
                content = file.read(LONGEST_BYTES + 1)
            if id_of(content) != bundle:
                raise _damaged(path)
            asked = {item: _asked(of) for item, of in value["asked"].items()}
            manifest = manifest_from_json(content)
            if not _fits(asked, manifest):
                raise _damaged(path)
            environment = from_json(dict[str, str], value["environment"])
            number, command = from_json(int, value["number"]), from_json(str, value["command"])
            return Remembered(number, command, environment, asked), manifest
        except (OSError, LookupError, TypeError, ValueError, AttributeError, BundleError) as error:
            raise _damaged(path) from error

    def _write(self, name: str, text: str) -> None:
        results = make_folder(self.folder.parent)
        make_own_folder(self.folder)
        sync_folder(results)
        write_own(self.folder / name, text)


def memory_of(results: Path, bundle: str) -> tuple[str, BundleMemory] | None:
    """The campaign that made a bundle, with its memory; None where none did."""
    for path in sorted(results.glob(f"*.bundles/{bundle}{_MANIFEST}")):
        campaign = path.parent.name.removesuffix(".bundles")
        return campaign, BundleMemory(results, campaign)
    return None


def _fits(asked: Mapping[str, Asked], manifest: Manifest) -> bool:
    """Whether each of the bundle's items is known, with a candidate for each of its programs."""
    if asked.keys() != {item.id for item in manifest.items}:
        return False
    duels = [(asked[item.id], len(item.request.programs)) for item in manifest.items]
    return all(1 < len(each.candidates) == count for each, count in duels if isinstance(each, AskedDuels))


def _asked(value: Mapping[str, Any]) -> Asked:
    fields = dict(value)
    kind = fields.pop("kind")
    if kind == AskedTrial.__name__:
        return from_json(AskedTrial, fields)
    return from_json(AskedDuels, fields) if kind == AskedDuels.__name__ else from_json(AskedPeak, fields)


def _read(path: Path) -> Any:
    try:
        return read_json(path, most_bytes=LONGEST_BYTES)
    except (OSError, ValueError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> CampaignError:
    return CampaignError(f"what was known of the campaign's bundles can't be read: {path}")
