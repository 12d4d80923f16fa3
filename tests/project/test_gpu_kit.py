"""The kit for a machine with a GPU: its pieces, packages and steps; all of it, rehearsed without a network, is slow."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from int8tune.compiler.network_file import load_network
from int8tune.compiler.toolchain import nvrtc
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import gpu_target
from int8tune.schedules.workload import parse_workload
from tests.gpu_kit import plan
from tests.gpu_kit.__main__ import Making, make_kit
from tests.gpu_kit.layers import candidates, groups, known_fastest, write_layers
from tests.gpu_kit.packages import require_fit, requirements
from tests.gpu_kit.pieces import MOST_BYTES, Archive, pieces_of_step, write_archive, write_pieces
from tests.gpu_kit.tiles import CHECKED, TARGET, TILES, TIMED, Tile, hopper_cubin, write_tiles
from tests.support.farm.boards import AT_ANY_SPEED
from tests.support.gpu import emulated as emulated_gpus
from tests.support.places import ROOT, TESTS

THERE = TESTS / "gpu_kit" / "there"
LIMIT_S = 100.0
needs_emulated = pytest.mark.usefixtures("emulated_gpu")
needs_compiler = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))

WRITES = "open('records/records.json', 'w').write('[1]')"


class Day:
    """Pieces of a small kit, and a machine that gets them one by one."""

    def __init__(self, folder: Path, commands: Sequence[dict[str, Any]], room: int = 1 << 20) -> None:
        self.folder = folder
        content, other = folder / "content", folder / "other"
        (content / "records").mkdir(parents=True)
        (content / "noise").write_bytes(os.urandom(300_000))
        other.mkdir()
        (other / "late").write_text("of steps 2 and on")
        (folder / "plan.json").write_text(json.dumps({"limits_s": {"0": 60, "1": 60, "2": 60}, "steps": {
            "0": [], "1": list(commands), "2": list(commands)}}))  # fmt: skip
        archives = []
        for path, steps in ((content, (1,)), (other, (2,))):
            write_archive(path, folder / f"{path.name}.tar.xz")
            archives.append(Archive(folder / f"{path.name}.tar.xz", steps))
        programs = [THERE / "day.py", THERE / "cuda_driver.py", folder / "plan.json"]
        self.pieces = write_pieces(archives, programs, folder / "kit", room)

    def table(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.pieces[0] / "kit.json").read_text())
        return found

    def send(self, piece: Path, step: int, **environment: str) -> subprocess.CompletedProcess[str]:
        """Carry a piece there, alone, and give the command of a step."""
        carried = self.folder / "carried"
        shutil.rmtree(carried, ignore_errors=True)
        shutil.copytree(piece, carried / piece.name)
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        line = plan.step_line(step, piece.name)
        own = {"OUT": str(self.folder / "out"), "INT8TUNE_DAY": str(self.folder / "kept"), **environment}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            line,
            shell=True,
            cwd=carried,
            env={**os.environ, "PATH": path, **own},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    @property
    def out(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.folder / "out").iterdir() if path.suffix != ".db"}


def command(name: str, code: str, limit_s: float = 30.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "limit_s": limit_s, "words": ["{python}", "-c", code], **more}


def room_for_two_parts() -> int:
    """The size of a piece such that the noise of a small kit fills a little more than one."""
    return sum((THERE / name).stat().st_size for name in ("day.py", "cuda_driver.py")) + (64 << 10) + 200_000


def test_what_is_sent_in_pieces_arrives_whole(tmp_path: Path) -> None:
    check = "import hashlib; print(hashlib.sha256(open('noise', 'rb').read()).hexdigest())"
    day = Day(tmp_path, [command("digest", check)], room_for_two_parts())
    assert len(day.pieces) == 2
    assert all(sum(path.stat().st_size for path in piece.iterdir()) <= room_for_two_parts() for piece in day.pieces)
    assert pieces_of_step(day.table(), 1) == [1, 2]
    early = day.send(day.pieces[1], 1)
    assert early.returncode == 2
    assert "error: step 1 needs pieces that are not here: 1; send each by" in early.stdout
    assert day.send(day.pieces[0], 0).returncode == 0
    # The pieces of earlier commands are gone, what was kept of them is not.
    done = day.send(day.pieces[1], 1)
    assert done.returncode == 0, done.stdout + done.stderr

    assert hashlib.sha256((tmp_path / "content" / "noise").read_bytes()).hexdigest() in done.stdout
    assert "content.tar.xz is unpacked, " in day.out["step-1.log"]


def test_a_damaged_part_is_refused(tmp_path: Path) -> None:
    day = Day(tmp_path, [])
    part = next(path for path in day.pieces[0].iterdir() if path.name.startswith("content"))
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    done = day.send(day.pieces[0], 1)
    assert done.returncode == 1
    assert "was damaged on its way: sha256" in done.stderr


def test_commands_need_no_other_and_keep_what_they_have(tmp_path: Path) -> None:
    """The first writes and fails, the second hangs, the third is not installed, the fourth finds all as it was."""
    day = Day(
        tmp_path,
        [
            command("writes and fails", f"{WRITES}; raise SystemExit(7)"),
            command("hangs", "import time; print('begun'); time.sleep(1000)", limit_s=5.0),
            command("absent", "print('never')", if_found="no-such-program"),
            command("last", "print(open('records/records.json').read())"),
        ],
    )
    done = day.send(day.pieces[0], 1)
    assert done.returncode == 1
    said = day.out["step-1.log"]
    assert "--- writes and fails: ended with 7" in said, done.stderr
    assert "begun\n" in said
    assert "--- hangs: cut off at its limit" in said
    assert "--- left out, no-such-program is not installed here: absent" in said
    assert "[1]\n--- last: ended with 0" in said
    assert "a context is held on" in said or "no context is held: no driver of NVIDIA's" in said
    assert "step 1: 2 of 4 commands failed" in said
    assert day.out["records.json"] == "[1]"


@pytest.mark.thorough
def test_archives_with_the_same_folders_are_unpacked_at_once(tmp_path: Path) -> None:
    archives = []
    for name in "ab":
        for number in range(150):
            (tmp_path / name / f"{number % 7}" / f"{number}").mkdir(parents=True)
            (tmp_path / name / f"{number % 7}" / f"{number}" / name).write_text(name)
        write_archive(tmp_path / name, tmp_path / f"{name}.tar.xz")
        archives.append(Archive(tmp_path / f"{name}.tar.xz", (0,)))
    (tmp_path / "plan.json").write_text(json.dumps({"limits_s": {"0": 60}, "steps": {"0": []}}))
    programs = [THERE / "day.py", tmp_path / "plan.json"]
    (piece,) = write_pieces(archives, programs, tmp_path / "kit", 1 << 20)
    for attempt in range(5):
        kept = tmp_path / f"kept-{attempt}"
        environment = {**os.environ, "INT8TUNE_DAY": str(kept), "OUT": str(tmp_path / "out")}
        subprocess.run([sys.executable, piece / "day.py", "0"], env=environment, check=True, timeout=60)
        assert len(list((kept / "all").rglob("[ab]"))) == 300


@pytest.mark.thorough
def test_a_step_ends_before_the_machine_ends_it(tmp_path: Path) -> None:
    day = Day(tmp_path, [command("hangs", "import time; time.sleep(1000)"), command("next", "print('never')")])
    begun = time.monotonic()
    done = day.send(day.pieces[0], 1, INT8TUNE_LIMIT_S="25")
    assert time.monotonic() - begun < 60
    assert done.returncode == 1
    assert "--- left out, there is no time: next" in done.stdout


def test_records_in_use_come_home_while_a_step_goes_on(tmp_path: Path) -> None:
    """It is killed as from outside: what it had written by then is in $OUT."""
    code = (
        "import sqlite3, time; c = sqlite3.connect('records/records.db'); c.execute('pragma journal_mode=wal');"
        "c.execute('create table t (x)'); c.execute('insert into t values (5)'); c.commit(); time.sleep(1000)"
    )
    day = Day(tmp_path, [command("campaign", code, limit_s=500)])
    carried = tmp_path / "carried"
    shutil.copytree(day.pieces[0], carried)
    program = (carried / "day.py").read_text().replace("COLLECT_EVERY_S = 20.0", "COLLECT_EVERY_S = 0.2")
    (carried / "day.py").write_text(program)
    environment = {**os.environ, "OUT": str(tmp_path / "out"), "INT8TUNE_DAY": str(tmp_path / "kept")}
    process = subprocess.Popen([sys.executable, carried / "day.py", "1"], env=environment, start_new_session=True)
    records, deadline = tmp_path / "out" / "records.db", time.monotonic() + LIMIT_S
    try:
        while not _rows(records):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        for child in subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False
        ).stdout.split():
            os.kill(int(child), signal.SIGKILL)
        process.kill()
        process.wait(LIMIT_S)
    assert _rows(records) == [(5,)]


def _rows(records: Path) -> list[tuple[int]]:
    if not records.exists():
        return []
    connection = sqlite3.connect(records)
    try:
        return list(connection.execute("select x from t"))
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def test_no_more_comes_home_than_may(tmp_path: Path) -> None:
    code = "[open('records/%02d.json' % n, 'w').write('[]') for n in range(20)]; open('records/a.db', 'wb').close()"
    day = Day(tmp_path, [command("many", code)])
    assert day.send(day.pieces[0], 1).returncode == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert len(names) == 8
    assert {"step-1.log", "a.db", "00.json"} <= names


def test_archives_are_the_same_for_the_same_content(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "folder").mkdir(parents=True)
        (tmp_path / name / "folder" / "file").write_text("content")
        write_archive(tmp_path / name, tmp_path / f"{name}.tar.xz")
        os.utime(tmp_path / "one" / "folder" / "file", (1, 1))
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "two.tar.xz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.xz") as archive:
        assert archive.getnames() == ["folder", "folder/file"]


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("numpy-2.5.5-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("numpy-2.5.5-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", False),
        ("psutil-7.2.2-cp36-abi3-manylinux2010_x86_64.manylinux_2_12_x86_64.manylinux_2_28_x86_64.whl", True),
        ("tornado-6.6.1-cp313-abi3-manylinux_2_28_x86_64.whl", False),
        ("apache_tvm-0.27.0.post1-py3-none-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("shellingham-1.5.4-py2.py3-none-any.whl", True),
        ("xgboost_cpu-3.2.0-py3-none-manylinux_2_28_aarch64.whl", False),
        ("markupsafe-3.0.4-cp312-cp312-musllinux_1_2_x86_64.whl", False),
    ],
)
def test_wheels_are_for_the_python_there(name: str, fits: bool) -> None:
    if fits:
        require_fit(name, "3.12")
        return
    with pytest.raises(ValueError, match=r"not a wheel for Python 3\.12 on x86-64 Linux"):
        require_fit(name, "3.12")


def test_the_packages_are_those_of_the_project() -> None:
    asked = requirements()
    assert "apache-tvm[rpc]==0.27.0.post1" in asked
    assert "apache-tvm-ffi==0.1.14.post1" in asked
    assert any(one.startswith("nvidia-cuda-nvrtc>=13") for one in asked)


def test_steps_are_single_lines_that_end_in_time() -> None:
    whole = plan.plan()
    for step, commands in whole["steps"].items():
        assert len(plan.step_line(int(step), "gpu-kit/piece-1")) <= 2000
        assert "\n" not in plan.step_line(int(step), "gpu-kit/piece-1")
        assert plan.LIMITS_S[step] < 600
        assert sum(one["limit_s"] for one in commands) <= 600, step
    assert sorted(whole["steps"]) == ["0", "1", "2", "3", "4"]


def test_the_steps_layers_are_layers_and_have_every_template(tmp_path: Path) -> None:
    for name, keys in (("a", plan.ADVERSARIAL), ("b", plan.CAMPAIGN), ("c", plan.BUNDLED), ("d", plan.SEARCHED)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(plan.table(name, keys)))
        assert len(load_network(str(path)).layers) == len(keys)
    target = gpu_target(plan.TARGET)
    templates = {template_for(parse_workload(key), target).name for key in plan.ADVERSARIAL}
    assert templates == {"cuda.first", "cuda.wgmma", "cuda.mma", "cuda.dp4a", "cuda.depthwise"}
    batches = {parse_workload(key).data_shape[0] for key in plan.CAMPAIGN if key.startswith("conv2d")}
    assert batches == {1, 16, 64}


PACKED_WITHOUT_TVM = """
import json, math, sys
sys.path.insert(0, sys.argv[1] + "/own")
sys.modules["tvm"] = None
import numpy as np
from int8tune.schedules.arguments import kernel_inputs
from int8tune.schedules.cuda.forms import form_of
from int8tune.schedules.template import Kernel
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bench.gpu.peers.lt import Product
from int8tune.tuner.bench.operands import layer_operands
from int8tune.tuner.bench.peers.base import PeerError
for key, layer in json.load(open(sys.argv[1] + "/layers.json"))["layers"].items():
    workload = parse_workload(key)
    sizes = (math.prod(workload.data_shape),), (math.prod(workload.output_shape),)
    for spec in layer["kernels"]:
        form = form_of(layer["template"], workload, spec["config"])
        inputs = kernel_inputs(workload, Kernel(None, form, *sizes), layer_operands(workload))
        names = {"data", "weight", "bias", "rescale", "params", "out"}
        names |= {"partial"} if spec["partial_sums"] else set()
        assert {name for launch in spec["launches"] for name in launch["order"]} == names
        assert len(inputs[1]) == form.weight_length
