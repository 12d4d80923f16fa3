"""What the processes of a device, and those that build, need of the limits that a shell sets (ulimit)."""

from __future__ import annotations

import contextlib
import resource

from int8tune.rpc.errors import MachineLimitError

# A session that times four programs in turn, each with ten cases, has 250 files open; with residuals, more.
LEAST_OPEN_FILES = 512
# TVM with LLVM takes 1 GiB of addresses; a session that reads 512 MiB has them twice; more threads take more.
LEAST_ADDRESS_BYTES = 4 << 30


def require_limits() -> None:
    """Raise the limit on open files where this process may, and refuse what is too little.

    Raises:
        MachineLimitError: a limit is too low; found out later, it would look like a device's or a candidate's fault.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_less(soft, LEAST_OPEN_FILES):
        wanted = LEAST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(LEAST_OPEN_FILES, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_less(files, LEAST_OPEN_FILES):
        raise MachineLimitError(f"the limit on open files (ulimit -n) must be at least {LEAST_OPEN_FILES}: {files}")
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if _is_less(addresses, LEAST_ADDRESS_BYTES):
        raise MachineLimitError(
            f"the limit on addresses (ulimit -v) must be at least {LEAST_ADDRESS_BYTES >> 10} KiB: {addresses >> 10}"
        )


def lower(limit: int, value: int) -> None:
    """Set a limit of this process, soft and hard, where it has no lower one."""
    _, hard = resource.getrlimit(limit)
    lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (lowest, lowest))


def _is_less(limit: int, least: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < least
