"""TFLite operators in float, compiled, beside LiteRT's reference kernels; and what is around them, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.islands.island import float_operators
from int8tune.compiler.tflite_reader.floats import spectra
from int8tune.compiler.tflite_reader.floats.operators import READERS
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.compiler.tflite_reader.recurrent import VARIABLES
from tests.support.models.onnx_islands import assert_close
from tests.support.models.tflite_islands import SHAPE, Build, IslandWriter, outputs_of, stored_feed
from tests.support.run.thinned import one_in

pytest.importorskip("tflite", reason="needs the extra `models`")

RNG = np.random.default_rng(1)
ROW = RNG.normal(size=SHAPE[-1])
ONCE = {"strideH": 1, "strideW": 1}


def integers(*values: Any) -> Any:
    return np.array(values, np.int32)


def unary(word: str, *options: str, **fields: Any) -> Build:
    return lambda w: w.apply(word, [w.data], SHAPE, *options, **fields)


def positive(word: str) -> Build:
    """On values above 1, where the function is defined and smooth."""
    return lambda w: w.apply(word, [above_one(w)], SHAPE)


def above_one(w: IslandWriter) -> int:
    return w.apply("ADD", [w.apply("ABS", [w.data], SHAPE), np.array(1.25)], SHAPE, "Add")


def binary(word: str, *options: str, **fields: Any) -> Build:
    return lambda w: w.apply(word, [w.data, ROW], SHAPE, *options, **fields)


def compared(word: str) -> Build:
    return lambda w: w.apply(word, [w.data, w.apply("ROUND", [w.data], SHAPE)], SHAPE, kind="bool")


def truth(w: IslandWriter, word: str = "GREATER", value: float = 0.1) -> int:
    return w.apply(word, [w.data, np.array(value)], SHAPE, kind="bool")


def logical(word: str) -> Build:
    return lambda w: w.apply(word, [truth(w), truth(w, "LESS", 0.5)], SHAPE, kind="bool")


def window(word: str, kernel: tuple[int, int], stride: tuple[int, int], is_same: bool, activation: int) -> Build:
    sizes = [
        -(-extent // step) if is_same else (extent - reach) // step + 1
        for extent, reach, step in zip(SHAPE[1:3], kernel, stride, strict=True)
    ]
    fields = {"filterHeight": kernel[0], "filterWidth": kernel[1], "strideH": stride[0], "strideW": stride[1]}
    return lambda w: w.apply(
        word,
        [w.data],
        (SHAPE[0], *sizes, SHAPE[3]),
        "Pool2D",
        padding=0 if is_same else 1,
        fusedActivationFunction=activation,
        **fields,
    )


def reduced(word: str, axes: Any, kept: bool, shape: tuple[int, ...]) -> Build:
    return lambda w: w.apply(word, [w.data, integers(*axes)], shape, "Reducer", keepDims=kept)


def places(w: IslandWriter, shape: tuple[int, ...], most: int) -> int:
    """Places that are computed of the data."""
    count = int(np.prod(shape))
    flat = w.apply("RESHAPE", [w.data, integers(-1)], (int(np.prod(SHAPE)),))
    part = w.apply("SLICE", [flat, integers(0), integers(count)], (count,))
    scaled = w.apply("MUL", [w.apply("LOGISTIC", [part], (count,)), np.array(most - 0.01)], (count,), "Mul")
    return w.apply("CAST", [w.apply("RESHAPE", [scaled, integers(*shape)], shape)], shape, "Cast", kind="s32")


def unary_of(word: str, shape: tuple[int, ...]) -> Build:
    return lambda w: w.apply(word, [w.data], shape)


def some(w: IslandWriter, count: int) -> int:
    flat = w.apply("RESHAPE", [w.data, integers(-1)], (int(np.prod(SHAPE)),))
    return w.apply("SLICE", [flat, integers(0), integers(count)], (count,))


def wide(w: IslandWriter, rows: int = 0) -> int:
    """The data as matrices that are wider than high, or as rows."""
    shape = (rows, int(np.prod(SHAPE)) // rows) if rows else (*SHAPE[:2], SHAPE[3], SHAPE[2])
    return w.apply("RESHAPE", [w.data, integers(*shape)], shape)


def volume(w: IslandWriter) -> int:
    return w.apply("RESHAPE", [w.data, integers(1, 5, 4, 4, 6)], (1, 5, 4, 4, 6))


def signed(w: IslandWriter) -> int:
    """The data in another order, some of it beyond a half."""
    return w.apply("REVERSE_V2", [w.data, integers(0, 1, 2, 3)], SHAPE)


# Compiled at once; the quick run has the first of them.
SHARES = 32
# TVM simplifies the places that these compute for seconds each.
LONG = ("DYNAMIC_UPDATE_SLICE", "GATHER", "GATHER_ND", "REVERSE_SEQUENCE", "SCATTER_ND")
BUILDS: dict[str, list[Build]] = {
    **{
        word.upper(): [binary(word.upper(), word, fusedActivationFunction=at) for at in (0, 1, 2, 3)]
        for word in ("Add", "Sub", "Mul", "Div")
    },
    "ADD_N": [lambda w: w.apply("ADD_N", [w.data, w.apply("EXP", [w.data], SHAPE), w.data], SHAPE, "AddN")],
    "FLOOR_DIV": [binary("FLOOR_DIV")],
    "FLOOR_MOD": [binary("FLOOR_MOD"), lambda w: w.apply("FLOOR_MOD", [w.data, np.array(-0.75)], SHAPE)],
    "SQUARED_DIFFERENCE": [binary("SQUARED_DIFFERENCE")],
    "POW": [lambda w: w.apply("POW", [above_one(w), np.array(1.7)], SHAPE)],
    "MINIMUM": [binary("MINIMUM")],
    "MAXIMUM": [binary("MAXIMUM")],
    "LOGICAL_AND": [logical("LOGICAL_AND")],
    "LOGICAL_OR": [logical("LOGICAL_OR")],
    "LOGICAL_NOT": [lambda w: w.apply("LOGICAL_NOT", [truth(w)], SHAPE, kind="bool")],
    **{word: [compared(word)] for word in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")},
    **{word: [unary(word)] for word in ("ABS", "NEG", "EXP", "SIN", "COS", "FLOOR", "CEIL", "SIGN", "SQUARE")},
    "ROUND": [lambda w: w.apply("ROUND", [w.apply("MUL", [w.data, np.array(16.0)], SHAPE, "Mul")], SHAPE)],
    **{word: [positive(word)] for word in ("LOG", "SQRT", "RSQRT")},
    **{word: [unary(word)] for word in ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "LOGISTIC", "TANH")},
    "HARD_SWISH": [unary("HARD_SWISH")],
    "LEAKY_RELU": [unary("LEAKY_RELU", "LeakyRelu", alpha=0.3)],
    "PRELU": [lambda w: w.apply("PRELU", [w.data, RNG.normal(size=(1, 1, 6))], SHAPE)],
    "GELU": [unary("GELU", "Gelu", approximate=how) for how in (True, False)],
    "CAST": [
        lambda w: w.apply("CAST", [w.data], SHAPE, "Cast", kind="s32"),
        lambda w: w.apply("CAST", [w.data], SHAPE, "Cast", kind="bool"),
        lambda w: w.apply("CAST", [truth(w)], SHAPE, "Cast"),
    ],
    "SELECT": [
        lambda w: w.apply("SELECT", [truth(w), w.data, w.apply("EXP", [w.data], SHAPE)], SHAPE),
        lambda w: w.apply(
            "SELECT", [np.array([True, False]), w.data, w.apply("EXP", [w.data], SHAPE)], SHAPE, version=2
        ),
    ],
    "SELECT_V2": [lambda w: w.apply("SELECT_V2", [truth(w), w.data, ROW], SHAPE)],
    # Images.
    "CONV_2D": [
        lambda w: w.apply(
            "CONV_2D",
            [w.data, RNG.normal(size=(7, 3, 3, 6)), RNG.normal(size=7)],
            (2, 3, 8, 7),
            "Conv2D",
            strideH=2,
            strideW=1,
            fusedActivationFunction=3,
        ),
        lambda w: w.apply(
            "CONV_2D", [w.data, RNG.normal(size=(16, 1, 1, 6)), ROW[[0] * 16]], (2, 5, 8, 16), "Conv2D", **ONCE
        ),
        lambda w: w.apply(
            "CONV_2D",
            [w.data, RNG.normal(size=(4, 2, 3, 6)), np.zeros(4)],
            (2, 3, 6, 4),
            "Conv2D",
            padding=1,
            dilationHFactor=2,
            dilationWFactor=1,
            **ONCE,
        ),
    ],
    "DEPTHWISE_CONV_2D": [
        lambda w, many=many: w.apply(
            "DEPTHWISE_CONV_2D",
            [w.data, RNG.normal(size=(1, 3, 3, 6 * many)), RNG.normal(size=6 * many)],
            (2, 3, 4, 6 * many),
            "DepthwiseConv2D",
            depthMultiplier=many,
            strideH=2,
            strideW=2,
            fusedActivationFunction=1,
        )
        for many in (1, 2)
    ],
    "TRANSPOSE_CONV": [
        lambda w, stride=stride, kernel=kernel, padding=padding, shape=shape: w.apply(
            "TRANSPOSE_CONV",
            [integers(*shape), RNG.normal(size=(5, *kernel, 6)), w.data],
            shape,
            "TransposeConv",
            padding=padding,
            strideH=stride[0],
            strideW=stride[1],
        )
        for stride, kernel, padding, shape in (
            ((2, 2), (2, 2), 1, (2, 10, 16, 5)),
            ((2, 1), (3, 4), 0, (2, 10, 8, 5)),
            ((2, 3), (3, 3), 1, (2, 11, 24, 5)),
        )
    ],
    **{
        f"{word}_POOL_2D": [
            window(f"{word}_POOL_2D", (3, 2), (2, 1), True, 0),
            window(f"{word}_POOL_2D", (2, 3), (1, 2), False, 1),
        ]
        for word in ("AVERAGE", "MAX", "L2")
    },
    "RESIZE_BILINEAR": [
        lambda w, how=how, size=size: w.apply(
            "RESIZE_BILINEAR", [w.data, integers(*size)], (2, *size, 6), "ResizeBilinear", version=3, **how
        )
        for how in ({}, {"alignCorners": True}, {"halfPixelCenters": True})
        for size in ((10, 12), (7, 3))
    ],
    "RESIZE_NEAREST_NEIGHBOR": [
        lambda w, how=how: w.apply(
            "RESIZE_NEAREST_NEIGHBOR",
            [w.data, integers(8, 19)],
            (2, 8, 19, 6),
            "ResizeNearestNeighbor",
            version=3,
            **how,
        )
        for how in ({}, {"alignCorners": True}, {"halfPixelCenters": True})
    ],
    "LOCAL_RESPONSE_NORMALIZATION": [
        unary("LOCAL_RESPONSE_NORMALIZATION", "LocalResponseNormalization", radius=2, bias=1.1, alpha=0.4, beta=0.6)
    ],
    # Rows.
    "FULLY_CONNECTED": [
        lambda w: w.apply(
            "FULLY_CONNECTED",
            [w.data, RNG.normal(size=(9, 6)), RNG.normal(size=9)],
            (80, 9),
            "FullyConnected",
            fusedActivationFunction=1,
        ),
        lambda w: w.apply(
            "FULLY_CONNECTED",
            [w.data, RNG.normal(size=(9, 6)), -1],
            (2, 5, 8, 9),
            "FullyConnected",
            keepNumDims=True,
            version=5,
        ),
    ],
    "BATCH_MATMUL": [
        lambda w: w.apply("BATCH_MATMUL", [w.data, w.data], (2, 5, 8, 8), "BatchMatMul", adjY=True),
        lambda w: w.apply("BATCH_MATMUL", [w.data, RNG.normal(size=(5, 8, 4))], (2, 5, 6, 4), "BatchMatMul", adjX=True),
    ],
    "SOFTMAX": [unary("SOFTMAX", "Softmax", beta=beta) for beta in (1.0, 0.37)],
    "LOG_SOFTMAX": [unary("LOG_SOFTMAX")],
    "L2_NORMALIZATION": [
        unary("L2_NORMALIZATION", "L2Norm"),
        lambda w: w.apply(
            "L2_NORMALIZATION",
            [w.apply("RELU_0_TO_1", [w.apply("NEG", [w.apply("ABS", [w.data], SHAPE)], SHAPE)], SHAPE)],
            SHAPE,
            "L2Norm",
        ),
    ],
    **{
        word: [
            reduced(word, [1, 2], True, (2, 1, 1, 6)),
            reduced(word, [-1], False, (2, 5, 8)),
            reduced(word, [0, 3], False, (5, 8)),
        ]
        for word in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    },
    "REDUCE_PROD": [reduced("REDUCE_PROD", [3], False, (2, 5, 8))],
    **{
        word: [lambda w, word=word: w.apply(word, [truth(w), integers(2)], (2, 5, 6), "Reducer", kind="bool")]
        for word in ("REDUCE_ANY", "REDUCE_ALL")
    },
    **{
        f"ARG_{word}": [
            lambda w, word=word: w.apply(
                f"ARG_{word}", [w.data, integers(2)], (2, 5, 6), f"Arg{word.title()}", kind="s32", outputType=2
            )
        ]
        for word in ("MAX", "MIN")
    },
    "CUMSUM": [
        lambda w, how=how: w.apply("CUMSUM", [w.data, integers(2)], SHAPE, "Cumsum", **how)
        for how in ({}, {"exclusive": True}, {"reverse": True})
    ],
    "TOPK_V2": [
        lambda w: w.apply(
            "TOPK_V2", [w.data, integers(3)], (*SHAPE[:3], 3), "TopKV2", outputs=[("s32", (*SHAPE[:3], 3))]
        )
    ],
    # Movements.
    "CONCATENATION": [
        lambda w: w.apply(
            "CONCATENATION", [w.data, w.apply("EXP", [w.data], SHAPE)], (2, 5, 16, 6), "Concatenation", axis=-2
        )
    ],
    "PACK": [
        lambda w: w.apply(
            "PACK", [w.data, w.apply("EXP", [w.data], SHAPE)], (2, 2, 5, 8, 6), "Pack", axis=1, valuesCount=2
        )
    ],
    "PAD": [lambda w: w.apply("PAD", [w.data, integers([0, 0], [1, 2], [0, 1], [3, 0])], (2, 8, 9, 9))],
    "PADV2": [
        lambda w: w.apply("PADV2", [w.data, integers([0, 0], [1, 2], [0, 1], [3, 0]), np.array(-1.5)], (2, 8, 9, 9))
    ],
    "SPACE_TO_BATCH_ND": [
        lambda w: w.apply("SPACE_TO_BATCH_ND", [w.data, integers(2, 3), integers([1, 0], [1, 0])], (12, 3, 3, 6))
    ],
    "GATHER": [
        lambda w: w.apply("GATHER", [w.data, places(w, (3, 2), 8)], (2, 5, 3, 2, 6), "Gather", axis=2),
        lambda w: w.apply("GATHER", [w.data, places(w, (2, 4), 5)], (2, 4, 8, 6), "Gather", axis=1, batchDims=1),
    ],
    "GATHER_ND": [lambda w: w.apply("GATHER_ND", [w.data, places(w, (4, 2), 2)], (4, 8, 6))],
    "EMBEDDING_LOOKUP": [lambda w: w.apply("EMBEDDING_LOOKUP", [places(w, (7,), 9), RNG.normal(size=(9, 4))], (7, 4))],
    "ONE_HOT": [
        lambda w: w.apply(
            "ONE_HOT",
            [places(w, (3, 4), 6), np.array(7, np.int32), np.array(2.5), np.array(-1.0)],
            (3, 7, 4),
            "OneHot",
            axis=1,
        )
    ],
    "FILL": [
        lambda w: w.apply(
            "FILL", [integers(3, 4), w.apply("SUM", [w.data, integers(0, 1, 2, 3)], (), "Reducer")], (3, 4)
        )
    ],
    "DYNAMIC_UPDATE_SLICE": [
        lambda w: w.apply("DYNAMIC_UPDATE_SLICE", [w.data, RNG.normal(size=(1, 2, 8, 3)), places(w, (4,), 7)], SHAPE)
    ],
    "MATRIX_DIAG": [unary_of("MATRIX_DIAG", (2, 5, 8, 6, 6))],
    "MATRIX_SET_DIAG": [
        lambda w: w.apply("MATRIX_SET_DIAG", [w.data, RNG.normal(size=(2, 5, 6))], SHAPE),
        lambda w: w.apply("MATRIX_SET_DIAG", [wide(w), RNG.normal(size=(2, 5, 6))], (2, 5, 6, 8)),
    ],
    "DILATE": [lambda w: w.apply("DILATE", [w.data, integers(1, 3, 1, 2), np.array(0.5)], (2, 13, 8, 11))],
    "REVERSE_SEQUENCE": [
        lambda w, along=along, batch=batch: w.apply(
            "REVERSE_SEQUENCE",
            [w.data, places(w, (SHAPE[batch],), SHAPE[along] + 1)],
            SHAPE,
            "ReverseSequence",
            seqDim=along,
            batchDim=batch,
        )
        for along, batch in ((1, 0), (2, 3), (0, 2))
    ],
    # Places that are written.
    "SCATTER_ND": [
        lambda w: w.apply("SCATTER_ND", [places(w, (2, 5, 2), 4), w.data, integers(4, 5, 8, 6)], (4, 5, 8, 6)),
        lambda w: w.apply("SCATTER_ND", [places(w, (9, 1), 7), RNG.normal(size=9), integers(7)], (7,)),
    ],
    "SPARSE_TO_DENSE": [
        lambda w: w.apply(
            "SPARSE_TO_DENSE",
            [
                integers([0, 1], [1, 0], [2, 4]),
                integers(3, 5),
                w.apply("MUL", [some(w, 3), np.array(2.0)], (3,), "Mul"),
                np.array(-1.0),
            ],
            (3, 5),
            "SparseToDense",
        )
    ],
    "SEGMENT_SUM": [lambda w: w.apply("SEGMENT_SUM", [wide(w, 4), integers(0, 0, 1, 2)], (3, 120))],
    **{
        f"UNSORTED_SEGMENT_{word}": [
            lambda w, word=word: w.apply(
                f"UNSORTED_SEGMENT_{word}",
                [wide(w, 8), w.apply("SUB", [places(w, (8,), 5), integers(1)], (8,), "Sub", kind="s32"), integers(6)],
                (6, 60),
                f"UnsortedSegment{word.title()}",
            )
        ]
        for word in ("SUM", "PROD", "MAX", "MIN")
    },
    # Integers.
    **{
        word: [lambda w, word=word: w.apply(word, [places(w, (4, 3), 99), places(w, (3,), 9)], (4, 3), kind="s32")]
        for word in ("BITWISE_XOR", "RIGHT_SHIFT")
    },
    "BUCKETIZE": [
        lambda w: w.apply("BUCKETIZE", [w.data], SHAPE, "Bucketize", kind="s32", boundaries=[-1.0, 0.21875, 0.5, 0.5])
    ],
    "FAKE_QUANT": [
        unary("FAKE_QUANT", "FakeQuant", min=low, max=high, numBits=bits)
        for low, high, bits in ((-1.3, 2.2, 8), (0.0, 3.1, 4))
    ],
    "ATAN2": [lambda w: w.apply("ATAN2", [w.data, w.apply("ROUND", [signed(w)], SHAPE)], SHAPE)],
    "CONV_3D": [
        lambda w, padding=padding, shape=shape: w.apply(
            "CONV_3D",
            [
                volume(w),
                RNG.normal(size=(3, 2, 3, 6, 4)),
                ROW[:4],
            ],
            shape,
            "Conv3D",
            padding=padding,
            strideD=2,
            strideH=1,
            strideW=1,
            fusedActivationFunction=1,
        )
        for padding, shape in ((0, (1, 3, 4, 4, 4)), (1, (1, 2, 3, 2, 4)))
    ],
    "CONV_3D_TRANSPOSE": [
        lambda w, padding=padding, shape=shape: w.apply(
            "CONV_3D_TRANSPOSE",
            [integers(*shape), RNG.normal(size=(2, 3, 3, 3, 6)), volume(w), ROW[:3]],
            shape,
            "Conv3D",
            padding=padding,
            strideD=2,
            strideH=1,
            strideW=2,
        )
        for padding, shape in ((0, (1, 10, 4, 8, 3)), (1, (1, 10, 6, 9, 3)))
    ],
}


ORDER = (*sorted(BUILDS.keys() - set(LONG)), *LONG)


@pytest.mark.parametrize("share", one_in(SHARES, range(SHARES)))
def test_every_operator_is_what_litert_computes(share: int, tmp_path: Path) -> None:
    writer = IslandWriter()
    words = ORDER[share::SHARES]
    made = [build(writer) for word in words for build in BUILDS[word]]
    file = writer.model(*made)
    assert set(words) <= set(float_operators(read_tflite(file, "islands")))
    assert_close(*outputs_of(file, tmp_path, {"x": stored_feed()}))


def test_no_operator_is_left_out() -> None:
    """Numbers in 16 bits are in `test_tflite_wide`, variables in `test_tflite_recurrent`, spectra in their own file."""
    assert set(BUILDS) | {"QUANTIZE", "DEQUANTIZE", *VARIABLES, *spectra.READERS} == set(READERS)
