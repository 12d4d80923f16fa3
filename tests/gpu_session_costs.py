"""What a trial takes on the emulated GPU, by how long its driver takes to start: `python -m tests.gpu_session_costs`.

The output stands in docs/cuda.md. Kernels run on a CPU here: what differs between the rows is the driver's start.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import mean

from int8tune.results.record import Outcome
from int8tune.rpc.request import Timing
from int8tune.rpc.transports.agent import AgentTransport
from tests.rpc.test_gpu import BOARD, agent_with_gpu
from tests.support.gpu.kernels import build_gpu_kernels
from tests.support.kernels.rpc_kernels import Kernels

STARTS_MS = (0, 300, 1000)
TRIALS = 12
TIMING = Timing(repeats=7, min_repeat_s=0.002)


def trials_s(folder: Path, kernels: Kernels, start_ms: int) -> list[float]:
    """How long requests take that follow each other at once."""
    launcher = agent_with_gpu(folder, start_ms=start_ms)
    taken_s = []
    with AgentTransport(BOARD, (str(launcher),)) as transport:
        transport.start()
        for _ in range(TRIALS):
            began = time.monotonic()
            reply = transport.run(kernels.request("increment", timing=TIMING, probe="increment"))
            taken_s.append(time.monotonic() - began)
            assert reply.outcome is Outcome.OK, reply.error
    return taken_s


def main() -> None:
    print("| the driver starts in | mean of a trial | fastest | slowest |\n|-|-|-|-|")
    with tempfile.TemporaryDirectory() as folder:
        kernels = build_gpu_kernels(Path(folder))
        for start_ms in STARTS_MS:
            taken_s = trials_s(Path(folder) / str(start_ms), kernels, start_ms)
            numbers = " | ".join(f"{value:.2f} s" for value in (mean(taken_s), min(taken_s), max(taken_s)))
            print(f"| {start_ms / 1000:.1f} s | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
