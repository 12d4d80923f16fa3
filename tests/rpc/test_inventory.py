"""`farm.toml` is read strictly: all faults in one go, each with line, field, what was found and what is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from int8tune.rpc.errors import InventoryError, UnknownBoardError
from int8tune.rpc.inventory.boards import Board, Limits, TimingKind, TransportKind
from int8tune.rpc.inventory.file import read_inventory, replace_host_key

pytestmark = pytest.mark.promise(23)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
SSH = f"""
[[boards]]
name = "a53"
transport = "ssh"
address = "10.0.0.7"
user = "pi"
key_file = "key"
host_key = "{KEY}"
"""


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o600)
    return tmp_path / "farm.toml"


def faults_of(path: Path, text: str | bytes) -> list[str]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InventoryError) as raised:
        read_inventory(path, ("generic", "x86-avx2"))
    return str(raised.value).replace(f"{path}", "farm.toml").splitlines()


def test_every_field_is_read(farm: Path) -> None:
    farm.write_text(
        SSH
        + """
port = 2222
target = "generic"
folder = "boards/int8tune"
emulator = "qemu-aarch64-static -cpu 'cortex-a53'"
architecture = "aarch64"
tags = ["arm", "slow"]
cores = [2, 3]
threads = 2
timing = "none"
cooldown_s = 0.5
power_cycle = "relay --port 3 cycle"
canary_every = 20
canary_tolerance = 0.5
limits = { connect_s = 5, transfer_s = 20, run_s = 30.5, total_s = 90, memory = "256 MiB", disk = "1.5 GiB" }

[[boards]]
name = "here"
transport = "local"
"""
    )
    inventory = read_inventory(farm)
    assert inventory.source == farm
    assert inventory.board("a53") == Board(
        name="a53",
        transport=TransportKind.SSH,
        target="generic",
        address="10.0.0.7",
        port=2222,
        user="pi",
        key_file=farm.parent / "key",
        host_key=KEY,
        folder="boards/int8tune",
        emulator=("qemu-aarch64-static", "-cpu", "cortex-a53"),
        architecture="aarch64",
        tags=frozenset({"arm", "slow"}),
        cores=(2, 3),
        threads=2,
        timing=TimingKind.NONE,
        limits=Limits(5.0, 20.0, 30.5, 90.0, 256 << 20, 3 << 29),
        cooldown_s=0.5,
        power_cycle=("relay", "--port", "3", "cycle"),
        canary_every=20,
        canary_tolerance=0.5,
    )
    assert inventory.board("here") == Board(name="here", transport=TransportKind.LOCAL)
    with pytest.raises(UnknownBoardError, match=r"unknown board `nobody`.*known: a53, here"):
        inventory.board("nobody")


def test_all_faults_come_in_one_go_with_line_field_and_what_is_allowed(farm: Path) -> None:
    text = """[[boards]]
name = "a b"
transport = "shs"
tagz = "red"
theads = 2
port = 99999
[boards.limits]
run_s = "10min"
memroy = "1 GiB"