print("packed")
"""


@pytest.mark.thorough
@needs_emulated
def test_layers_are_packed_there_without_tvm(tmp_path: Path) -> None:
    """A layer of each goal: a product, first layers, splits, one too small for four warps, and a depthwise one."""
    keys = (
        "dense-u8s8-300x640-o288-float.c-u8",
        "conv2d-u8s8-1x7x7x512-k3x3x512-s1-p1-float.c-u8",
        "dense-u8s8-1x2048-o1000-float.c-u8",
        "conv2d-u8s8-1x56x56x3-k7x7x64-s2-p3-float.c-u8",
        "dwconv2d-u8s8-1x28x28x64-k3x3x1-s1-p1-float.c-u8",
    )
    write_layers(tmp_path / "layers", emulated_gpus.compile_emulated, {"all": keys}, kernels=3)
    table = json.loads((tmp_path / "layers" / "layers.json").read_text())
    assert table["groups"] == {"all": list(keys)}
    assert {layer["template"] for layer in table["layers"].values()} == {
        "cuda.first",
        "cuda.wgmma",
        "cuda.mma",
        "cuda.depthwise",
    }
    kernels = [spec for layer in table["layers"].values() for spec in layer["kernels"]]
    assert len(kernels) == 15
    assert {len(spec["launches"]) for spec in kernels} == {1, 2}
    assert all((tmp_path / "layers" / spec["cubin"]).stat().st_size for spec in kernels)
    words = [sys.executable, "-c", PACKED_WITHOUT_TVM, str(tmp_path / "layers")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout.strip() == "packed", done.stderr


@pytest.mark.thorough
def test_what_was_fastest_before_is_timed_again() -> None:
    """Behind the default, where they are not that; the others are other tiles."""
    key = "conv2d-u8s8-64x14x14x256-k3x3x256-s1-p1-float.c-u8"
    known = known_fastest(key, "cuda.wgmma")
    found = candidates(key, "cuda.wgmma", 4)
    assert len(known) == 2
    assert len(found) == 4
    assert [config for config in found if config in known] == known
    assert len({tuple(sorted(config.items())) for config in found}) == 4


def test_every_goal_has_layers() -> None:
    assert {name: len(keys) for name, keys in groups().items()} == {
        "products": 5,
        "resnet50, batch 64": 24,
        "resnet50, batch 16": 24,
        "resnet50, batch 1": 24,
        "depthwise, batch 64": 10,
        "depthwise, batch 16": 10,
        "depthwise, batch 1": 10,
    }


def test_there_are_tiles_enough() -> None:
    assert len(TILES) == len({tile.name for tile in TILES}) >= 12
    for name in ("cuda.wgmma", "cuda.mma", "cuda.dp4a"):
        assert any(tile.template == name for tile in TILES)
    assert {64, 128, 32} == {tile.depth for tile in TILES}


def run_tiles(folder: Path, out: Path, libraries: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """By a Python that has its standard library alone."""
    program = folder / "run_tiles.py"
    for name in ("run_tiles.py", "cuda_driver.py"):
        shutil.copyfile(THERE / name, folder / name)
    environment = {"LD_LIBRARY_PATH": str(libraries), "PATH": os.environ["PATH"]}
    words = [sys.executable, "-S", str(program), str(folder / "tiles"), str(out), *options]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.thorough
@needs_emulated
def test_tiles_are_checked_without_tvm(tmp_path: Path) -> None:
    """Two templates on an emulated GPU; then a value of the oracle's is another, and is found."""
    few = [Tile("cuda.wgmma", 64, 32, 128, 2, 8, 6), Tile("cuda.mma", 64, 64, 64, 4, 8, 3)]
    keys, libraries = ("dense-u8s8-70x130-o40-float.c-u8",), tmp_path / "libraries"
    libraries.mkdir()
    emulated_gpus.install(libraries, driver_api=1)
    left_out = write_tiles(
        tmp_path / "tiles",
        emulated_gpus.compile_emulated,
        few,
        checked=keys,
        timed=("dense-u8s8-64x64-o64-float.c-u8",),
    )
    assert left_out == []
    done = run_tiles(tmp_path, tmp_path / "tiles.json", libraries)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 tiles checked, all exact" in done.stdout
    found = json.loads((tmp_path / "tiles.json").read_text())
    assert found["gpu"] == "Emulated GPU"
    assert [one["wrong"] for one in found["tiles"][:4]] == [0] * 4
    assert all(one["tops"] > 0 for one in found["tiles"][4:])
    assert len(found["tiles"]) == 6
    expected = next((tmp_path / "tiles").glob("wgmma-*.random")) / "expected"
    content = bytearray(expected.read_bytes())
    content[17] ^= 1
    expected.write_bytes(content)
    done = run_tiles(tmp_path, tmp_path / "tiles.json", libraries, "--exact-only")
    assert done.returncode == 1
    assert "WRONG  wgmma-64x32x128s6" in done.stdout
    assert done.stdout.splitlines()[-1] == "4 tiles checked, 1 FAILED"


