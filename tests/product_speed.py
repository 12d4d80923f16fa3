"""How long products of attention take beside ONNX Runtime's QLinearMatMul, one thread: `python -m tests.product_speed`.

What is timed here are the call that packs the second matrices and the one that multiplies; both sides take turns.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from int8tune.compiler.compile import compile_model
from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Schedules
from tests.support.kernels.medians import median_s
from tests.support.models.onnx_products import Shape, product
from tests.support.run.probes import host_target

ROUNDS, RUNS = 30, 10
ZERO_POINTS = (13, 200, 100)
SCALES = (0.02, 0.03, 0.05)
PROFILES = ("x86-amx", "x86-avx512vnni")
# The scores of twelve heads, and what they weigh: of 128 tokens, and of 197 patches.
SHAPES: list[tuple[Shape, Shape]] = [
    ((12, 128, 64), (12, 64, 128)),
    ((12, 128, 128), (12, 128, 64)),
    ((12, 197, 64), (12, 64, 197)),
    ((12, 197, 197), (12, 197, 64)),
]


def session_of(shapes: tuple[Shape, Shape]) -> Any:
    """ONNX Runtime's operator alone."""
    constants, names = [], []
    for name, scale, zero_point in zip("xwy", SCALES, ZERO_POINTS, strict=True):
        constants.append(onnx.numpy_helper.from_array(np.array(scale, np.float32), f"{name}.scale"))
        constants.append(onnx.numpy_helper.from_array(np.array(zero_point, np.uint8), f"{name}.zero"))
        names += [*([name] if name != "y" else []), f"{name}.scale", f"{name}.zero"]
    node = onnx.helper.make_node("QLinearMatMul", names, ["y"])
    stored = onnx.TensorProto.UINT8
    inputs = [onnx.helper.make_tensor_value_info(name, stored, shape) for name, shape in zip("xw", shapes, strict=True)]
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    data = onnx.shape_inference.infer_shapes(model).SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def compiled(shapes: tuple[Shape, Shape], profile: str, folder: Path) -> CompiledModel:
    library, target = folder / "model.so", host_target(profile)
    compile_model(read_onnx(product(shapes, ("u8", "u8", ZERO_POINTS)), "net"), target, Schedules(target), library)
    return CompiledModel(library)


def line(shapes: tuple[Shape, Shape], profile: str, folder: Path) -> str:
    """The least of medians, in microseconds: a neighbour takes the core from either side."""
    rng, model, session = np.random.default_rng(0), compiled(shapes, profile, folder), session_of(shapes)
    numbers = [rng.normal(0, 1, shape).astype(np.float32) for shape in shapes]
    stored = {name: rng.integers(0, 256, shape).astype(np.uint8) for name, shape in zip("xw", shapes, strict=True)}
    calls = [call for call in model.about.calls if call["kernel"]]
    packing, multiplying, theirs = [], [], []
    for _ in range(ROUNDS):
        times = [float(np.median(each.times_s)) for each in model.profile(numbers, RUNS)]
        packing.append(sum(t for t, call in zip(times, calls, strict=True) if call["kernel"].startswith("pack")))
        multiplying.append(sum(t for t, call in zip(times, calls, strict=True) if call["kernel"].startswith("matmul")))
        theirs.append(median_s(lambda: session.run(None, stored), RUNS))
    pack, multiply, other = (min(each) * 1e6 for each in (packing, multiplying, theirs))
    name = " times ".join("x".join(map(str, shape)) for shape in shapes)
    return f"| {name} | {profile} | {pack:,.1f} | {multiply:,.1f} | {other:,.1f} | {other / (pack + multiply):.2f} |"


def main() -> None:
    print("| product | target | packing, us | multiplying, us | ONNX Runtime, us | times ours |\n|-|-|-|-|-|-|")
    for profile in PROFILES:
        for shapes in SHAPES:
            with tempfile.TemporaryDirectory() as folder:
                print(line(shapes, profile, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
