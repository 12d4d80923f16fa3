"""The build server for an emulated GPU: run in place of the real one.

Kernels become code for this machine in place of NVIDIA's, and the loops that measure a GPU are short.
"""

from collections.abc import Callable

from int8tune.schedules import probes
from int8tune.schedules.cuda import probe_kernels
from int8tune.tuner.builder import compile
from int8tune.tuner.builder.server import main
from tests.support.gpu.emulated import compile_emulated


def compile_for_this_machine(source: str, arch: str, advise: Callable[[str], None]) -> bytes:  # noqa: ARG001
    assert arch.startswith("sm_")
    return compile_emulated(source)


if __name__ == "__main__":
    compile.compile_cubin = compile_for_this_machine  # type: ignore[assignment,attr-defined]
    probes.GPU_BLOCKS, probes.GPU_THREADS, probes.GPU_STEPS = 1, 32, 8
    probe_kernels.GROUP_COLUMNS = probe_kernels.GROUP_DEPTH = 32
    main()
