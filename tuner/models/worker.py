"""The process of one runtime: `python -m int8tune.tuner.models.worker`, told what to do as `tuner.bench.worker` is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from int8tune.rpc.wire.fields import Fields, integer, text
from int8tune.tuner.bench.worker import Options, mean_call_s, run_contestant
from int8tune.tuner.models.arrays import read_arrays, write_arrays
from int8tune.tuner.models.runtimes import RUNTIMES, Compiled, LoadedModel, Runtime

MOST_PROFILED = 10_000


class ModelRunner:
    """Runs a model on samples, and then again and again on the first of them."""

    def __init__(self, runtime: Runtime, threads: int) -> None:
        self._runtime = runtime
        self._threads = threads
        self._model: LoadedModel | None = None

    def version(self) -> str:
        from importlib.metadata import version

        return version(self._runtime.requires[0] if self._runtime.requires else "int8tune")

    def load(self, task: Mapping[str, object]) -> tuple[int, int]:
        """Load `model`, run it on each sample of the file `samples`, and write what it gives to the file `outputs`.

        Samples are consecutive runs of a model that keeps something from run to run.

        With `profile`, a number of runs, the times of a compiled model's calls are written to the file `times`.

        A file of samples has an array for each input, called by its number, whose first axis counts samples; one of
        outputs likewise.
        """
        fields = Fields("", task, ("model", "samples", "outputs", *task.keys() & {"profile", "times"}))
        model, samples, outputs = (Path(fields.read(name, text)) for name in ("model", "samples", "outputs"))
        self._model = None
        self._model = self._runtime.load(model, self._threads)
        inputs = read_arrays(samples)
        made = []
        in_turn = list(zip(*inputs, strict=True))
        for sample in in_turn:
            self._model.bind(sample)
            self._model.run()
            made.append(self._model.outputs())
        if in_turn:  # what is timed
            self._model.bind(in_turn[0])
        stacked = [np.stack(values) for values in zip(*made, strict=True)]
        write_arrays(outputs, stacked)
        if "profile" in task:
            assert isinstance(self._model, Compiled)
            runs = fields.read("profile", integer(1, MOST_PROFILED))
            times_s = self._model.profile([array[0] for array in inputs], runs)
            write_arrays(Path(fields.read("times", text)), [times_s])
        return 0, 0

    def mean_s(self, calls: int) -> float:
        assert self._model is not None
        return mean_call_s(self._model.run, calls)


def _runner(options: Options) -> ModelRunner:
    return ModelRunner(RUNTIMES[str(options.peer)], len(options.core))


if __name__ == "__main__":
    run_contestant(_runner)
