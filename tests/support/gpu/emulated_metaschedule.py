"""MetaSchedule's process for an emulated GPU: run as `tuner.metaschedule.worker`."""

from int8tune.tuner.metaschedule.job import Found, SearchJob
from int8tune.tuner.metaschedule.worker import main, search_layer
from tests.support.gpu.emulated import compile_emulated
from tests.support.stand_ins.faulty_metaschedule import load_intrinsics_of_tvm


def compile_for_this_machine(source: str, arch: str) -> bytes:
    assert arch.startswith("sm_")
    return compile_emulated(source)


def run(job: SearchJob) -> Found:
    load_intrinsics_of_tvm("cuda")
    return search_layer(job, compile_for_this_machine)


if __name__ == "__main__":
    main(run)
