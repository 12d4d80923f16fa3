"""Where the processes of a Dask cluster listen: what they are sent there they execute, whoever sends it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_LISTENS = "0A"
_WITH_TLS = ("tls", "wss")
_WORD_DIGITS = 8


def scheduler_listens_openly(dask_scheduler: Any) -> list[str]:
    """Run by Dask in its scheduler: its addresses beyond loopback that are without TLS."""
    return _open_addresses(os.getpid(), _addresses_of(dask_scheduler))


def worker_listens_openly(worker: Any) -> list[str]:
    """The same of the worker that this process is, and of the nanny that started it."""
    found = _open_addresses(os.getpid(), _addresses_of(worker))
    return found + (_open_addresses(os.getppid(), [worker.nanny]) if worker.nanny else [])


def _addresses_of(server: Any) -> list[str]:
    return [listener.listen_address for listener in server.listeners]


def _open_addresses(pid: int, addresses: Iterable[str]) -> list[str]:
    """Addresses at which a process listens, without those known to be behind TLS: Dask's HTTP pages are in no list."""
    secured = {urlsplit(address).port for address in addresses if urlsplit(address).scheme in _WITH_TLS}
    return sorted(f"{host}:{port}" for host, port in _listening(pid) if not _is_loopback(host) and port not in secured)


def _listening(pid: int) -> Iterator[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """Where a process listens by TCP, as proc(5) has it."""
    inodes = _socket_inodes(pid)
    for kind in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError):  # a machine without IPv6
            for line in Path(f"/proc/{pid}/net/{kind}").read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS and words[9] in inodes:
                    host, _, port = words[1].partition(":")
                    yield _address(host), int(port, 16)


def _socket_inodes(pid: int) -> set[str]:
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if match := re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink())):
                inodes.add(match[1])
    return inodes


def _address(digits: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address as Linux prints it: words of four bytes, each in this machine's order."""
    words = [digits[start : start + _WORD_DIGITS] for start in range(0, len(digits), _WORD_DIGITS)]
    packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    return ipaddress.ip_address(packed)


def _is_loopback(host: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = host.ipv4_mapped if isinstance(host, ipaddress.IPv6Address) else None
    return (mapped or host).is_loopback
