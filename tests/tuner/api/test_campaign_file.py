"""Files of campaigns are read strictly, and whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from int8tune.results.record import CacheMode
from int8tune.tuner.api.campaign_file import FileEntry, read_campaign_file
from int8tune.tuner.errors import CampaignFileError
from tests.support.program.cli_program import write_table

NETWORK = '[[networks]]\nnetwork = "resnet50"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "CAMPAIGN.toml"


def read(file: Path, text: str) -> tuple[FileEntry, ...]:
    file.write_text(text, encoding="utf-8")
    return read_campaign_file(file)


def faults(file: Path, text: str) -> list[str]:
    with pytest.raises(CampaignFileError) as raised:
        read(file, text)
    return [line.removeprefix(f"{file}:") for line in str(raised.value).splitlines()]


def test_what_is_left_out_is_as_for_tune(file: Path) -> None:
    (entry,) = read(file, NETWORK)
    said = entry.settings
    assert (entry.name, entry.network, entry.target) == ("resnet50", "resnet50", None)
    assert (said.trials, said.seed, said.strategy, said.threads, said.batch) == (32, 0, "xgboost", 1, 1)
    assert (said.time_limit_s, said.cache, said.min_gain, said.devices) == (None, None, 0.005, ())
    assert (said.results, said.inventory) == (file.parent / "int8tune-results", file.parent / "farm.toml")


def test_a_network_overrides_what_stands_above(file: Path) -> None:
    top = (
        'targets = ["generic", "x86-amx"]\ntrials = 8\ntime = "1.5h"\ncache = "cold"\ndevices = ["pi"]\nresults = "r"\n'
    )
    own = '[[networks]]\nnetwork = "resnet18"\ntargets = []\ntrials = 9\ndevices = []\nthreads = 2\nbatch = 4\n'
    first, second, third = read(file, f"{top}{NETWORK}{own}")
    assert [entry.name for entry in (first, second, third)] == [
        "resnet50-generic",
        "resnet50-x86-amx",
        "resnet18-batch4",
    ]
    assert (first.settings.trials, first.settings.devices, second.target) == (8, ("pi",), "x86-amx")
    assert (third.settings.trials, third.settings.devices, third.settings.threads, third.target) == (9, (), 2, None)
    assert third.settings.time_limit_s == 5400
    assert third.settings.cache is CacheMode.COLD
    assert third.settings.results == file.parent / "r"


def test_paths_are_relative_to_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(file.parent / "small.json")
    (file.parent / "m.onnx").write_bytes(b"")
    np.save(file.parent / "mask.npy", np.ones(3))
    monkeypatch.chdir("/")
    tables = '[[networks]]\nnetwork = "small.json"\n[[networks]]\nnetwork = "m.onnx"\n'
    given = 'bind = { mask = "mask.npy", scale = 0.5 }\nshape = { x = [[1, 3], [1, 5]] }\n'
    table, model = read(file, tables + given)
    assert (table.network, table.name) == (str(file.parent / "small.json"), "small")
    assert dict(model.bind) == {"mask": file.parent / "mask.npy", "scale": 0.5}
    assert model.shape == {"x": [[1, 3], [1, 5]]}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("trials = 0\n", "1: trials: must be an integer from 1 to 1000000: 0"),
        ("trials = true\n", "1: trials: must be an integer from 1 to 1000000: true"),
        ("seed = -1\n", "1: seed: must be an integer from 0 to 4294967295: -1"),
        ("sead = 1\n", "1: sead: unknown field, did you mean `seed`?"),
        ("min_gain = nan\n", "1: min_gain: must be a share from 0 to below 1: nan"),
        ("min_gain = 1\n", "1: min_gain: must be a share from 0 to below 1: 1"),
        ("time = 90\n", '1: time: must be a duration from "1s" to "720h", such as "30m": 90'),
        ('time = "721h"\n', '1: time: must be a duration from "1s" to "720h", such as "30m": \'721h\''),
        ('cache = "hot"\n', "1: cache: must be one of warm, cold, network: 'hot'"),
        ('strategy = "xgbost"\n', "did you mean `xgboost`?"),
        ('targets = "generic"\n', "1: targets: must be a list of at most 32 items"),
        ('targets = ["x86"]\n', "1: targets: item 0 must be one of x86-amx, "),
        ('devices = ["../pi"]\n', "1: devices: item 0 must be a board's name"),
        ('results = "a\\u0000b"\n', "1: results: must be a path"),
        ('results = ["r"]\n', "1: results: must be a path"),
        ('results = "postgresql://me:secret@host/db"\n', "1: results: must be a path in this file, records at a URL"),
        ('notify = "reboot"\n', "1: notify: unknown field"),
        ('devices = ["pi"]\nthreads = 2\n', "3: networks[0].threads: is for this machine, boards have their own"),
    ],
)
def test_a_fault_at_the_top(file: Path, text: str, fault: str) -> None:
    (said,) = faults(file, text + NETWORK)
    assert fault in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1: networks[0].network: missing"),
        ("network = 5\n", "2: networks[0].network: must be a network's name, or a path: 5"),
        ('network = "resnet5"\n', "did you mean `resnet50`?"),
        ('network = "none.json"\n', "2: networks[0].network: no such file: "),
        ('network = "resnet50"\nname = "a/b"\n', "3: networks[0].name: must be 1 to 64 letters, "),
        ('network = "resnet50"\nname = ".."\n', "3: networks[0].name: a campaign's name has 1 to 64 "),
        (f'network = "resnet50"\nname = "{"a" * 60}"\ntargets = ["generic"]\n', "networks[0].name: a campaign's name"),
        ('network = "resnet50"\nshape = { x = [1] }\n', "networks[0].shape: is of models alone"),
        ('network = "resnet50"\nuntil = ["boxes"]\n', "networks[0].until: is of models alone"),
        ('network = "m.onnx"\nuntil = [""]\n', "3: networks[0].until"),
        ('network = "m.onnx"\nshape = 3\n', "3: networks[0].shape: must be a table: 3"),
        (
            'network = "m.onnx"\nshape = { x = 3 }\n',
            "3: networks[0].shape: must be lists of whole numbers, by the names",
        ),
        ('network = "m.onnx"\nshape = { x = [0] }\n', "3: networks[0].shape: the shape of `x` must be "),
        ('network = "m.onnx"\nbind = { x = [[1], [1, 2]] }\n', "3: networks[0].bind: must be numbers, lists of them"),
        ('network = "m.onnx"\nbind = { x = 1979-05-27 }\n', "3: networks[0].bind: values of `x` must be numbers"),
        ('network = "m.onnx"\nbind = { x = "none.npy" }\n', "3: networks[0].bind: "),
        ('network = "no name.json"\n', "1: networks[0].name: missing, and campaigns can't be called after the network"),
        (f'network = "resnet18"\n{NETWORK}{NETWORK}', "5: networks[2].name: campaign `resnet50` is there twice"),
    ],
)
def test_a_fault_of_a_network(file: Path, text: str, fault: str) -> None:
    (file.parent / "m.onnx").write_bytes(b"")
    write_table(file.parent / "no name.json")
    (said,) = faults(file, f"[[networks]]\n{text}")
    assert fault in said


def test_all_faults_are_said_at_once_in_their_order(file: Path) -> None:
    said = faults(file, f"trials = 0\nsead = 1\n{NETWORK}batch = 0\n[[networks]]\n")
    assert [line.split(": ")[:2] for line in said] == [
        ["1", "trials"],
        ["2", "sead"],
        ["5", "networks[0].batch"],
        ["6", "networks[1].network"],
    ]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "is empty (0 bytes)"),
        (b"trials = 3\n# \xff\n", "2: not UTF-8 text: byte 13 is 0xff"),
        (b"trials = 3\ntrials = 4\n", "not TOML: "),
        (b"#" * (2 << 20), "must have at most 1048576 bytes: 2097152"),
        (b"x = " + b"[" * 100_000, "nested too deeply"),
        (b"seed = 1" + b"0" * 10_000, "a number has too many digits"),
        (b"trials = 3\n", "networks: must be 1 to 256 tables"),
        (b"networks = []\n", "networks: must be 1 to 256 tables"),
        (b"networks = [1]\n", "networks: must be 1 to 256 tables"),
        (b"[networks]\n", "networks: must be 1 to 256 tables"),
        (b"[[networks]]\n" * 257, "networks: must be 1 to 256 tables"),
    ],
)
def test_hostile_files_are_one_line(file: Path, data: bytes, fault: str) -> None:
    file.write_bytes(data)
    with pytest.raises(CampaignFileError) as raised:
        read_campaign_file(file)
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{file}:")
    assert fault in line


def test_what_is_no_file(tmp_path: Path) -> None:
    for path, fault in ((tmp_path, "not a file"), (tmp_path / "none.toml", "can't be read: no such file")):
        with pytest.raises(CampaignFileError, match=fault):
            read_campaign_file(path)
