"""LLVM's tools as processes with a limit."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Sequence

from int8tune.rpc.errors import EstimateError

# The oldest version whose models of in-order cores were tried.
OLDEST_LLVM = 14
# The newest first; Debian's packages `llvm-19` and the like have the number in the tools' names.
_VERSIONS = ("", *(f"-{version}" for version in range(30, OLDEST_LLVM - 1, -1)))
MAX_OUTPUT_BYTES = 64 << 20


@functools.cache
def tool(name: str) -> str:
    """The path of one of LLVM's tools.

    Raises:
        EstimateError: it is not there, or too old.
    """
    found = next((path for suffix in _VERSIONS if (path := shutil.which(f"{name}{suffix}"))), None)
    if found is None:
        raise EstimateError(f"`{name}` is not installed: estimates need LLVM {OLDEST_LLVM} or newer")
    version = llvm_version(found)
    if version < OLDEST_LLVM:
        raise EstimateError(f"`{found}` is of LLVM {version}: estimates need LLVM {OLDEST_LLVM} or newer")
    return found


@functools.cache
def llvm_version(path: str) -> int:
    """The major version of a tool; 0 where it does not say."""
    said = _finish([path, "--version"], "", 20)
    match = re.search(r"LLVM version (\d{1,4})\.", said)
    return int(match[1]) if match else 0


def run_tool(name: str, arguments: Sequence[str], given: str, limit_s: float) -> str:
    """What a tool prints.

    Raises:
        EstimateError: it is not there, failed, or took too long.
    """
    return _finish([tool(name), *arguments], given, limit_s)


def _finish(command: Sequence[str], given: str, limit_s: float) -> str:
    try:
        ended = subprocess.run(command, input=given.encode(), capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        raise EstimateError(f"`{command[0]}` took over {limit_s:g} s") from None
    except OSError as error:
        raise EstimateError(f"`{command[0]}` can't be run: {error.strerror}") from None
    said = ended.stderr.decode(errors="replace").strip().splitlines()
    if ended.returncode:
        raise EstimateError(f"`{command[0]}` ended with {ended.returncode}: {said[0][:200] if said else 'no message'}")
    if len(ended.stdout) > MAX_OUTPUT_BYTES:
        raise EstimateError(f"`{command[0]}` printed over {MAX_OUTPUT_BYTES >> 20} MiB")
    return ended.stdout.decode(errors="replace")