def test_no_driver_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "tiles").mkdir()
    (tmp_path / "tiles" / "tiles.json").write_text("[]")
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver of NVIDIA's")
    done = run_tiles(tmp_path, tmp_path / "tiles.json", tmp_path)
    assert done.returncode == 4
    assert done.stdout.startswith("error: no driver of NVIDIA's: ")
    assert "Traceback" not in done.stderr


@needs_compiler
def test_a_tile_becomes_machine_code(tmp_path: Path) -> None:
    assert write_tiles(tmp_path / "tiles", hopper_cubin, TILES[:1], CHECKED[:1], TIMED[:1]) == []
    specs = json.loads((tmp_path / "tiles" / "tiles.json").read_text())
    assert [spec["case"] == "" for spec in specs] == [False, False, True]
    for spec in specs:
        assert (tmp_path / "tiles" / spec["cubin"]).read_bytes()[:4] == b"\x7fELF"
        assert sorted(spec["order"]) == sorted(["data", "weight", "bias", "rescale", "params", "out"])
        assert spec["shared_bytes"] <= 227 << 10
    assert gpu_target(TARGET).gpu is not None


def python_of(version: str) -> Path | None:
    """A Python of this version, or None; pyenv keeps those that are not on the path."""
    names = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python3")]
    for found in filter(None, names):
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if said.stdout.startswith(f"Python {version}."):
            return Path(found)
    return None


