"""The contract of a transport."""

from __future__ import annotations

from typing import Protocol

from int8tune.rpc.request import Capabilities, Reply, Request


class Transport(Protocol):
    """A way to run kernels on one device.

    A transport is used by one thread at a time. A candidate that crashes or hangs is a `Reply`; `run` raises nothing
    for it and is ready for the next request. It returns at the latest `request.run_limit_s` + 5 s after it was called,
    or, where it has to connect or to send cases first, so much later as its limits for that allow.
    """

    def start(self) -> Capabilities:
        """Start the device's server and return what it can do.

        Raises:
            DeviceStartError: it did not start or did not greet in time.
        """

    def run(self, request: Request) -> Reply:
        """Verify and time the programs of one request, in a session of their own."""

    def cancel(self) -> None:
        """End the request that is under way as `DEVICE_LOST`. The one method that any thread may call."""

    def close(self) -> None:
        """End the server and everything it started. Closing twice is allowed."""
