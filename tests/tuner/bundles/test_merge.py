"""Results that come home: nothing is believed that the bundle did not ask, and nothing counts twice."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from int8tune.results.record import Campaign, Candidate, DeviceCheck, Duel, Outcome, Trial
from int8tune.results.store import SqliteStore
from int8tune.rpc.bundle.archive import Bundle
from int8tune.rpc.bundle.manifest import MANIFEST
from int8tune.rpc.protocol import capabilities_to_json, reply_to_json
from int8tune.rpc.request import Capabilities, Reply
from int8tune.rpc.transports.fake import FAKE_CAPABILITIES
from int8tune.tuner.bundles.memory import Asked, AskedDuels, AskedPeak, AskedTrial, BundleMemory, Remembered
from int8tune.tuner.bundles.merge import Merged, merge
from int8tune.tuner.errors import CampaignDiffersError, CampaignError, ForeignResultsError
from tests.support.farm.bundles import pack
from tests.support.kernels.rpc_kernels import Kernels, build_kernels
from tests.support.program.cli_program import int8tune
from tests.support.program.results_samples import campaign, candidate

pytestmark = pytest.mark.promise(19)

Change = Callable[[dict[str, Any]], None]
CANDIDATES = [candidate(tile, target="any") for tile in (1, 2, 3)]
ITEMS: dict[str, list[str]] = {
    "peak-0": ["good"],
    "peak-1": ["good"],
    CANDIDATES[0].id: ["good"],
    CANDIDATES[1].id: ["good"],
    CANDIDATES[2].id: ["good"],
    "duels-0": ["good", "good", "good"],
}
NODE = replace(
    FAKE_CAPABILITIES,
    features=frozenset({"carry9"}),
    environment={"cpu": "Abacus 1", "timing": "measured", "board": "node"},
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("bundle")
    kernels: Kernels = build_kernels(folder)
    return pack(folder / "b.pyz", kernels, ITEMS, campaign="c1", needs=("carry9",))


@dataclass
class Home:
    """A results folder in which a bundle was made, and the file that came from it."""

    bundle: Bundle
    results: Path
    file: Path

    def write(self, *lines: dict[str, Any] | bytes) -> None:
        self.file.write_bytes(b"".join(line if isinstance(line, bytes) else written(line) for line in lines))

    def merge(self) -> Merged:
        return merge(self.results, self.file)

    def stored(self, kind: type[Any]) -> list[Any]:
        with SqliteStore(self.results / "records.db", readonly=True) as store:
            return list(store.query(kind))

    def began(self, device: Capabilities = NODE) -> dict[str, Any]:
        return {"bundle": self.bundle.id, "campaign": "c1", "device": capabilities_to_json(device)}

    def result(self, item: str, reply: Reply | None = None, time_s: float = 1e-3) -> dict[str, Any]:
        count = len(ITEMS.get(item, [""]))
        right = Reply(Outcome.OK, ((time_s, 1.01 * time_s),) * count, (3,) * count, {"timings": 1.0}, run_s=0.1)
        value = json.loads(json.dumps(reply_to_json(reply or right)))
        return {"bundle": self.bundle.id, "item": item, "reply": value}

    def all(self) -> list[dict[str, Any]]:
        return [self.began(), *(self.result(item, time_s=1e-3 + 1e-4 * place) for place, item in enumerate(ITEMS))]


def written(value: dict[str, Any]) -> bytes:
    text = json.dumps(value).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.fixture
def home(bundle: Bundle, tmp_path: Path) -> Home:
    results = tmp_path / "results"
    results.mkdir()
    with SqliteStore(results / "records.db") as store:
        store.append([replace(campaign(), device="node", target="any")])
    asked: dict[str, Asked] = {"peak-0": AskedPeak(10**6), "peak-1": AskedPeak(10**6)}
    asked |= {c.id: AskedTrial(place, c, 0.5, f"{place:064x}") for place, c in enumerate(CANDIDATES)}
    asked["duels-0"] = AskedDuels(tuple(CANDIDATES))
    with zipfile.ZipFile(bundle.path) as archive:
        manifest = archive.read(MANIFEST)
    BundleMemory(results, "c1").remember(
        bundle.id, manifest, Remembered(1, "int8tune bundle make x", {"cache": "warm"}, asked)
    )
    return Home(bundle, results, tmp_path / "b.results")


def test_all_of_it_is_recorded_and_only_once(home: Home) -> None:
    home.write(*home.all())
    merged = home.merge()
    assert (merged.taken, merged.known, merged.faults, merged.number) == (6, 0, (), 1)
    trials = home.stored(Trial)
    assert [trial.candidate for trial in trials] == CANDIDATES
    assert {(trial.device, trial.build_s, trial.run_s) for trial in trials} == {("node", 0.5, 0.1)}
    assert trials[0].environment == {"cpu": "Abacus 1", "timing": "measured", "board": "node", "cache": "warm"}
    assert [(duel.a, duel.b) for duel in home.stored(Duel)] == [
        (CANDIDATES[0].id, CANDIDATES[1].id),
        (CANDIDATES[0].id, CANDIDATES[2].id),
    ]
    (check,) = home.stored(DeviceCheck)
    assert check.peak_ops_per_s == pytest.approx(1e9 / 1.005)
    before = (home.results / "records.db").read_bytes()
    again = home.merge()
    assert (again.taken, again.known) == (0, 6)
    assert home.stored(Trial) == trials
    assert len(home.stored(Duel)) == 2
    assert len(home.stored(DeviceCheck)) == 1
    assert (home.results / "records.db").read_bytes() == before


def test_a_part_may_come_first(home: Home) -> None:
    everything = home.all()
    home.write(*everything[:4])
    assert home.merge().taken == 3
    home.write(*everything)
    merged = home.merge()
    assert (merged.taken, merged.known) == (3, 3)
    assert [trial.sequence for trial in home.stored(Trial)] == [0, 1, 2]


def test_a_failure_is_recorded_as_one(home: Home) -> None:
    crash = Reply(Outcome.RUN_FAILED, error_class="Crash", error="killed", run_s=1.0)
    home.write(home.began(), home.result(CANDIDATES[0].id, crash), home.result("duels-0", crash))
    assert home.merge().taken == 2
    (trial,) = home.stored(Trial)
    assert (trial.outcome, trial.error_class, trial.measurement) == (Outcome.RUN_FAILED, "Crash", None)
    assert home.stored(Duel) == []
    pairs = {(CANDIDATES[0].id, CANDIDATES[1].id), (CANDIDATES[0].id, CANDIDATES[2].id)}
    assert BundleMemory(home.results, "c1").known().no_duels == pairs


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda line: line["reply"].update(times_s=[[-1e-3, 1e-3]]), "field `times_s[0][0]` must be a positive number"),
        (lambda line: line["reply"].update(times_s=[[0.0, 1e-3]]), "field `times_s[0][0]` must be a positive number"),
        (lambda line: line["reply"].update(times_s=[[float("nan"), 1e-3]]), "NaN is no number"),
        (lambda line: line["reply"].update(times_s=[[float("inf"), 1e-3]]), "Infinity is no number"),
        (lambda line: line["reply"].update(times_s=[["1", 1e-3]]), "field `times_s[0][0]` must be a positive number"),
        (lambda line: line["reply"].update(times_s=[[1e-3]]), "field `times_s[0]` must have 2 items: 1"),
        (lambda line: line["reply"].update(times_s=[]), "field `times_s` must have 1 items: 0"),
        (lambda line: line["reply"].update(calls_per_repeat=[0]), "field `calls_per_repeat[0]` must be an integer"),
        (lambda line: line["reply"].update(outcome="best"), "field `outcome` must be one of"),
        (lambda line: line["reply"].update(outcome="device_lost", times_s=[], calls_per_repeat=[]), "a lost device"),
        (lambda line: line["reply"].update(error="\033[31m"), "field `error` must be printable text"),
        (lambda line: line["reply"].update(more=1), "unknown field: `more`"),
        (lambda line: line.update(reply=None), "field `message` must be an object"),
        (lambda line: line.update(item="ab" * 10), "nothing of the bundle: abab"),
        (lambda line: line.update(item=CANDIDATES[0].id), "a second result"),
        (lambda line: line.update(item=7), "field `item` must be text"),
        (lambda line: line.update(bundle="0" * 64), "of another bundle: 0000000000000000"),
        (lambda line: line.update(bundle="../up"), "no bundle's name"),
        (lambda line: line.update(sequence=0), "unknown field: `sequence`"),
    ],
)
def test_what_the_bundle_did_not_ask_is_left_out(home: Home, change: Change, why: str) -> None:
    lines = home.all()
    change(lines[4])
    home.write(*lines)
    merged = home.merge()
    assert merged.taken == 5
    (fault,) = merged.faults
    assert fault.startswith(f"{home.file}:5: ")
    assert why in fault
    assert "\n" not in fault
    assert [trial.candidate for trial in home.stored(Trial)] == [CANDIDATES[0], CANDIDATES[2]]


@pytest.mark.parametrize("place", [0, 4, 7, 8, 9, 20, -2])
def test_damaged_lines_are_left_out(home: Home, place: int) -> None:
    lines = [written(line) for line in home.all()]
    damaged = bytearray(lines[4])
    damaged[place] ^= 0x04
    home.write(*lines[:4], bytes(damaged), *lines[5:])
    merged = home.merge()
    assert merged.taken == 5
    assert [fault.partition(": ")[0] for fault in merged.faults] == [f"{home.file}:5"]


def test_noise_between_lines_is_left_out(home: Home) -> None:
    lines = [written(line) for line in home.all()]
    noise = [b"\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"x" * (3 << 20) + b"\n", written({}), lines[2][:-9]]
    home.write(*lines[:3], *noise, b"\n", *lines[3:])
    merged = home.merge()
    assert merged.taken == 6
    assert len(merged.faults) == len(noise)


def test_results_say_where_they_come_from(home: Home) -> None:
    home.write(home.result(CANDIDATES[0].id), home.began(), home.result(CANDIDATES[1].id))
    merged = home.merge()
    assert merged.faults == (f"{home.file}:1: no line before it says where it was measured",)
    assert [trial.candidate for trial in home.stored(Trial)] == [CANDIDATES[1]]


def test_results_of_another_campaign_are_refused(home: Home, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    home.write(*home.all())
    with pytest.raises(ForeignResultsError) as caught:
        merge(other, home.file)
    this = f"bundle {home.bundle.id[:16]} of campaign `c1`"
    assert str(caught.value) == f"these are results of {this}, which was not made here: {home.file}"
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\n\n", b"PNG" * 100])
def test_what_has_no_results_is_refused(home: Home, content: bytes) -> None:
    home.file.write_bytes(content)
    with pytest.raises(ForeignResultsError, match="no line of it can be read"):
        home.merge()


def test_results_of_another_device_are_refused(home: Home) -> None:
    home.write(*home.all()[:3])
    home.merge()
    for device, message in (
        (replace(NODE, environment={**NODE.environment, "cpu": "Abacus 2"}), "measured on Abacus 1, this device is: "),
        (replace(NODE, environment={**NODE.environment, "timing": "none"}), "no measurements, but an emulator's"),
        (replace(NODE, features=frozenset({"sse9"})), "a CPU that can't run `any`, it lacks: carry9"),
    ):
        home.write(home.began(device), *home.all()[1:])
        with pytest.raises(CampaignDiffersError, match=message):
            home.merge()
        assert home.stored(Trial) == []


def test_a_damaged_memory_says_so(home: Home) -> None:
    home.write(*home.all())
    for path in (home.results / "c1.bundles").iterdir():
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(CampaignError, match="what was known of the campaign's bundles can't be read"):
            home.merge()
        path.write_bytes(whole)
    (manifest,) = (home.results / "c1.bundles").glob("*.manifest.json")
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(CampaignError, match="what was known of the campaign's bundles can't be read"):
        home.merge()


def test_a_sequence_number_that_is_taken_is_left_to_its_trial(home: Home) -> None:
    taken = Candidate("w", "any", "t", 1, {})
    with SqliteStore(home.results / "records.db") as store:
        store.append([Trial("c1", 1, taken, Outcome.BUILD_FAILED, None, "node", {}, "2026-01-01T00:00:00+00:00")])
    home.write(*home.all())
    assert home.merge().taken == 6
    assert {trial.candidate.id for trial in home.stored(Trial)} == {taken.id, *(c.id for c in CANDIDATES)}


@pytest.mark.thorough
def test_the_program_names_what_it_did_not_take(home: Home) -> None:
    lines = [written(line) for line in home.all()]
    home.write(lines[0], *(bytes([line[0] ^ 1]) + line[1:] for line in lines[1:]), lines[3])
    ended = int8tune("bundle", "merge", home.file, "--results", home.results)
    assert ended.code == 0, ended.err
    said = ended.err.splitlines()
    assert said[0] == f"{home.file}: 1 of 6 results of bundle 1 are recorded now"
    assert said[1] == f"not taken: {home.file}:2: its checksum does not match"
    assert said[6] == "not taken: 1 more lines"
    assert said[-1] == "next      int8tune bundle make x"
    missing = int8tune("bundle", "merge", home.file, "--results", home.file.parent)
    assert missing.code == 1
    assert missing.err.splitlines()[1] == (
        "hint: say where the bundle was made: add --results DIR; see int8tune help bundles"
    )
    assert home.stored(Campaign)[0].name == "c1"
