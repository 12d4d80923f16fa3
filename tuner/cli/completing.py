"""What a shell offers for the values of arguments and options. Nothing that goes wrong here may be seen in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path

import typer

from int8tune.tuner.api.defaults import DEFAULT_INVENTORY

_Complete = Callable[[typer.Context, str], list[str]]


def _quietly(names: Callable[[typer.Context], Iterable[str]]) -> _Complete:
    """Offers the names that begin as what was typed so far; of a list with commas, as its last part."""

    @wraps(names)
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        try:
            return [f"{before}{comma}{name}" for name in names(context) if name.startswith(last)]
        except Exception:
            return []

    complete.__annotations__ = {"context": typer.Context, "incomplete": str, "return": list[str]}
    del complete.__wrapped__
    return complete


@_quietly
def networks(_context: typer.Context) -> Iterable[str]:
    """Networks by name; a shell offers files where none fits."""
    from int8tune.compiler.network_file import network_names

    return network_names()


@_quietly
def targets(_context: typer.Context) -> Iterable[str]:
    """Target profiles."""
    from int8tune.schedules.gpus import GPU_PROFILES
    from int8tune.schedules.target import PROFILES

    return (*(profile.name for profile in PROFILES), *GPU_PROFILES)


@_quietly
def strategies(_context: typer.Context) -> Iterable[str]:
    """Search strategies, those of other packages, too."""
    from int8tune.tuner.search.registry import strategy_names

    return strategy_names()


@_quietly
def templates(_context: typer.Context) -> Iterable[str]:
    """Templates, those of other packages, too."""
    from int8tune.schedules.registry import all_templates

    return (template.name for template in all_templates())


@_quietly
def peers(_context: typer.Context) -> Iterable[str]:
    """Libraries to compare with."""
    from int8tune.tuner.bench.peers.registry import all_peers

    return (peer.name for peer in all_peers())


@_quietly
def boards(context: typer.Context) -> Iterable[str]:
    """Boards of the inventory that was typed, or of the usual one."""
    from int8tune.rpc.inventory.file import read_inventory

    return (board.name for board in read_inventory(Path(context.params.get("inventory") or DEFAULT_INVENTORY)).boards)
