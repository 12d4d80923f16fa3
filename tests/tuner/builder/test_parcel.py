"""Parcels: files that travel as bytes arrive as they were sent, or not at all."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import pytest

from int8tune.tuner.builder.parcel import pack, unpack
from int8tune.tuner.errors import ParcelError

CONTENTS = {"job/kernel.so": b"\x7fELF" + bytes(300), "suite/0.expected.3x4.npy": b"twelve", "job/0.1.npy": b""}


def places(root: Path) -> dict[str, Path]:
    return {"job": root / "a", "suite": root / "b"}


@pytest.fixture
def sent(tmp_path: Path) -> bytes:
    there = places(tmp_path / "there")
    for name, content in CONTENTS.items():
        place, _, file = name.partition("/")
        there[place].mkdir(parents=True, exist_ok=True)
        (there[place] / file).write_bytes(content)
    return pack({"built": 1}, there, CONTENTS, {})


def arrived(root: Path) -> dict[str, bytes]:
    found = {}
    for place, folder in places(root).items():
        found |= {f"{place}/{path.name}": path.read_bytes() for path in folder.glob("*")}
    return found


def test_files_arrive_as_they_were_sent(sent: bytes, tmp_path: Path) -> None:
    said, digests = unpack(sent, places(tmp_path), {})
    assert said == {"built": 1}
    assert arrived(tmp_path) == CONTENTS
    assert digests == {name: hashlib.sha256(content).hexdigest() for name, content in CONTENTS.items()}


def test_what_is_there_is_not_sent_again(sent: bytes, tmp_path: Path) -> None:
    known = unpack(sent, places(tmp_path), {})[1]
    again = pack(
        {}, places(tmp_path / "there"), CONTENTS, {"suite/0.expected.3x4.npy": known["suite/0.expected.3x4.npy"]}
    )
    assert b"twelve" not in again
    assert unpack(again, places(tmp_path), known)[1] == known
    assert arrived(tmp_path) == CONTENTS
    with pytest.raises(ParcelError, match=r"differently: suite/0\.expected"):
        unpack(again, places(tmp_path), {})


def test_a_shared_file_that_two_workers_made_differently_is_refused(sent: bytes, tmp_path: Path) -> None:
    with pytest.raises(ParcelError, match=r"differently: suite/0\.expected"):
        unpack(sent, places(tmp_path / "new"), {"suite/0.expected.3x4.npy": "0" * 64})
    assert arrived(tmp_path / "new") == {}


def test_no_changed_byte_arrives(sent: bytes, tmp_path: Path) -> None:
    (length,) = struct.unpack_from(">I", sent)
    for at in (4 + length, 4 + length + 150, len(sent) - 1):
        damaged = bytearray(sent)
        damaged[at] ^= 1
        with pytest.raises(ParcelError, match="its sha256 differs: "):
            unpack(bytes(damaged), places(tmp_path / "new"), {})
    for cut in (sent[:3], sent[: 4 + length // 2], sent[:-1]):
        with pytest.raises(ParcelError):
            unpack(cut, places(tmp_path / "new"), {})
    assert arrived(tmp_path / "new") == {}


@pytest.mark.parametrize("name", ["job/../x", "job//x", "/etc/x", "other/x", "job/.x", "job/a/b", "x", "job/x\n"])
def test_files_stay_in_their_folders(name: str, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"").hexdigest()
    header = json.dumps({"said": {}, "files": [{"name": name, "sha256": digest, "size_bytes": 0}]}).encode()
    with pytest.raises(ParcelError, match="a name that is not allowed"):
        unpack(struct.pack(">I", len(header)) + header, places(tmp_path), {})
    assert list(tmp_path.rglob("*")) == []
