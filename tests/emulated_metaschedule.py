"""MetaSchedule's process for an emulated GPU: `python -m emulated_metaschedule`, as `tuner.metaschedule.worker`."""

from emulated_gpus import compile_emulated
from faulty_metaschedule import load_intrinsics_of_tvm

from int8tune.tuner.metaschedule.job import Found, SearchJob
from int8tune.tuner.metaschedule.worker import main, search_layer


def compile_for_this_machine(source: str, arch: str) -> bytes:
    assert arch.startswith("sm_")
    return compile_emulated(source)


def run(job: SearchJob) -> Found:
    load_intrinsics_of_tvm("cuda")
    return search_layer(job, compile_for_this_machine)


if __name__ == "__main__":
    main(run)
