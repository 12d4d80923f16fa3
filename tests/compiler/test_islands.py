"""Operators in float, compiled, beside ONNX Runtime; and what is around them, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.islands.supported import MICROSOFT, STANDARD
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import SHAPE, Build, IslandWriter, assert_close, compiled, feed_of, outputs_of
from tests.support.models.onnx_models import values_of
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which islands are compared with")

RNG = np.random.default_rng(1)
IMAGE, ROW, MATRIX = RNG.normal(size=SHAPE), RNG.normal(size=SHAPE[-1]), RNG.normal(size=(SHAPE[-1], 7))
CHANNELS = [RNG.uniform(0.5, 2, SHAPE[1]) for _ in range(4)]
AXES = np.array([-1])


def unary(operator: str, **attributes: Any) -> Build:
    return lambda w: w.apply(operator, w.data, **attributes)


def with_constants(operator: str, *constants: Any, **attributes: Any) -> Build:
    return lambda w: w.apply(operator, w.data, *constants, **attributes)


def positive(operator: str) -> Build:
    """On values above 1, where the function is defined and smooth."""
    return lambda w: w.apply(operator, w.apply("Add", w.apply("Abs", w.data), 1.25))


def within_one(operator: str) -> Build:
    return lambda w: w.apply(operator, w.apply("Mul", w.apply("Tanh", w.data), 0.9))


def truth(w: IslandWriter) -> str:
    return w.apply("Greater", w.data, 0.1)


def as_number(w: IslandWriter, name: str) -> str:
    return w.apply("Cast", name, to=1)


def as_integer(w: IslandWriter) -> str:
    return w.apply("Cast", w.apply("Floor", w.apply("Mul", w.data, 99.0)), to=6)


def with_bits(operator: str) -> Build:
    return lambda w: as_number(w, w.apply(operator, as_integer(w), np.arange(8, dtype=np.int32) - 3))


def indices(w: IslandWriter, *shape: int, most: int) -> str:
    """Indices that are computed of the data."""
    flat = w.apply("Reshape", w.apply("Floor", w.apply("Mul", w.apply("Sigmoid", w.data), most - 0.01)), np.array([-1]))
    count = int(np.prod(shape))
    part = w.apply("Slice", flat, np.array([0]), np.array([count]))
    return w.apply("Cast", w.apply("Reshape", part, np.array(shape)), to=7)


def dynamic(w: IslandWriter) -> str:
    stored = w.apply("DynamicQuantizeLinear", w.data, outputs=3)
    weight = w.constant("stored weight", RNG.integers(-127, 128, MATRIX.shape), np.int8)
    return as_number(w, w.apply("MatMulInteger", stored, weight, f"{stored}.2"))


# Compiled at once; the quick run has the first of them.
SHARES = 16
BUILDS: dict[str, list[Build]] = {
    **{name: [with_constants(name, ROW)] for name in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Mean")},
    "Mod": [with_constants("Mod", 0.7, fmod=1)],
    "Pow": [with_constants("Pow", 2.0), with_constants("Pow", np.array(3))],
    **{
        name: [lambda w, name=name: as_number(w, w.apply(name, w.data, ROW))]
        for name in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
    },
    **{
        name: [lambda w, name=name: as_number(w, w.apply(name, truth(w), w.apply("Less", w.data, 0.5)))]
        for name in ("And", "Or", "Xor")
    },
    "Not": [lambda w: as_number(w, w.apply("Not", truth(w)))],
    **{name: [unary(name)] for name in ("Abs", "Neg", "Exp", "Erf", "Sign", "Floor", "Ceil", "Round", "Sin", "Cos")},
    **{name: [unary(name)] for name in ("Tan", "Atan", "Sinh", "Cosh", "Asinh", "Tanh", "Sigmoid", "Softplus")},
    **{name: [unary(name)] for name in ("Softsign", "Relu", "Mish", "HardSwish", "Gelu", "FastGelu", "Identity")},
    **{name: [positive(name)] for name in ("Reciprocal", "Sqrt", "Log", "Acosh")},
    **{name: [within_one(name)] for name in ("Asin", "Acos", "Atanh")},
    "LeakyRelu": [unary("LeakyRelu", alpha=0.3)],
    "PRelu": [with_constants("PRelu", RNG.normal(size=(SHAPE[1], 1, 1)))],
    "Elu": [unary("Elu", alpha=0.7)],
    "Selu": [unary("Selu")],
    "ThresholdedRelu": [unary("ThresholdedRelu", alpha=0.4)],
    "Shrink": [unary("Shrink", lambd=0.3, bias=0.1)],
    "HardSigmoid": [unary("HardSigmoid", alpha=0.3, beta=0.4)],
    "BiasGelu": [with_constants("BiasGelu", ROW)],
    **{word: [with_bits(word)] for word in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "BitwiseNot": [lambda w: as_number(w, w.apply("BitwiseNot", as_integer(w)))],
    "IsInf": [lambda w: as_number(w, w.apply("IsInf", w.apply("Div", 1.0, w.data)))],
    "IsNaN": [lambda w: as_number(w, w.apply("IsNaN", w.apply("Sqrt", w.data)))],
    "Where": [lambda w: w.apply("Where", truth(w), w.data, ROW)],
    "Cast": [lambda w: as_number(w, w.apply("Cast", w.data, to=6))],
    "Dropout": [unary("Dropout")],
    **{name: [unary(name, axis=axis) for axis in (-1, 1)] for name in ("Softmax", "LogSoftmax", "Hardmax")},
    "LayerNormalization": [
        with_constants("LayerNormalization", ROW, RNG.normal(size=SHAPE[-1])),
        with_constants("LayerNormalization", RNG.normal(size=SHAPE[2:]), axis=2, epsilon=0.01),
    ],
    "RMSNormalization": [],  # of a later version, below
    "InstanceNormalization": [with_constants("InstanceNormalization", *CHANNELS[:2])],
    "BatchNormalization": [with_constants("BatchNormalization", *CHANNELS)],
    "LRN": [unary("LRN", size=3)],
    "Conv": [
        with_constants("Conv", RNG.normal(size=(7, 6, 3, 3)), RNG.normal(size=7), pads=[1, 0, 1, 2], strides=[2, 1]),
        with_constants("Conv", RNG.normal(size=(16, 6, 1, 1))),
        with_constants("Conv", RNG.normal(size=(6, 1, 3, 3)), group=6, pads=[1] * 4),
        with_constants("Conv", RNG.normal(size=(4, 3, 2, 2)), group=2, dilations=[2, 1]),
        with_constants("Conv", RNG.normal(size=(7, 6, 3, 2)), pads=[2, 0, 1, 1]),
        with_constants("Conv", RNG.normal(size=(7, 6, 2, 3)), dilations=[2, 2], pads=[1, 2, 0, 3]),
        with_constants("Conv", RNG.normal(size=(6, 2, 3, 3)), group=3, pads=[1] * 4),
        *(with_constants("Conv", RNG.normal(size=(12, 1, 5, 3)), group=6, pads=[2, 1, most, 0]) for most in range(4)),
        with_constants("Conv", RNG.normal(size=(6, 1, 7, 7)), group=6, pads=[3] * 4),
    ],
    "ConvTranspose": [
        with_constants("ConvTranspose", RNG.normal(size=(6, 5, 2, 2)), CHANNELS[0][:5], strides=[2, 2]),
        with_constants("ConvTranspose", RNG.normal(size=(6, 5, 3, 4)), strides=[2, 3], pads=[1, 0, 2, 1]),
        with_constants("ConvTranspose", RNG.normal(size=(6, 2, 3, 3)), group=2, output_padding=[1, 1], strides=[2, 2]),
        with_constants("ConvTranspose", RNG.normal(size=(6, 5, 5, 4)), strides=[2, 2], pads=[2, 1, 1, 2]),
        with_constants("ConvTranspose", RNG.normal(size=(6, 3, 1, 2)), strides=[2, 3], output_padding=[1, 1]),
        with_constants("ConvTranspose", RNG.normal(size=(6, 3, 3, 3)), pads=[1] * 4),
        with_constants(
            "ConvTranspose", RNG.normal(size=(6, 7, 3, 3)), RNG.normal(size=7), strides=[2, 2], pads=[1] * 4
        ),
    ],
    "Gemm": [
        lambda w: w.apply("Gemm", w.apply("Flatten", w.data, axis=3), MATRIX.T, ROW[:7], transB=1, alpha=0.5, beta=2.0)
    ],
    "MatMul": [
        with_constants("MatMul", MATRIX),
        lambda w: w.apply("MatMul", w.data, w.apply("Transpose", w.apply("Relu", w.data), perm=[0, 1, 3, 2])),
        with_constants("MatMul", RNG.normal(size=(6, 8, 3))),
        with_constants("MatMul", ROW),
    ],
    "MatMulInteger": [dynamic],
    "DynamicQuantizeLinear": [lambda w: as_number(w, w.apply("DynamicQuantizeLinear", w.data, outputs=3))],
    "Einsum": [lambda w: w.apply("Einsum", w.data, MATRIX, equation="abcd,de->abce")],
    "MaxPool": [unary("MaxPool", kernel_shape=[3, 2], dilations=[2, 1], pads=[1, 0, 1, 1])],
    "AveragePool": [unary("AveragePool", kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1, pads=[0, 1, 1, 1])],
    "LpPool": [unary("LpPool", kernel_shape=[2, 2], p=2)],
    **{name: [unary(name)] for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    **{name: [lambda w, name=name: as_number(w, w.apply(name, w.data, axis=1))] for name in ("ArgMax", "ArgMin")},
    "Concat": [lambda w: w.apply("Concat", w.data, w.apply("Exp", w.data), axis=2)],
    "Transpose": [lambda w: w.apply("Transpose", w.apply("Exp", w.data), perm=[1, 3, 0, 2])],
    "DepthToSpace": [lambda w: w.apply("DepthToSpace", w.apply("Concat", *[w.data] * 2, axis=1), blocksize=2)],
    "SpaceToDepth": [lambda w: w.apply("SpaceToDepth", w.apply("Concat", *[w.data] * 2, axis=2), blocksize=2)],
    "Reshape": [lambda w: w.apply("Reshape", w.apply("Exp", w.data), np.array([3, -1]))],
    "Flatten": [lambda w: w.apply("Flatten", w.apply("Exp", w.data), axis=2)],
    "Unsqueeze": [lambda w: w.apply("Unsqueeze", w.apply("Exp", w.data), np.array([0, 3]))],
    "Squeeze": [lambda w: w.apply("Squeeze", w.apply("ReduceMax", w.data, np.array([1, 3])), np.array([1]))],
    "Expand": [lambda w: w.apply("Expand", w.apply("ReduceSum", w.data, np.array([1])), np.array([2, 4, 5, 8]))],
    "Gather": [
        with_constants("Gather", np.array([[1, -1], [0, 3]]), axis=3),
        lambda w: w.apply("Gather", w.data, indices(w, 3, 2, most=6), axis=1),
    ],
    "GatherElements": [lambda w: w.apply("GatherElements", w.data, indices(w, 2, 6, 5, 3, most=8), axis=3)],
    "GatherND": [
        lambda w: w.apply("GatherND", w.data, indices(w, 4, 2, most=2)),
        lambda w: w.apply("GatherND", w.data, indices(w, 2, 3, 1, most=6), batch_dims=1),
    ],
    **{
        name: [with_constants(name, AXES, keepdims=0), with_constants(name, np.array([1, 2])), unary(name)]
        for name in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2")
    },
    "ReduceProd": [with_constants("ReduceProd", AXES)],
    "ReduceLogSum": [lambda w: w.apply("ReduceLogSum", w.apply("Exp", w.data), AXES)],
    "ReduceLogSumExp": [with_constants("ReduceLogSumExp", AXES)],
    "Clip": [with_constants("Clip", -0.3, 0.9), lambda w: w.apply("Clip", w.apply("Exp", w.data), "", 2.0)],
    "Pad": [with_constants("Pad", np.array([0, 0, 1, 2, 0, 0, 0, 1]), mode="reflect")],
    "Slice": [with_constants("Slice", np.array([-1]), np.array([-9]), np.array([3]), np.array([-2]))],
    "Resize": [
        with_constants("Resize", "", np.array([1.0, 1, 2, 1.5]), mode="linear"),
        with_constants("Resize", "", "", np.array([2, 6, 7, 11]), mode="cubic"),
        with_constants("Resize", "", np.array([1.0, 1, 2, 2]), coordinate_transformation_mode="asymmetric"),
    ],
    "Split": [lambda w: f"{w.apply('Split', w.apply('Exp', w.data), np.array([1, 4]), outputs=2, axis=2)}.1"],
    "Tile": [with_constants("Tile", np.array([1, 2, 3, 2]))],
    "TopK": [lambda w: w.apply("TopK", w.data, np.array([3]), outputs=2, axis=-1)],
    "CumSum": [with_constants("CumSum", np.array(2), exclusive=1)],
    "Trilu": [with_constants("Trilu", np.array(1), upper=0)],
}


@pytest.mark.parametrize("share", one_in(SHARES, range(SHARES)))
def test_every_operator_is_what_onnx_runtime_computes(share: int, tmp_path: Path) -> None:
    writer = IslandWriter()
    kinds = sorted(BUILDS)[share::SHARES]
    made = [build(writer) for kind in kinds for build in BUILDS[kind]]
    file = writer.file(*made)
    floats = float_operators(read_onnx(file, "islands"))
    # Of these, some forms are integers, and some move numbers as integer operators move bytes.
    exact = {
        "MatMulInteger",
        "Identity",
        "Dropout",
        "Resize",
        "Clip",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Slice",
    }
    exact |= {
        "ReduceMax",
        "ReduceMin",
        "ArgMax",
        "ArgMin",
        "MaxPool",
        "GlobalMaxPool",
        "DepthToSpace",
        "SpaceToDepth",
        "Gather",
        "Split",
        "Tile",
        "Expand",
    }
    assert {kind for kind in kinds if BUILDS[kind]} - set(floats) <= exact
    feed = feed_of()
    assert_close(*outputs_of(file, tmp_path, {"x": feed}))


@pytest.mark.parametrize(
    ("profile", "threads", "share"),
    one_in(
        6,
        [
            (profile, 2 if profile is None else 1, share)
            for profile in (None, "x86-avx2", "generic")
            for share in (0, 1)
        ],
    ),
)
@pytest.mark.thorough
def test_convolutions_of_other_targets(profile: str | None, threads: int, share: int, tmp_path: Path) -> None:
    writer = IslandWriter()
    file = writer.file(*(build(writer) for kind in ("Conv", "ConvTranspose") for build in BUILDS[kind][share::2]))
    model = compiled(file, tmp_path, replace(host_target(profile), threads=threads))
    names, feed = [form["name"] for form in model.about.outputs], feed_of()
    assert_close(dict(zip(names, model.run([feed]), strict=True)), values_of(file, names, {"x": feed}))


def test_no_operator_is_left_out() -> None:
    assert set(BUILDS) == {*STANDARD, *MICROSOFT}
    from tvm.relax.frontend.onnx import onnx_frontend

    assert set(onnx_frontend._get_convert_map()) >= {*STANDARD, *MICROSOFT}


def test_operators_of_later_versions(tmp_path: Path) -> None:
    writer = IslandWriter()
    made = [writer.apply("RMSNormalization", writer.data, ROW)]
    made += [writer.apply("Gelu", writer.data, approximate=how, opset=23) for how in ("none", "tanh")]
    assert_close(*outputs_of(writer.file(*made, opset=23), tmp_path, {"x": feed_of()}))
