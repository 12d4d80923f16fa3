"""An agent on this machine, without SSH: in a folder of its own, emulated where its kernels are another CPU's."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from int8tune.results.atomic import replacement
from int8tune.results.own_files import make_own_folder, require_own_folder
from int8tune.results.user_cache import default_cache
from int8tune.rpc.agent.build import AGENT, Bundle, launcher, make_bundle
from int8tune.rpc.agent.kept_folder import make_once
from int8tune.rpc.agent.runtime_files import sha256_of
from int8tune.rpc.board.agent_route import LAUNCHER
from int8tune.rpc.errors import ProvisionError
from int8tune.rpc.inventory.boards import Board

_FOLDER = "agents"


def agent_here(board: Board) -> tuple[str, ...]:
    """What starts a board's agent on this machine, emulated if it has an emulator; it is made where it is not there.

    Raises:
        ProvisionError: its emulator is not installed, or the agent can't be made.
        NotOwnFileError: a link is where the agent would be.
    """
    if board.emulator and not shutil.which(board.emulator[0]):
        raise ProvisionError(f"the emulator of `{board.name}` is not installed: {board.emulator[0]}")
    cache = default_cache()
    bundle = make_bundle(board.architecture or platform.machine(), cache, has_gpu=board.gpu is not None)
    folder = cache / _FOLDER / f"{board.name}-{bundle.name}"
    make_own_folder(folder.parent)
    require_own_folder(folder)
    if not _is_whole(folder, bundle):
        shutil.rmtree(folder, ignore_errors=True)
        make_once(folder, lambda made: _fill(made, bundle))
    write_launcher(folder, board.emulator)
    return (str(folder / LAUNCHER),)


def install_agent(folder: Path, bundle: Bundle, emulator: Sequence[str] = ()) -> Path:
    """Make an agent's folder; what starts the agent."""
    folder.mkdir()
    _fill(folder, bundle)
    return write_launcher(folder, emulator)


def _fill(folder: Path, bundle: Bundle) -> None:
    for file in bundle.files:
        shutil.copy(bundle.folder / file, folder / file)
    (folder / AGENT).chmod(0o700)
    (folder / "bundle").write_text(bundle.name + "\n")


def _is_whole(folder: Path, bundle: Bundle) -> bool:
    try:
        return {name: sha256_of(folder / name) for name in bundle.files} == bundle.files
    except ProvisionError:
        return False


def write_launcher(folder: Path, emulator: Sequence[str]) -> Path:
    """Write what starts the agent of a folder, whole or not at all: another process may be starting it."""
    path = folder / LAUNCHER
    with replacement(path, waits_for_disk=False) as file:
        os.fchmod(file.fileno(), 0o700)
        file.write(launcher(emulator).encode())
    return path
