"""A process that reads one folder after the other, and says how each ended: `python -m tests.fuzz.child KIND`."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import traceback
from pathlib import Path

from tests.fuzz.kinds import KINDS, Kind

SPARE_BYTES = 1 << 30
_CLEAR_PEAK = "5"


def main() -> None:
    kind = KINDS[sys.argv[1]]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    with tempfile.TemporaryDirectory() as folder:
        kind.make(Path(folder))
        kind.read(Path(folder))  # and import what that takes
    used = _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * SPARE_BYTES,) * 2)
    print("ready", file=answers)
    for line in sys.stdin:
        print(json.dumps(_read(kind, Path(line.rstrip("\n")))), file=answers)


def _read(kind: Kind, folder: Path) -> dict[str, object]:
    Path("/proc/self/clear_refs").write_text(_CLEAR_PEAK)
    before = _status("VmRSS")
    try:
        kind.read(folder)
        outcome, what = "read", ""
    except MemoryError:
        outcome, what = "memory", traceback.format_exc()[-2000:]
    except kind.refusals as error:
        outcome, what = "refused", f"{type(error).__name__}: {error}"
        if len(what) > 20_000:
            outcome, what = "endless message", what[:300]
    except BaseException:
        outcome, what = "fault", traceback.format_exc()[-3000:]
    grew = _status("VmHWM") - before
    if grew > SPARE_BYTES:
        outcome, what = "memory", f"{grew >> 20} MiB more: {what}"
    return {"outcome": outcome, "what": what}


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main()
