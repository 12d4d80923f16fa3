"""Processes that build kernels, among all children of the tests' own process."""

from __future__ import annotations

import psutil

_OPTION_OF_ALL = "--guest="


def build_server() -> psutil.Process:
    """The build server that was started last; other tests may have one of their own until their module ends."""
    children = psutil.Process().children()
    servers = [child for child in children if any(word.startswith(_OPTION_OF_ALL) for word in child.cmdline())]
    return max(servers, key=psutil.Process.create_time)
