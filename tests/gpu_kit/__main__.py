"""Make the kit: `python -m tests.gpu_kit FOLDER [--python 3.12]`. It needs no GPU: see `docs/cuda.md`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from int8tune.rpc.agent.build import make_bundle
from tests.gpu_kit import packages, plan
from tests.gpu_kit.layers import KERNELS, write_layers
from tests.gpu_kit.pieces import PRESETS, USUAL_PRESET, Archive, pieces_of_step, write_archive, write_pieces
from tests.gpu_kit.tiles import CHECKED, TILES, TIMED, Compile, Tile, hopper_cubin, write_tiles

THERE = Path(__file__).parent / "there"
HOME = "home"
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Making:
    """How a kit is made.

    Attributes:
        python: version of the Python there.
        tiles, checked, timed: as in `gpu_kit.tiles.write_tiles`.
        layers, kernels: as in `gpu_kit.layers.write_layers`.
        program: module that is run as int8tune, here and there.
        preset: of the archives' compression.
    """

    python: str = "3.12"
    program: str = plan.PROGRAM
    compile_source: Compile = hopper_cubin
    work: plan.Work = plan.Work()  # noqa: RUF009 - it is frozen
    tiles: Sequence[Tile] = TILES
    checked: Sequence[str] = CHECKED
    timed: Sequence[str] = TIMED
    layers: Mapping[str, Sequence[str]] | None = None
    kernels: int = KERNELS
    preset: int = USUAL_PRESET


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pack what a machine with a GPU and no network needs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="version of the Python there")
    parser.add_argument("--preset", type=int, choices=PRESETS, default=USUAL_PRESET, help="of xz: how small pieces get")
    options = parser.parse_args(arguments)
    make_kit(options.folder.resolve(), Making(python=options.python, preset=options.preset))
    return 0


def make_kit(folder: Path, making: Making) -> list[Path]:
    """Make all pieces, and print which commands are given there.

    Raises:
        NoCudaCompilerError, CudaCompileError: kernels can't be compiled.
        ProvisionError: the agent can't be made.
        RuntimeError: packages are not there, or a bundle was not made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".kit-", dir=folder) as made:
        staged = Path(made)
        _step("cubins of tiles and layers, cases", lambda: write_first_step(staged / "first", folder / HOME, making))
        _step(f"packages for Python {making.python}", lambda: write_packages(staged, making.python))
        _step("agent, tables, programs", lambda: write_rest(staged / "rest", making.work))
        steps = {"first": (1,), "rest": (2, 3, 4), "alone-1": (2, 3, 4), "alone-2": (2, 3, 4)}
        names = [name for name in steps if (staged / name).exists()]
        paths = [staged / f"{name}.tar.xz" for name in names]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            presets = [making.preset] * len(names)
            _step(
                "compression", lambda: list(pool.map(write_archive, [staged / name for name in names], paths, presets))
            )
        archives = [Archive(path, steps[name]) for path, name in zip(paths, names, strict=True)]
        (staged / "plan.json").write_text(json.dumps(plan.plan(making.program, making.work), indent=1))
        pieces = write_pieces(archives, [THERE / "day.py", THERE / "cuda_driver.py", staged / "plan.json"], folder)
    lines = day_lines(folder, pieces)
    (folder / "day.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return pieces


def _step(name: str, do: object) -> None:
    begun = time.monotonic()
    print(f"{name} ...", flush=True)
    do()  # type: ignore[operator]
    print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)


def write_first_step(folder: Path, home: Path, making: Making) -> None:
    """What needs no TVM there: tiles, layers, and a bundle of two layers, whose results `home` can merge."""
    folder.mkdir(parents=True)
    for left_out in write_tiles(folder / "tiles", making.compile_source, making.tiles, making.checked, making.timed):
        print(f"left out: {left_out}")
    write_layers(folder / "layers", making.compile_source, making.layers, making.kernels)
    for program in ("cuda_driver.py", "run_tiles.py", "run_layers.py", "about.py"):
        shutil.copyfile(THERE / program, folder / program)
    (folder / "records").mkdir()
    write_bundle(folder / "first.pyz", home, making)


def write_bundle(path: Path, home: Path, making: Making) -> None:
    """Raises: RuntimeError: it was not made."""
    home.mkdir(parents=True, exist_ok=True)
    layers = home / "first.json"
    layers.write_text(json.dumps(plan.table("first", making.work.bundled)))
    words = ["bundle", "make", str(layers), "--device", plan.DEVICE, "--target", plan.TARGET, "--strategy", "random"]
    command = [
        sys.executable,
        "-m",
        making.program,
        *words,
        "--trials",
        "4",
        "--results",
        str(home),
        "--output",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"the bundle was not made: {done.stderr.strip()[-500:]}")


def write_packages(staged: Path, python: str) -> None:
    """`packages` of three archives: the largest packages have one each, so that they are unpacked side by side."""
    wheels = staged / "wheels"
    wheels.mkdir()
    found = packages.download(python, wheels)
    alone = {name: [wheel for wheel in found if wheel.name.startswith(name)] for name in packages.ALONE}
    others = [wheel for wheel in found if not any(wheel in ones for ones in alone.values())]
    packages.unpack([*others, packages.own_wheel(staged)], staged / "rest" / "packages")
    for number, ones in enumerate(alone.values(), 1):
        packages.unpack(ones, staged / f"alone-{number}" / "packages")
    print(f"{len(found)} wheels, {sum(wheel.stat().st_size for wheel in found) / 2**20:.0f} MiB")


def write_rest(folder: Path, work: plan.Work) -> None:
    """Tables, the inventory, the figures' program, and the agent as the cache there has it."""
    (folder / "tables").mkdir(parents=True)
    for name, keys in (("adversarial", work.adversarial), ("campaign", work.campaign)):
        (folder / "tables" / f"{name}.json").write_text(json.dumps(plan.table(name, keys)))
    (folder / "farm.toml").write_text(work.inventory)
    shutil.copyfile(THERE.parents[1] / "gpu_figures.py", folder / "gpu_figures.py")
    cache = folder / "cache" / "int8tune"
    cache.mkdir(parents=True)
    make_bundle(platform.machine(), cache, has_gpu=True)


def day_lines(folder: Path, pieces: Sequence[Path]) -> list[str]:
    """The commands of the day in their order, with the piece that each takes along."""
    table = json.loads((pieces[0] / "kit.json").read_text())
    lines, sent = [], set()
    for step in (1, 2, 3, 4):
        new = [number for number in pieces_of_step(table, step) if number not in sent]
        sent.update(new)
        own = new.pop() if new else max(sent)
        lines += [f"piece-{number}: {plan.step_line(0, f'{folder.name}/piece-{number}')}" for number in new]
        lines.append(f"piece-{own}: {plan.step_line(step, f'{folder.name}/piece-{own}')}")
    for piece in pieces:
        size = sum(path.stat().st_size for path in piece.iterdir())
        lines.append(f"# {piece.name}: {size / 2**20:.1f} MiB")
    lines.append(f"# at home: int8tune bundle merge OUT/first.results --results {folder / HOME}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
