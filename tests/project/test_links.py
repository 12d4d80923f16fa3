"""Links where the program has files and folders of its own: what they lead to is never changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.farm.boards import AT_ANY_SPEED
from tests.support.models.onnx_models import MODELS, quantized
from tests.support.program.cli_program import CONV, Ended, int8tune, write_table
from tests.support.program.written import NameLog, Written

PRECIOUS = b"what somebody else needs\nsecond line, without an end"
MOST_RUNS = 30
# Named by the user, who may have it elsewhere; and what nobody but he can place.
FOLDERS = tuple(map(Path, ("kept", "out", "state", "state/int8tune")))


@dataclass(frozen=True, slots=True)
class Programs:
    """Commands that are run in a folder, one after the other, and what they need there."""

    commands: Sequence[str]
    prepare: Callable[[Path], None] = lambda _: None


def add_table(root: Path) -> None:
    write_table(root / "small.json", [{"name": "a", "count": 1, "workload": CONV}])


def add_farm(root: Path) -> None:
    add_table(root)
    (root / "farm.toml").write_text(
        f'[[boards]]\nname = "near"\ntransport = "local"\ntarget = "generic"\n{AT_ANY_SPEED}'
    )


def add_model(root: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")
    scratch = root / "scratch"
    scratch.mkdir()
    quantized(MODELS["head"](), scratch, "u8", "s8", True)
    (scratch / "quantized.onnx").rename(root / "model.onnx")
    shutil.rmtree(scratch)


TUNE = "tune small.json --results kept --strategy random --trials 1"
PROGRAMS = {
    "campaign": Programs([TUNE], add_table),
    "compile": Programs(["compile model.onnx -o out/model.so --results kept"], add_model),
    "accuracy": Programs(["accuracy model.onnx --count 2 --results kept"], add_model),
    "bench": Programs(["bench model.onnx --against onnxruntime --runs 5 --run-ms 1 --results kept"], add_model),
    "ranking": Programs(
        [TUNE, "compile model.onnx -o out/model.so --results kept --rank"],
        lambda root: (add_table(root), add_model(root))[0],
    ),
    "boards": Programs([f"{TUNE} --inventory farm.toml --devices near"], add_farm),
    "bundle": Programs(
        [
            "bundle make small.json --device node7 --target generic --trials 1 --results kept",
            "bundle run kept/small.bundle-1.pyz --folder out --canary-tolerance 1",
            "bundle merge out/small.bundle-1.results --results kept",
        ],
        add_table,
    ),
}
QUICK = ("accuracy",)


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PROGRAMS]
)
def test_what_links_lead_to_is_never_changed(name: str, tmp_path: Path) -> None:
    """Every name that a run writes is a link when the same run is made again; where that is refused, it says which."""
    programs, root = PROGRAMS[name], tmp_path / "root"
    log = NameLog(tmp_path / "log")
    make_root(root, programs)
    for ended in run_all(programs, root, log):
        assert ended.code == 0, ended.err
    names = log.names_in(root)
    assert len(names) > 3
    assert [each for each in names if each.has_pid] == []
    known = {each.path for each in names}
    for depth in range(2, 1 + max(len(path.parts) for path in known)):
        if chosen := {path for path in known if len(path.parts) == depth and path not in FOLDERS}:
            # Names of which the run that follows has others are drawn by chance: nobody can be there before.
            known &= check(programs, root, tmp_path / f"depth-{depth}", chosen, names)


def check(programs: Programs, root: Path, place: Path, chosen: set[Path], names: Sequence[Written]) -> set[Path]:
    """Run the programs with links in place of some names, until none is refused; what was written then."""
    shutil.rmtree(root)
    make_root(root, programs)
    victims = place / "victims"
    victims.mkdir(parents=True)
    links = plant(root, victims, chosen, names)
    before = contents(victims)
    log = NameLog(place / "log")
    for _ in range(MOST_RUNS):
        failed = next((ended for ended in run_all(programs, root, log) if ended.code), None)
        assert contents(victims) == before, failed and failed.err
        if failed is None:
            return {each.path for each in log.names_in(root)}
        (error,) = failed.errors
        said = {
            link
            for link, victim in links.items()
            if error.endswith((f" {link}", f" {link.relative_to(root)}", f" {victim}"))
        }
        assert len(said) == 1, failed.err
        assert failed.err.splitlines()[-1].startswith("hint: ")
        said.pop().unlink()
    raise AssertionError("it is refused again and again")


def make_root(root: Path, programs: Programs) -> None:
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    programs.prepare(root)


def run_all(programs: Programs, root: Path, log: NameLog) -> Iterator[Ended]:
    """Each command, until one fails."""
    for command in programs.commands:
        ended = int8tune(*command.split(), cwd=root, env={**log.environment, "XDG_STATE_HOME": str(root / "state")})
        yield ended
        if ended.code:
            return


def plant(root: Path, victims: Path, chosen: set[Path], names: Sequence[Written]) -> dict[Path, Path]:
    """Links in place of the names, each to a victim of its kind; one of a folder has in it what the folder had."""
    planted = {}
    for number, path in enumerate(sorted(chosen)):
        victim = victims / str(number)
        inside = {each.path.relative_to(path) for each in names if path in each.path.parents}
        if inside or any(each.kind == "folder" for each in names if each.path == path):
            for name in [*sorted(inside), Path("other")]:
                fill(victim / name, is_folder=any(name in each.parents for each in inside))
        else:
            victim.write_bytes(PRECIOUS)
        link = root / path
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not link.exists():  # what the commands are given
            link.symlink_to(victim)
            planted[link] = victim
    return planted


def fill(path: Path, *, is_folder: bool) -> None:
    if is_folder:
        path.mkdir(parents=True, exist_ok=True)
        path = path / "other"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(PRECIOUS)


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder, with what kind of thing it is."""
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }
