"""What a profile costs: `python -m tests.profile_costs MODEL SAMPLES.npy`; its output stands in `docs/quantization.md`.

Memory is that of a process of its own after 200 and after 2,000 samples, which are repeated as often as needed. Times
stand beside those of a process that runs the model on one core on the same samples, one after the other.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from int8tune.quantize.float_model import read_float_model
from int8tune.quantize.samples.given import samples_of
from int8tune.quantize.session import run_session, start_session
from tests.support.places import PYTHON_PATH

FEW, MANY = 200, 2000
LIMIT_S = 600


def main() -> None:
    """Print a line for each number of samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("samples", help="as `int8tune profile --data` takes them")
    parser.add_argument("--part", choices=("profile", "run"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        _part(arguments.part, arguments.model, arguments.samples)
        return
    with tempfile.TemporaryDirectory() as folder:
        model = read_float_model(arguments.model)
        (one,) = model.inputs
        arrays = [batch[one.name] for batch in samples_of(arguments.samples, FEW).batches(model.inputs)]
        print("samples  profile, MB  profile, s  of cores, s  running it, s  ratio  of cores")
        for count in (FEW, MANY):
            path = Path(folder) / f"{count}.npy"
            np.save(path, np.resize(np.concatenate(arrays), (count, *arrays[0].shape[1:])))
            memory, time_s, core_s = _costs("profile", arguments.model, path)
            _, running_s, running_core_s = _costs("run", arguments.model, path)
            times = f"{time_s:10.2f}  {core_s:11.2f}  {running_s:13.2f}"
            print(f"{count:7}  {memory:11.0f}  {times}  {time_s / running_s:5.2f}  {core_s / running_core_s:8.2f}")


def _costs(part: str, model: Path, samples: Path) -> tuple[float, float, float]:
    """Megabytes that a process took at most; without its start, its seconds and those of all cores together."""
    command = [sys.executable, "-P", "-m", "tests.profile_costs", str(model), str(samples), "--part", part]
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True, env=environment)
    memory, time_s, core_s = map(float, done.stdout.split())
    return memory, time_s, core_s


def _part(part: str, path: Path, samples: str) -> None:
    started_s, started_core_s = time.perf_counter(), _core_s()
    model = read_float_model(path)
    if part == "profile":
        from int8tune.quantize.profiler import profile

        profile(model, samples_of(samples))
    else:
        session = start_session(path, model.proto)
        names = [value.name for value in session.get_outputs()]
        for batch in samples_of(samples).batches(model.inputs):
            for number in range(len(batch[model.inputs[0].name])):
                run_session(path, session, names, {name: each[number : number + 1] for name, each in batch.items()})
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(memory, time.perf_counter() - started_s, _core_s() - started_core_s)


def _core_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
