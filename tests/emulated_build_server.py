"""The build server for an emulated GPU: run as `python -m emulated_build_server` in place of the real one.

Kernels become code for this machine in place of NVIDIA's, and the loops that measure a GPU are short.
"""

from collections.abc import Callable

from emulated_gpus import compile_emulated

import schedules.cuda.probe_kernels
import schedules.probes
import tuner.build.compile
from tuner.build.server import main


def compile_for_this_machine(source: str, arch: str, advise: Callable[[str], None]) -> bytes:  # noqa: ARG001
    assert arch.startswith("sm_")
    return compile_emulated(source)


if __name__ == "__main__":
    tuner.build.compile.compile_cubin = compile_for_this_machine  # type: ignore[assignment]
    schedules.probes.GPU_BLOCKS, schedules.probes.GPU_THREADS, schedules.probes.GPU_STEPS = 1, 32, 2
    schedules.cuda.probe_kernels.GROUP_COLUMNS = schedules.cuda.probe_kernels.GROUP_DEPTH = 32
    main()
