"""`int8tune devices`: this machine and the boards of an inventory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from int8tune.tuner.cli import completing
from int8tune.tuner.cli.options import (
    DEFAULT_INVENTORY,
    DebugOption,
    Format,
    FormatOption,
    InventoryOption,
    TargetOption,
)
from int8tune.tuner.cli.output import aligned, emit, emit_json, say, stdout_columns
from int8tune.tuner.cli.plan import cores_in_words
from int8tune.tuner.cli.screen import show_until_interrupted, terminal

if TYPE_CHECKING:
    from int8tune.results.record import DeviceCheck
    from int8tune.rpc.inventory.boards import Board
    from int8tune.rpc.request import Capabilities
    from int8tune.tuner.board_check import BoardCheck
    from int8tune.tuner.board_states import BoardState

# Of all CPU features, those that decide how fast int8 can be.
INT8_FEATURES = (
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx_vnni",
    "amx_int8",
    "asimd",
    "asimddp",
    "i8mm",
    "sve",
)


BoardArgument = Annotated[
    str, typer.Argument(metavar="BOARD", autocompletion=completing.boards, help="A board's name in the inventory.")
]


def list_(
    inventory: InventoryOption = DEFAULT_INVENTORY,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing how they are, until Ctrl-C.")] = False,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """The boards of an inventory, and how they are in the campaigns that use them. None of them is touched.

    Example: int8tune devices list --inventory farm.toml
    """
    from int8tune.rpc.farm.status_file import status_folder
    from int8tune.tuner.api.boards import board_fields, devices
    from int8tune.tuner.board_states import read_states, state_fields
    from int8tune.tuner.cli.board_states import states_table

    found = devices(inventory)
    console = terminal() if watch and form is Format.TABLE else None
    if console is not None:
        names = [board.name for board in found.boards]
        show_until_interrupted(console, partial(read_states, status_folder(inventory), names), _draw_states)
        return
    fields = [board_fields(board) for board in found.boards]
    if form is Format.JSON:
        emit_json([own | state_fields(state) for own, state in zip(fields, found.states, strict=True)])
        return
    header = ("board", "transport", "address", "target", "cores", "timing", "tags")
    emit(aligned([header, *(tuple(map(str, own.values())) for own in fields)]))
    emit(f"\n{states_table(found.states, time.time(), stdout_columns())}")


def _draw_states(states: Sequence[BoardState], columns: int, _rows: int) -> list[str]:
    from int8tune.tuner.cli.board_states import states_table

    return states_table(states, time.time(), columns).splitlines()


def provision(
    board: BoardArgument,
    inventory: InventoryOption = DEFAULT_INVENTORY,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Replace the agent of another version.")] = False,
    _debug: DebugOption = False,
) -> None:
    """Make a board ready: put the agent there, in one folder, without root.

    Example: int8tune devices provision a53
    """
    from int8tune.results.user_cache import default_cache
    from int8tune.rpc.provision import provision as provision_board

    done = provision_board(_ssh_board(inventory, board), default_cache(), upgrade, say)
    emit(
        aligned(
            [
                ("board", board),
                ("agent", f"{done.change}, {done.bundle}"),
                ("folder", done.folder),
                ("took", f"{done.took_s:.1f} s, {done.sent_bytes / 1e6:.1f} MB sent"),
            ]
        )
    )
    say("a key that may start the agent and do nothing else has this line in the board's authorized_keys:")
    say(done.key_line)


def release(board: BoardArgument, inventory: InventoryOption = DEFAULT_INVENTORY, _debug: DebugOption = False) -> None:
    """End a board's agent and remove everything that provisioning put there.

    Example: int8tune devices release a53
    """
    from int8tune.rpc.provision import release as release_board

    was_there = release_board(_ssh_board(inventory, board))
    emit(f"{board}: {'released' if was_there else 'nothing was there'}")


def trust(
    board: BoardArgument,
    fingerprint: Annotated[
        str, typer.Argument(metavar="FINGERPRINT", help="Fingerprint of the new host key: SHA256:...")
    ],
    inventory: InventoryOption = DEFAULT_INVENTORY,
    _debug: DebugOption = False,
) -> None:
    """Accept another host key of a board that was set up anew, if it is the one with this fingerprint.

    Example: int8tune devices trust a53 SHA256:Gm2m0eJp2oUX8e0lYyB0pZ1bQ7iDq1V3n0o1yqk1F0s
    """
    from int8tune.rpc.inventory.file import replace_host_key
    from int8tune.rpc.streams.ssh import shown_key_with
    from int8tune.tuner.api.boards import inventory_of

    known = inventory_of(inventory)
    chosen = _ssh_board(inventory, board)
    replace_host_key(known, chosen, shown_key_with(chosen, fingerprint))
    emit(f"{board}: host key {fingerprint} is the known one now")


def check(
    board: Annotated[
        str | None,
        typer.Argument(
            metavar="[BOARD]",
            autocompletion=completing.boards,
            help="A board of the inventory; this machine if left out.",
        ),
    ] = None,
    inventory: InventoryOption = DEFAULT_INVENTORY,
    target: TargetOption = None,
    form: FormatOption = Format.TABLE,
    _debug: DebugOption = False,
) -> None:
    """Measure what one core can do, here or on a board.

    Its int8 peak, how fast it reads from each level of memory, and the noise.

    Example: int8tune devices check --format json
    """
    if board is not None:
        _check_board(inventory, board, target, form)
        return
    from int8tune.tuner.api.boards import check_host

    say("measuring, this takes some seconds")
    found = check_host(target)
    device, measured, measuring, building = found.device, found.measured, found.measuring_cores, found.building_cores
    features = [feature for feature in INT8_FEATURES if feature in device.features]
    if form is Format.JSON:
        cores = {"measuring_cores": list(measuring), "building_cores": list(building)}
        emit_json({**_measured(measured), "features": features, **cores})
        return
    cores_text = cores_in_words(measuring, building)
    emit(aligned([*_about(device, measured.target, features, cores_text), *_speeds(measured, device)]))


def _check_board(inventory: Path, name: str, target: str | None, form: Format) -> None:
    from int8tune.tuner.api.boards import agent_board
    from int8tune.tuner.board_check import check_board

    board = agent_board(inventory, name)
    say("building and running the canary, this takes some seconds")
    found = check_board(board, target or board.target or None)
    features = _int8_features(found.device)
    if form is Format.JSON:
        emit_json(_board_check(found, features))
        return
    rows = [
        ("board", board.name),
        *_about(found.device, found.target, features, ", ".join(map(str, found.device.cores))),
    ]
    rows += [(name, value) for name, value in found.state.items() if value]
    rows.append(("canary", "exact"))
    emit(
        aligned(
            [*rows, *(_speeds(found.measured, found.device) if found.measured else [("times", "none: see `timing`")])]
        )
    )


def _board_check(found: BoardCheck, features: list[str]) -> dict[str, Any]:
    return {
        "board": found.board,
        "architecture": found.device.architecture,
        "cpu": found.device.cpu,
        "target": found.target,
        "features": features,
        "cores": list(found.device.cores),
        "state": dict(found.state),
        "canary": "exact",
        "measured": _measured(found.measured) if found.measured else None,
    }


def _ssh_board(inventory: Path, name: str) -> Board:
    from int8tune.rpc.inventory.boards import TransportKind
    from int8tune.tuner.api.boards import board_named

    return board_named(inventory, name, TransportKind.SSH)


def _int8_features(device: Capabilities) -> list[str]:
    """What decides about int8 kernels; of a GPU, the architectures whose code it runs."""
    if device.has_gpu:
        return sorted(feature for feature in device.features if feature.startswith("cuda_"))
    return [feature for feature in INT8_FEATURES if feature in device.features]


def _about(device: Capabilities, target: str, features: list[str], cores: str) -> list[tuple[str, str]]:
    return [
        ("gpu" if device.has_gpu else "cpu", f"{device.cpu} ({device.architecture})"),
        ("target", target),
        ("features", " ".join(features) or "none that matter"),
        ("cores", cores),
        ("governor", device.environment.get("governor", "unknown")),
    ]


def _speeds(measured: DeviceCheck, device: Capabilities) -> list[tuple[str, str]]:
    read = ", ".join(f"{level} {rate / 1e9:.3g}" for level, rate in measured.bandwidth_bytes_per_s.items())
    return [
        ("int8 peak", f"{measured.peak_ops_per_s / 1e9:,.0f} GOP/s {'' if device.has_gpu else 'of one core'}".rstrip()),
        ("read GB/s", read),
        ("noise", f"{measured.noise:.1%} between repeats"),
    ]


def _measured(measured: DeviceCheck) -> dict[str, Any]:
    return {
        "device": measured.device,
        "target": measured.target,
        "peak_ops_per_s": measured.peak_ops_per_s,
        "bandwidth_bytes_per_s": dict(measured.bandwidth_bytes_per_s),
        "noise": measured.noise,
        "environment": dict(measured.environment),
        "started_at": measured.started_at,
    }
