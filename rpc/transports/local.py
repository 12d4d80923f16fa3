"""The machine itself as a device, behind a server process, so that no kernel can take the tuner down."""

from __future__ import annotations

from collections.abc import Sequence

from int8tune.rpc.session.resident import ResidentTransport, ServerProcess


class LocalTransport(ResidentTransport):
    """Runs kernels on some cores of this machine, with as many threads, or on any of its cores with one thread."""

    def __init__(
        self,
        cores: Sequence[int] = (),
        start_limit_s: float = 30.0,
        grace_s: float = 4.0,
        memory_limit_bytes: int = 8 << 30,
    ) -> None:
        """`memory_limit_bytes`: what a session may use; it ends that session only."""
        super().__init__("the local device", start_limit_s, grace_s)
        self._cores = tuple(cores)
        self._memory_limit_bytes = memory_limit_bytes

    def new_server(self) -> ServerProcess:
        options = ["--memory-limit-bytes", str(self._memory_limit_bytes), *(f"--core={core}" for core in self._cores)]
        return ServerProcess("the local device", "int8tune.rpc.local.server", options, threads=len(self._cores) or 1)
