"""Layers beside other libraries, without TVM: `python3 run_layers.py FOLDER RESULT`, by PyTorch and CuPy.

All outputs of each kernel are compared with sums in double precision, on two sets of values, before it is timed.
A turn is a graph of calls between two events; contestants have turns one after the other. The first turns say which
kernel, and which of cuBLASLt's algorithms, is the fastest; the others are what is reported, so that nobody is chosen by
the times that are told of him.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHOOSING, TOLD = 3, 7
# Of a turn, as long as the work takes at so many operations a second.
TURN_S, EXPECTED_OPS, MOST_CALLS = 0.0006, 1e15, 100
ALGORITHMS, WORKSPACE_BYTES, ALIGNMENT = 6, 32 << 20, 16
T_95 = 2.447  # Student's, of seven turns


def main(folder: Path, result: Path) -> int:
    sys.path.insert(0, str(folder / "own"))
    try:
        import cupy
        import torch
    except ImportError as error:
        print(f"left out: {error}")
        return 0
    if not torch.cuda.is_available():
        print("left out: PyTorch finds no GPU")
        return 0
    table = json.loads((folder / "layers.json").read_text())
    board = Board(folder, torch, cupy)
    print(f"{torch.cuda.get_device_name()}, cuBLASLt {board.lt.version if board.lt else 'not found'}", flush=True)
    found: dict[str, Any] = {}
    for key, layer in table["layers"].items():
        begun = time.monotonic()
        found[key] = board.measure(key, layer)
        print(line_of(key, found[key], time.monotonic() - begun), flush=True)
        result.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "layers": found}))
    for name, keys in table["groups"].items():
        for against in ("copy",) if name.startswith("depthwise") else ("cublaslt", "triton"):
            print(summary(name, against, [found[key] for key in keys]), flush=True)
    wrong = sum(len(one["wrong"]) for one in found.values())
    checked = sum(len(one["us"]) + len(one["wrong"]) for one in found.values())
    print(f"{wrong} of {checked} contestants wrong")
    return int(wrong > 0)


@dataclass(frozen=True)
class Case:
    """Operands, the outputs that they have, memory for a kernel's, and what was packed for kernels so far."""

    operands: Any
    expected: Any
    out: Any
    packed: dict[Any, dict[str, Any]]


