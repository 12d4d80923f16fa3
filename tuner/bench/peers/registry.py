"""The peers, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any, TypeVar

from int8tune.results.entry_points import PEERS as GROUP
from int8tune.results.entry_points import loaded
from int8tune.tuner.bench.peers.base import Peer, PeerForm
from int8tune.tuner.bench.peers.litert import LiteRt
from int8tune.tuner.bench.peers.onednn import OneDnn
from int8tune.tuner.bench.peers.onnxruntime import OnnxRuntime
from int8tune.tuner.bench.peers.openvino import OpenVino
from int8tune.tuner.errors import BenchSpecError

PEERS: tuple[Peer, ...] = (OnnxRuntime(), OpenVino(), OneDnn(), LiteRt())

_SHOWN = 60
Known = TypeVar("Known", bound=PeerForm)


_NEEDS = ("name", "requires", "form", "version", "load")


def all_peers() -> tuple[Peer, ...]:
    """This package's peers, then those of other packages.

    Raises:
        ExtensionError: another package's can't be used.
    """
    others: tuple[Any, ...] = loaded(GROUP, tuple(peer.name for peer in PEERS), _NEEDS)
    return (*PEERS, *others)


def peers_named(names: Sequence[str], peers: Sequence[Known]) -> tuple[Known, ...]:
    """Those of the peers that have these names, in their order.

    Raises:
        BenchSpecError: there is no peer of a name.
    """
    known = [peer.name for peer in peers]
    for name in names:
        if name not in known:
            raise BenchSpecError(f"unknown library `{name[:_SHOWN]}`, known: {', '.join(known)}")
    return tuple(peer for peer in peers if peer.name in names)


def missing_distributions(requires: Sequence[str]) -> tuple[str, ...]:
    """Which of these distributions are not installed."""
    return tuple(name for name in requires if not _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
