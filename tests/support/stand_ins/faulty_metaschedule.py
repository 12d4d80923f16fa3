"""Searches that go wrong, each in its own way: run as `tuner.metaschedule.worker`.

The job's intrinsic says how.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

from int8tune.tuner.metaschedule.job import FOUND_FILE, Found, SearchJob
from int8tune.tuner.metaschedule.worker import main, search_layer

INTRINSICS = "tvm.s_tir.tensor_intrin"
SATURATING = "dot_16x4_avx512"
HANGS, CRASHES, RAISES, LIES, FINDS_NOTHING = "hangs", "crashes", "raises", "lies", "finds nothing"


@functools.cache
def load_intrinsics_of_tvm(family: str = "x86") -> None:
    """Register those of one file alone: with all of them it takes 15 s.

    For each function's source TVM walks the stack, and for each frame all modules there are, which are thousands in a
    test: they are left out.
    """
    import tvm.s_tir

    place = Path(tvm.s_tir.__path__[0]) / "tensor_intrin" / f"{family}.py"
    spec = importlib.util.spec_from_file_location(f"{INTRINSICS}.{family}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.object(inspect, "getmodule", lambda *_: None):
        spec.loader.exec_module(module)
    sys.modules.setdefault(INTRINSICS, module)


def run(job: SearchJob) -> Found:
    if job.intrinsic == HANGS:
        # As a worker of MetaSchedule's that is out of sight.
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        time.sleep(600)
    if job.intrinsic == CRASHES:
        os.kill(os.getpid(), signal.SIGSEGV)
    if job.intrinsic == RAISES:
        raise ValueError("no candidates today:\nall are ill")
    if job.intrinsic == LIES:
        (Path(job.folder) / FOUND_FILE).write_text('{"trials": -1}')
        os._exit(0)
    if job.intrinsic == FINDS_NOTHING:
        return Found(job.trials, job.trials, 1.0, None, "0.0")
    load_intrinsics_of_tvm()
    return search_layer(job)


if __name__ == "__main__":
    main(run)