class Board:
    """The GPU, with PyTorch's stream for everything."""

    def __init__(self, folder: Path, torch: Any, cupy: Any) -> None:
        self.folder, self.torch, self.cupy = folder, torch, cupy
        self.device = torch.device("cuda")
        self.stream = torch.cuda.Stream()
        self.external = cupy.cuda.ExternalStream(self.stream.cuda_stream)
        self.workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=self.device)
        self.lt = self._cublaslt()
        self.triton = self._triton()

    def _cublaslt(self) -> Any:
        from int8tune.tuner.bench.gpu.peers.lt import Lt

        places = sorted((Path(self.torch.__file__).parents[1] / "nvidia").glob("**/libcublasLt.so.1*"))
        return Lt(places[0]) if places else None

    def _triton(self) -> Any:
        try:
            from int8tune.tuner.bench.gpu.peers.triton_kernel import multiply
        except ImportError as error:
            print(f"left out: {error}")
            return None
        return multiply

    def measure(self, key: str, layer: dict[str, Any]) -> dict[str, Any]:
        """Microseconds of each contestant's told turns, and who was wrong."""
        from int8tune.schedules.workload import parse_workload

        workload = parse_workload(key)
        cases = [self.case(workload, extreme) for extreme in (True, False)]
        contestants, wrong = {}, []
        for spec in layer["kernels"]:
            name = name_of(layer["template"], spec["config"])
            runs = [self.kernel(workload, layer["template"], spec, case) for case in cases]
            if all(self.is_right(run, case) for run, case in zip(runs, cases, strict=True)):
                contestants[name] = runs[1]
            else:
                wrong.append(name)
        contestants.update(self.peers(workload))
        return {"us": self.times(contestants, 2 * workload.macs), "wrong": wrong}

    def case(self, workload: Any, extreme: bool) -> Case:
        import numpy as np

        from int8tune.schedules.operands import Operands

        torch = self.torch
        rng = np.random.default_rng(len(workload.key) + extreme)
        data = rng.integers(0, 256, workload.data_shape, np.uint8)
        weight = rng.integers(-128, 128, workload.weight_shape, np.int8)
        if extreme:
            data, weight = (data >> 7) * np.uint8(255), np.where(weight < 0, -128, 127).astype(np.int8)
        depth = weight[0].size  # of depthwise layers, the window's
        scale = (rng.random(workload.out_channels, np.float32) + np.float32(0.5)) * np.float32(
            40 / (74 * 148 * math.sqrt(depth))
        )
        bias = rng.integers(-(1 << 16), 1 << 16, workload.out_channels, np.int32)
        operands = Operands(data, weight, bias, 0, 255, data_zero_point=0 if extreme else 113, output_zero_point=128,
                            scale=scale)  # fmt: skip
        sums = self.sums(workload, operands) + torch.from_numpy(bias).to(self.device).double()
        scaled = sums.float() * torch.from_numpy(scale).to(self.device)
        expected = (scaled.round() + 128).clamp(0, 255).to(torch.uint8).reshape(-1)
        return Case(operands, expected, torch.empty_like(expected), {})

    def sums(self, workload: Any, operands: Any) -> Any:
        """[rows, channels] in double precision, in which they are exact."""
        torch = self.torch
        data = torch.from_numpy(operands.data).to(self.device).double() - operands.data_zero_point
        weight = torch.from_numpy(operands.weight).to(self.device).double()
        if is_depthwise(workload):
            patches = self.patches(data, workload.window)
            return (patches.reshape(len(patches), -1, len(weight)) * weight.reshape(len(weight), -1).t()).sum(1)
        if data.ndim == 4:
            data = self.patches(data, workload.window)
        return data @ weight.reshape(len(weight), -1).t()

    def patches(self, data: Any, window: Any) -> Any:
        """A row for each pixel of the output: the pixels under the window there."""
        top, left, bottom, right = window.padding
        data = self.torch.nn.functional.pad(data, (0, 0, left, right, top, bottom))
        for axis in range(2):
            dilation, stride = window.dilation[axis], window.stride[axis]
            data = data.unfold(1 + axis, dilation * (window.kernel[axis] - 1) + 1, stride)[..., ::dilation]
        batch, height, width = data.shape[:3]
        return data.permute(0, 1, 2, 4, 5, 3).reshape(batch * height * width, -1)

    def kernel(self, workload: Any, template: str, spec: dict[str, Any], case: Case) -> Any:
        """What runs a kernel on the operands of a case."""
        operands, out, packed = case.operands, case.out, case.packed
        import numpy as np

        from int8tune.schedules.arguments import kernel_inputs
        from int8tune.schedules.cuda.forms import form_of
        from int8tune.schedules.template import Kernel

        form = form_of(template, workload, spec["config"])
        order = form.weight_order
        if order not in packed:
            sizes = (math.prod(workload.data_shape),), (math.prod(workload.output_shape),)
            inputs = kernel_inputs(workload, Kernel(None, form, *sizes), operands)
            given = (self.torch.from_numpy(np.ascontiguousarray(one)).to(self.device) for one in inputs)
            packed[order] = dict(zip(("data", "weight", "bias", "rescale", "params"), given, strict=True))
        arrays = {**packed[order], "out": out}
        if spec["partial_sums"]:
            arrays["partial"] = self.torch.empty(spec["partial_sums"], dtype=self.torch.int32, device=self.device)
        module = self.cupy.RawModule(path=str(self.folder / spec["cubin"]))
        launches = []
        for launch in spec["launches"]:
            function = module.get_function(launch["kernel"])
            if launch["shared_bytes"]:
                function.max_dynamic_shared_size_bytes = launch["shared_bytes"]
            grid = (*launch["grid"], *(1,) * (3 - len(launch["grid"])))
            places = tuple(np.uint64(arrays[name].data_ptr()) for name in launch["order"])
            launches.append((function, grid, (launch["threads"],), places, launch["shared_bytes"]))

        def run() -> None:
            assert arrays  # they live as long as this
            for function, grid, block, arguments, shared_bytes in launches:
                function(grid, block, arguments, shared_mem=shared_bytes, stream=self.external)

        return run

    def is_right(self, run: Any, case: Case) -> bool:
        case.out.copy_(~case.expected)
        self.torch.cuda.synchronize()
        run()
        self.torch.cuda.synchronize()
        return bool((case.out == case.expected).all())

    def peers(self, workload: Any) -> dict[str, Any]:
        """Products of the layer's size, on s8 values: a convolution's matrix is there already."""
        torch = self.torch
        if is_depthwise(workload):
            # Half of the bytes are read and half are written.
            moved = math.prod(workload.data_shape) + math.prod(workload.output_shape)
            of, to = (torch.empty(moved // 2, dtype=torch.uint8, device=self.device) for _ in range(2))
            return {"copy": lambda: to.copy_(of, non_blocking=True)}
        channels, depth = workload.out_channels, math.prod(workload.weight_shape[1:])
        rows = math.prod(workload.output_shape) // channels
        wide, deep = (-(-size // ALIGNMENT) * ALIGNMENT for size in (channels, depth))
        data, weight = (
            torch.randint(-128, 128, shape, dtype=torch.int8, device=self.device)
            for shape in ((rows, deep), (wide, deep))
        )
        found = {}
        for kind in ("s8", "s32") if self.lt else ():
            found.update(self.cublaslt(data, weight, kind))
        # Its kernels are compiled once more for rows that are no multiple of 16, which takes as long as all layers.
        if self.triton and rows % ALIGNMENT == 0:
            bias = torch.zeros(wide, dtype=torch.int32, device=self.device)
            scale = torch.full((wide,), 40 / (74 * 74 * math.sqrt(depth)), device=self.device)
            out = torch.empty((rows, wide), dtype=torch.int8, device=self.device)
            found["triton"] = lambda: self.triton(data, weight, bias, scale, out)
        return found

    def cublaslt(self, data: Any, weight: Any, kind: str) -> dict[str, Any]:
        from int8tune.tuner.bench.gpu.peers.lt import DataType, Layout, Places, Product
        from int8tune.tuner.bench.peers.base import PeerError

        (rows, deep), wide = data.shape, weight.shape[0]
        s8, torch = DataType.CUDA_R_8I, self.torch
        out = torch.empty((rows, wide), dtype=torch.int8 if kind == "s8" else torch.int32, device=self.device)
        element = s8 if kind == "s8" else DataType.CUDA_R_32I
        try:
            product = Product(self.lt, (Layout(s8, deep, wide, deep), Layout(s8, deep, rows, deep)),
                              Layout(element, wide, rows, wide), 1e-4, self.stream.cuda_stream)  # fmt: skip
            algorithms = product.algorithms(ALGORITHMS, WORKSPACE_BYTES)
        except PeerError as error:
            print(f"cublaslt-{kind}: {error}")
            return {}
        places = Places(weight.data_ptr(), data.data_ptr(), out.data_ptr(), self.workspace.data_ptr())

        def runs(algorithm: Any) -> Any:
            def run() -> None:
                assert data is not out  # all three live as long as this
                product.enqueue(algorithm, places)

            return run

        return {f"cublaslt-{kind}-{index}": runs(algorithm) for index, algorithm in enumerate(algorithms)}

    def times(self, contestants: dict[str, Any], ops: int) -> dict[str, list[float]]:
        torch = self.torch
        calls = max(2, min(MOST_CALLS, int(TURN_S / max(2e-6, ops / EXPECTED_OPS))))
        graphs = {}
        for name, run in contestants.items():
            try:
                graphs[name] = self.graph(run, calls)
            except Exception as error:  # another library's, which says what it is
                print(f"failed: {name}: {str(error)[:150]}")
        found: dict[str, list[float]] = {name: [] for name in graphs}
        begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(CHOOSING + TOLD):
            for name, graph in graphs.items():
                with torch.cuda.stream(self.stream):
                    graph.replay()
                    begun.record(self.stream)
                    graph.replay()
                    done.record(self.stream)
                    done.synchronize()
                found[name].append(begun.elapsed_time(done) / calls * 1e3)
        return found

    def graph(self, run: Any, calls: int) -> Any:
        torch = self.torch
        with torch.cuda.stream(self.stream):
            run()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            for _ in range(calls):
                run()
            graph.capture_end()
        return graph


def is_depthwise(workload: Any) -> bool:
    return bool(workload.op == "dwconv2d")


def name_of(template: str, config: dict[str, Any]) -> str:
    if "stages" not in config:
        return f"{template} {', '.join(f'{name}={value}' for name, value in config.items())}"
    roles = config.get("roles", "uniform")
    sizes = "x".join(str(config[name]) for name in ("block_rows", "block_channels", "block_depth"))
    sums = f"{config['thread_rows']}x{config['thread_channels']}"
    splits = f", {config['splits']} splits" if config["splits"] > 1 else ""
    splits += " in a cluster" if config.get("added") == "cluster" else ""
    kind = "" if roles == "uniform" else f", {roles}"
    return f"{template} {sizes}, {sums} a thread, {config['stages']} stages{splits}{kind}"


def best(layer: dict[str, Any], start: str) -> list[float] | None:
    """The told turns of the contestant that was fastest in the choosing ones, of those whose names begin so."""
    named = {name: us for name, us in layer["us"].items() if name.startswith(start)}
    if not named:
        return None
    fastest: list[float] = min(named.values(), key=lambda us: statistics.median(us[:CHOOSING]))
    return fastest[CHOOSING:]


def default_of(layer: dict[str, Any]) -> list[float]:
    """The told turns of the first kernel, if it was right, else of the one after it."""
    first: list[float] = next(iter(layer["us"].values()))
    return first[CHOOSING:]


def line_of(key: str, layer: dict[str, Any], taken_s: float) -> str:
    own = best(layer, "cuda.")
    if own is None:
        return f"{key}: no kernel, wrong: {layer['wrong']}"
    default = default_of(layer)
    texts = [f"{statistics.median(own):8.2f} us, default {statistics.median(default):8.2f}"]
    for name in ("cublaslt", "triton", "copy"):
        if other := best(layer, name):
            ratio = statistics.median(other) / statistics.median(own)
            texts.append(f"{name} {statistics.median(other):8.2f} ({ratio:.2f})")
    wrong = f" WRONG {layer['wrong']}" if layer["wrong"] else ""
    return f"{', '.join(texts)}  {key}  {taken_s:.1f} s{wrong}"


def summary(name: str, against: str, layers: list[dict[str, Any]]) -> str:
    """The geometric mean of the layers' ratios, with its 95 % interval over turns: of the fastest, and of defaults."""
    texts = []
    compared = [one for one in layers if best(one, against) and best(one, "cuda.")]
    for whose, own_of in (("best", lambda one: best(one, "cuda.")), ("default", default_of)):
        pairs = [(own_of(one) or [], best(one, against) or []) for one in compared]
        if not pairs:
            return f"{name} to {against}: nothing to compare"
        turns = [statistics.fmean(math.log(other[turn] / own[turn]) for own, other in pairs) for turn in range(TOLD)]
        mean, half = statistics.fmean(turns), T_95 * statistics.stdev(turns) / math.sqrt(TOLD)
        texts.append(f"{whose} {math.exp(mean):.3f} [{math.exp(mean - half):.3f}, {math.exp(mean + half):.3f}]")
    return f"{name} to {against}, {len(pairs)} layers: {', '.join(texts)}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
