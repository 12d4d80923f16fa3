"""Runs a compiled model with TVM's runtime alone: neither int8tune nor TVM's compiler is needed where it runs.

    python examples/run_model.py MODEL.so [INPUT ...] [-o OUTPUTS.npz]

INPUT is a file of NumPy's (.npy) for each of the model's inputs, or a picture for one that takes images
(`pip install pillow`); without any, all inputs are zeros. A compiled model is code: trust where it comes from.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

os.environ["TVM_USE_RUNTIME_LIB"] = "1"  # read when TVM is imported

import tvm
from tvm.runtime.vm import VirtualMachine

Array = npt.NDArray[Any]
ABOUT_FORMAT = 1
DTYPES = {"f32": np.float32, "u8": np.uint8, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64}
RUNS, TOP = 50, 5
# What networks for ImageNet expect of the values of red, green and blue, between 0 and 1.
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
# Linux gives the registers of AMX to processes that ask: Documentation/arch/x86/xstate.rst.
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18


class Model:
    """A Relax executable in TVM's virtual machine.

    Attributes:
        about: what it says of itself: inputs, outputs, the CPU features that it needs.
    """

    def __init__(self, path: Path) -> None:
        machine = VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
        self.about = json.loads(bytes(machine["about"]().numpy()))
        if self.about["int8tune_model"] != ABOUT_FORMAT:
            raise ValueError("it is of another version")
        require_cpu(self.about)
        if self.about["threads"] > 1:
            # TVM has threads for half of a machine's processors otherwise, and idle ones keep a busy machine's process
            # from ending for minutes.
            os.environ.setdefault("TVM_NUM_THREADS", str(len(os.sched_getaffinity(0))))
            os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "500")
            tvm.get_global_func("runtime.config_threadpool")(1, self.about["threads"])
        self._main = machine["main"]

    def bind(self, arrays: Sequence[Array]) -> list[Any]:
        """Inputs as `run` takes them: copies, which begin where a vector may."""
        for form, array in zip(self.about["inputs"], arrays, strict=True):
            if array.dtype != DTYPES[form["type"]] or array.shape != tuple(form["shape"]):
                want = f"{np.dtype(DTYPES[form['type']])} {tuple(form['shape'])}"
                raise ValueError(f"input `{form['name']}` must be {want}: {array.dtype} {array.shape}")
        return [tvm.runtime.tensor(np.ascontiguousarray(array)) for array in arrays]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        made = self._main(*inputs)
        return [made] if len(self.about["outputs"]) == 1 else list(made)


def require_cpu(about: Mapping[str, Any]) -> None:
    """An instruction that a CPU lacks would end the process."""
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines()
    features = set(next(line for line in lines if line.startswith("flags")).split())
    if any(name.startswith("amx_") for name in about["needs"]):
        refused = ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) != 0
        features -= {name for name in features if refused and name.startswith("amx_")}
    if missing := sorted(set(about["needs"]) - features):
        raise ValueError(f"it was compiled for {about['target']}, this CPU lacks: {', '.join(missing)}")


def read_input(path: Path, form: Mapping[str, Any]) -> Array:
    if path.suffix == ".npy":
        found: Array = np.load(path, allow_pickle=False)
        return found
    return picture(path, form)


def picture(path: Path, form: Mapping[str, Any]) -> Array:
    """A picture as an input [1, 3, H, W] or [1, H, W, 3]: normalized in f32, its bytes in u8, those less 128 in s8."""
    from PIL import Image

    shape = tuple(form["shape"])
    channels_first = shape[1] == 3
    height, width = shape[2:] if channels_first else shape[1:3]
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB").resize((width, height)))
    if form["type"] == "f32":
        values = (pixels / np.float32(255) - MEAN) / DEVIATION
    else:
        values = pixels if form["type"] == "u8" else (pixels.astype(np.int16) - 128).astype(np.int8)
    return (values.transpose(2, 0, 1) if channels_first else values)[None]


def print_top(values: Array) -> None:
    flat = values.reshape(-1)
    for place in np.argsort(-flat.astype(np.float64), kind="stable")[:TOP]:
        print(f"{place:6}  {flat[place]:g}")


def print_times(model: Model, inputs: Sequence[Any]) -> None:
    times_ms = []
    for _ in range(RUNS):
        started = time.perf_counter()
        model.run(inputs)
        times_ms.append(1e3 * (time.perf_counter() - started))
    print(f"median of {RUNS} runs: {statistics.median(times_ms):.3f} ms, fastest {min(times_ms):.3f} ms")


def run_model(options: argparse.Namespace) -> None:
    model = Model(options.model)
    forms = model.about["inputs"]
    if options.inputs and len(options.inputs) != len(forms):
        raise ValueError(f"the model takes {len(forms)} inputs: {len(options.inputs)}")
    arrays = [read_input(path, form) for path, form in zip(options.inputs, forms, strict=False)]
    inputs = model.bind(arrays or [np.zeros(form["shape"], DTYPES[form["type"]]) for form in forms])
    outputs = [output.numpy() for output in model.run(inputs)]
    print_top(outputs[0])
    if options.output:
        np.savez(options.output, *outputs)
    print_times(model, inputs)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a compiled model with TVM's runtime alone.")
    parser.add_argument("model", type=Path, metavar="MODEL.so")
    parser.add_argument("inputs", type=Path, nargs="*", metavar="INPUT", help="an array (.npy) or a picture for each")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.npz", help="where to write the outputs")
    options = parser.parse_args()
    try:
        run_model(options)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        sys.exit(f"error: {options.model}: {str(error).strip().splitlines()[-1]}")


if __name__ == "__main__":
    main()
