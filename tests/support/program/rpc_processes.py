"""Finds servers and what they started, for the tests of `rpc`."""

from __future__ import annotations

import psutil

MARK = "INT8TUNE_SERVER"


def servers_of(tuner: psutil.Process) -> set[psutil.Process]:
    return {child for child in tuner.children() if "int8tune.rpc.local.server" in child.cmdline()}


def server_of(tuner: psutil.Process) -> psutil.Process:
    (server,) = servers_of(tuner)
    return server


def marked(mark: str) -> list[psutil.Process]:
    """All processes with this mark in their environment, wherever they hang in the tree."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