def without_network() -> list[str]:
    """What runs a command where there is no network; empty where no such thing may be made."""
    words = ["unshare", "--map-root-user", "--net"]
    if not shutil.which(words[0]):
        return []
    made = subprocess.run([*words, "true"], timeout=LIMIT_S, check=False, capture_output=True)
    return words if made.returncode == 0 else []


DENSE = "dense-s8s8-32x32-o32-float.c-s8"
SMALL_WORK = plan.Work(
    adversarial=("dense-u8s8-33x64-o24-float.c-u8", "dwconv2d-u8s8-1x6x6x16-k3x3x1-s1-p1-float.c-u8"),
    campaign=("conv2d-u8s8-1x5x5x16-k3x3x16-s1-p1-float.c-u8",),
    searched=(DENSE,),
    bundled=("dense-u8s8-33x64-o24-float.c-u8",),
    trials=2,
    checked_trials=2,
    figures_limit_s=1,
    inventory=plan.INVENTORY + AT_ANY_SPEED,
)


@needs_emulated
@needs_compiler
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", ["3.12"])
def test_the_day_is_rehearsed_without_a_network(version: str, tmp_path: Path) -> None:
    """The whole kit for the Python there, on an emulated GPU: its packages, pieces and all four steps."""
    python, alone = python_of(version), without_network()
    if python is None or not alone:
        pytest.skip(f"needs Python {version} and `unshare`: {python}, {alone}")
    tiles = (Tile("cuda.wgmma", 64, 32, 128, 2, 8, 6), Tile("cuda.mma", 64, 64, 64, 4, 8, 3))
    making = Making(
        python=version,
        program="tests.support.gpu.emulated_tuner",
        preset=0,
        compile_source=emulated_gpus.compile_emulated,
        work=SMALL_WORK,
        tiles=tiles,
        checked=("dense-u8s8-70x130-o40-float.c-u8",),
        timed=("dense-u8s8-64x64-o64-float.c-u8",),
        layers={"all": ("dense-u8s8-70x130-o40-float.c-u8",)},
        kernels=2,
    )
    pieces = make_kit(tmp_path / "gpu-kit", making)
    for piece in pieces:
        assert sum(path.stat().st_size for path in piece.iterdir()) <= MOST_BYTES
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    emulated_gpus.install(libraries, driver_api=1)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(python)
    lines = [line for line in (tmp_path / "gpu-kit" / "day.txt").read_text().splitlines() if line[0] != "#"]
    day = Rehearsal(tmp_path, alone, programs, libraries)
    for line in lines:
        piece, _, given = line.partition(": ")
        said = day.give(tmp_path / "gpu-kit" / piece, given)
        step = int(given.rsplit(" ", 1)[1])
        assert f"step {step}: 0 of" in said or step in (0, 1), said
        if step == 1:
            assert "4 tiles checked, all exact" in said
            # The bundle's agent finds no driver: it looks in its own folder alone.
            assert "can't be used: this machine has no driver of NVIDIA's" in said
            assert f"step 1: 1 of {len(plan.plan()['steps']['1'])} commands failed" in said
        if step == 3:
            assert "8 figures, about" in said
            assert {"records.db", "step-3.log"} <= {path.name for path in day.out.iterdir()}


class Rehearsal:
    """A machine without a network that keeps its files, and gets one piece with each command."""

    def __init__(self, folder: Path, alone: list[str], programs: Path, libraries: Path) -> None:
        self.folder, self.alone, self.out = folder, alone, folder / "out"
        self.environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder / "home-there"),
            "PYTHONPATH": str(ROOT),
            "LD_LIBRARY_PATH": str(libraries),
            "OUT": str(self.out),
            "INT8TUNE_DAY": str(folder / "kept"),
        }

    def give(self, piece: Path, line: str) -> str:
        there = self.folder / "there"
        shutil.rmtree(there, ignore_errors=True)
        shutil.rmtree(self.out, ignore_errors=True)
        (there / piece.parent.name).mkdir(parents=True)
        shutil.copytree(piece, there / piece.parent.name / piece.name)
        words = [*self.alone, "bash", "-c", line]
        done = subprocess.run(
            words, cwd=there, env=self.environment, capture_output=True, text=True, timeout=700, check=False
        )
        print(line, done.stdout, done.stderr, sep="\n")
        return done.stdout