[[boards]]
name = "x86"
transport = "local"
target = "x86-avx3"
address = "h"
cores = [0, -1, 0]
"""
    assert faults_of(farm, text) == [
        "farm.toml:2: boards[0].name: must be 1 to 64 letters, digits, `.`, `_` and `-`: 'a b'",
        "farm.toml:3: boards[0].transport: must be one of local, ssh, tracker, mca, gpu, simulated: "
        "'shs', did you mean `ssh`?",
        "farm.toml:4: boards[0].tagz: unknown field, did you mean `tags`?",
        "farm.toml:5: boards[0].theads: unknown field, did you mean `threads`?",
        "farm.toml:6: boards[0].port: must be an integer from 1 to 65535: 99999",
        "farm.toml:8: boards[0].limits.run_s: must be a number from 0.1 to 86400: '10min'",
        "farm.toml:9: boards[0].limits.memroy: unknown field, did you mean `memory`?",
        "farm.toml:14: boards[1].target: must be one of generic, x86-avx2: 'x86-avx3', did you mean `x86-avx2`?",
        "farm.toml:15: boards[1].address: means nothing for transport `local`",
        "farm.toml:16: boards[1].cores: item 1 must be a core's number from 0 to 4095: -1",
        "farm.toml:16: boards[1].cores: item 2 is there twice: 0",
    ]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "farm.toml: is empty (0 bytes)"),
        (b" \n", "farm.toml: is empty (2 bytes)"),
        (b"a = 1\nb = \xff", "farm.toml:2: not UTF-8 text: byte 10 is 0xff"),
        (b"\x89PNG\r\n\x1a\n", "farm.toml:1: not UTF-8 text: byte 0 is 0x89"),
        (b"boards = [", "farm.toml:1: not TOML: Invalid value"),
        (b"a = 1\na = 2\n", "farm.toml:2:6: not TOML: Cannot overwrite a value"),
        (b"boards:\n\t- name: x\n", "farm.toml:1:7: not TOML: Expected '=' after a key in a key/value pair"),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "farm.toml: lists and tables are nested too deeply"),
        (b"a = " + b"9" * 5000, "farm.toml: a number has too many digits"),
        (b"#" * ((1 << 20) + 1), f"farm.toml: must have at most {1 << 20} bytes: {(1 << 20) + 1}"),
        (b"x = 1", "farm.toml:1: x: unknown field, known: boards"),
        (b"boards = 3", "farm.toml:1: boards: must be 1 to 10000 tables, each begun by `[[boards]]`"),
        (b"[boards]\nname = 'x'", "farm.toml:1: boards: must be 1 to 10000 tables, each begun by `[[boards]]`"),
        (b"boards = [1]", "farm.toml:1: boards: must be 1 to 10000 tables, each begun by `[[boards]]`"),
    ],
    ids=str,
)
def test_files_that_are_no_inventory(farm: Path, content: bytes, fault: str) -> None:
    assert any(found.startswith(fault) for found in faults_of(farm, content))


def test_a_file_that_can_t_be_read(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "none.toml", "can't be read: no such file"), (tmp_path, "not a file")):
        with pytest.raises(InventoryError, match=what):
            read_inventory(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InventoryError, match="not a file"):
        read_inventory(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('name = ""', "name: must be 1 to 64 letters"),
        ('name = "../x"', "name: must be 1 to 64 letters"),
        (f'name = "{"x" * 65}"', "name: must be 1 to 64 letters"),
        ('address = "-oProxyCommand=x"', "address: must be a host's name or address"),
        ('address = "h;x"', "address: must be a host's name or address"),
        ('user = "-l"', "user: must be a user's name"),
        ('folder = "../up"', "folder: must be a path without `..` and blanks"),
        ("port = 0", "port: must be an integer from 1 to 65535: 0"),
        ("gpu = 64", "gpu: must be an integer from 0 to 63: 64"),
        ("port = true", "port: must be an integer from 1 to 65535: true"),
        ('cores = "0-3"', "cores: must be a list of at most 1024 items, each a core's number from 0 to 4095: '0-3'"),
        ("cores = [0]\nthreads = 2", "threads: must be at most the 1 of `cores`: 2"),
        ('tags = ["a b"]', "tags: item 0 must be 1 to 64 letters"),
        ('timing = "measured"\nemulator = "qemu"\narchitecture = "aarch64"', "timing: must be `none`"),
        ('emulator = "qemu"', "architecture: missing: an emulator does not say what it emulates"),
        ('emulator = "qemu \'x"', "emulator: must be a command on one line, its quotes closed"),
        ('architecture = "arm64"', "architecture: must be one of aarch64, x86_64: 'arm64'"),
        ("cooldown_s = nan", "cooldown_s: must be a number from 0 to 3600: nan"),
        ("cooldown_s = 1e99", "cooldown_s: must be a number from 0 to 3600: 1e+99"),
        ("cooldown_s = -1", "cooldown_s: must be a number from 0 to 3600: -1"),
        ("canary_every = 0", "canary_every: must be an integer from 1 to 1000000: 0"),
        ("canary_tolerance = 0", "canary_tolerance: must be a number from 0.01 to 100: 0"),
        ("limits = 3", "limits: must be a table: 3"),
        ("limits = { run_s = 0 }", "limits.run_s: must be a number from 0.1 to 86400: 0"),
        ("limits = { run_s = 100, total_s = 50 }", "limits.total_s: must be at least `run_s`, 100: 50"),
        ('limits = { memory = "4.0 PiB" }', "limits.memory: must be a size from 16 MiB to 4 TiB"),
        ('limits = { memory = "1 KiB" }', "limits.memory: must be a size from 16 MiB to 4 TiB"),
        ("limits = { memory = 1000 }", "limits.memory: must be a size from 16 MiB to 4 TiB"),
        ('tracker_key = "k"', "tracker_key: means nothing for transport `ssh`"),
        ('host_key = "ssh-ed25519 AAAA"', "host_key: not a public key, its base64 is damaged"),
        ('host_key = "ssh-ed25519 !!"', "host_key: not a public key, its base64 is damaged"),
        ('host_key = "nowhere"', "host_key: neither a public key"),
        ('key_file = "nowhere"', "key_file: can't be read: no such file or directory"),
        ('key_file = "."', "key_file: not a private key"),
        ('"x\\u001b[31m" = 1', "unknown field"),
    ],
    ids=str,
)
def test_values_out_of_their_range(farm: Path, line: str, fault: str) -> None:
    field = line.split(" =")[0]
    text = "\n".join([other for other in SSH.splitlines() if not other.startswith(f"{field} =")] + [line])
    found = faults_of(farm, text)
    assert fault in "\n".join(found)
    assert len(found) == 1
    assert "\x1b" not in found[0]


@pytest.mark.parametrize("missing", ["name", "transport", "address", "user", "key_file", "host_key"])
def test_missing_fields(farm: Path, missing: str) -> None:
    text = "\n".join(line for line in SSH.splitlines() if not line.startswith(f"{missing} ="))
    assert f"farm.toml:2: boards[0].{missing}: missing" in faults_of(farm, text)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("tracker", "address, port, tracker_key, architecture"), ("mca", "target, cpu, emulator, architecture")],
)
def test_what_other_transports_need(farm: Path, kind: str, fields: str) -> None:
    found = faults_of(farm, f'[[boards]]\nname = "x"\ntransport = "{kind}"\n')
    assert found == [f"farm.toml:1: boards[0].{name}: missing" for name in fields.split(", ")]


def test_gpus(farm: Path) -> None:
    """A GPU belongs to this machine or to a board, may stand beside CPUs, and is never shared by two boards."""
    farm.write_text(
        f'{SSH}gpu = 2\n[[boards]]\nname = "near"\ntransport = "gpu"\n[[boards]]\nname = "cpu"\ntransport = "local"\n'
    )
    inventory = read_inventory(farm)
    assert [inventory.board(name).gpu for name in ("a53", "near", "cpu")] == [2, 0, None]
    again = '[[boards]]\nname = "x"\ntransport = "gpu"\n'
    found = faults_of(farm, again + again.replace('"x"', '"y"'))
    assert found == ["farm.toml:4: boards[1].gpu: is that of `x` at localhost, too: 0"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_key_that_others_can_read_is_refused(farm: Path, mode: int) -> None:
    (farm.parent / "key").chmod(mode)
    (fault,) = faults_of(farm, SSH)
    assert f"farm.toml:7: boards[0].key_file: others may read it, mode {mode:04o}, must be 0600: chmod 600" in fault
    assert "secret" not in fault


def test_boards_are_apart(farm: Path) -> None:
    again = SSH.replace('"10.0.0.7"', '"10.0.0.8"')
    assert faults_of(farm, SSH + again) == [
        "farm.toml:11: boards[1].name: there is a board of this name already: a53",
    ]
    other = SSH.replace('"a53"', '"b53"')
    assert faults_of(farm, SSH + "cores = [0, 1]\n" + other + "cores = [1, 2]\n") == [
        "farm.toml:18: boards[1].cores: shares cores with `a53` at 10.0.0.7, its cores: 1, 2, of `a53`: 0, 1",
    ]
    farm.write_text(SSH + "cores = [0, 1]\n" + other + "cores = [2, 3]\n")
    assert len(read_inventory(farm).boards) == 2


def test_host_keys_come_from_a_file_too(farm: Path) -> None:
    (farm.parent / "known_hosts").write_text(f"10.0.0.7 {KEY}\n")
    farm.write_text(SSH.replace(KEY, "known_hosts"))
    assert read_inventory(farm).board("a53").host_key == str(farm.parent / "known_hosts")


def test_a_host_key_is_replaced_for_one_board_of_several_behind_it(farm: Path) -> None:
    other = KEY.replace("AAAAIO", "AAAAIP")
    again = SSH.replace("a53", "a72").replace("10.0.0.7", "10.0.0.8")
    farm.write_text(f"# of 10.0.0.7: {KEY}{SSH}{again}# the last one\n")
    inventory = read_inventory(farm)
    replace_host_key(inventory, inventory.board("a72"), other)
    assert farm.read_text() == f"# of 10.0.0.7: {KEY}{SSH}{again.replace(KEY, other)}# the last one\n"


def test_a_host_key_that_stands_elsewhere_is_replaced_by_hand(farm: Path) -> None:
    known_hosts = farm.with_name("known")
    known_hosts.write_text(f"10.0.0.7 {KEY}\n")
    table = SSH.partition("[[boards]]")[2].strip().replace("\n", ", ")
    for text, where in (
        (SSH.replace(KEY, str(known_hosts)), known_hosts),
        (f"boards = [{{ {table} }}, {{ {table.replace('a53', 'a72').replace('0.7', '0.8')} }}]\n", farm),
    ):
        farm.write_text(text)
        inventory = read_inventory(farm)
        with pytest.raises(InventoryError, match=f"`a53` is not replaced, do it by hand in {where}: ssh-ed25519 NEW"):
            replace_host_key(inventory, inventory.board("a53"), "ssh-ed25519 NEW")
        assert farm.read_text() == text


def test_estimates_are_no_measurements(farm: Path) -> None:
    text = '[[boards]]\nname = "model"\ntransport = "mca"\ntarget = "generic"\ncpu = "cortex-a53"\n'
    text += 'emulator = "qemu-aarch64-static -cpu cortex-a53"\narchitecture = "aarch64"\n'
    farm.write_text(text)
    assert read_inventory(farm).board("model").timing is TimingKind.NONE
    (fault,) = faults_of(farm, text + 'timing = "measured"\n')
    assert "timing: must be `none`, estimates are no measurements" in fault


def test_a_simulated_board_says_how_it_behaves(farm: Path) -> None:
    text = '[[boards]]\nname = "s"\ntransport = "simulated"\ntarget = "generic"\n[boards.simulation]\nnoise = 0.02\n'
    farm.write_text(text)
    assert read_inventory(farm).board("s").simulation == {"noise": 0.02}
    assert faults_of(farm, text.replace("0.02", '"much"')) == [
        "farm.toml:6: boards[0].simulation.noise: must be a number from 0 to 1e+09: 'much'"
    ]
