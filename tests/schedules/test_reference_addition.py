"""The addition of a residual: ONNX Runtime's QLinearAdd and TFLite's ADD, bit for bit, and what is refused."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.schedules.errors import OperandError
from int8tune.schedules.numerics import RANGES
from int8tune.schedules.operands import DTYPES, MAX_SCALE, MIN_SCALE, Addend, Operands, quantize_addition
from int8tune.schedules.oracle.adversarial import adversarial_operands
from int8tune.schedules.oracle.reference import add_binary32, add_fixed_point, addition_constant, reference
from int8tune.schedules.workload import Workload, parse_workload

Array = npt.NDArray[Any]

LAYER = parse_workload("dense-u8s8-2x5-o3-float.c-addu8-clamp-u8")
FIXED_LAYER = parse_workload("dense-s8s8-2x5-o3-fixed.c-adds8-s8")
FUSED_LAYER = parse_workload("dense-s8s8-2x5-o3-fused.c-adds8-s8")
KEYS = (
    "conv2d-{data}s8-1x9x8x16-k3x3x18-s1-p1-{rule}.c-add{data}-{data}",
    "conv2d-{data}s8-1x7x7x32-k1x1x40-s1-p0-{rule}.c-clamp-add{data}-clamp-{data}",
    "dwconv2d-{data}s8-1x9x9x20-k3x3x1-s1-p1-{rule}.t-add{data}-clamp-{data}",
    "dense-{data}s8-7x65-o33-{rule}.c-clamp-add{data}-{data}",
)


def every_pair(kind: str) -> tuple[Array, Array]:
    """All pairs of two bytes."""
    low, high = RANGES[kind]
    own, residual = np.meshgrid(np.arange(low, high + 1), np.arange(low, high + 1))
    return own.ravel().astype(DTYPES[kind]), residual.ravel().astype(DTYPES[kind])


def zero_points(kind: str, seed: int) -> tuple[int, int, int]:
    """The zero points of the own output, the residual and the sum; sometimes all at one end."""
    low, high = RANGES[kind]
    if seed % 5 == 0:
        end = (low, high)[seed // 5 % 2]
        return end, end, end
    own, residual, total = np.random.default_rng(seed).integers(low, high + 1, 3).tolist()
    return own, residual, total


def without_residual(workload: Workload) -> Workload:
    return replace(workload, numerics=replace(workload.numerics, residual=None))


def own_output(workload: Workload, operands: Operands) -> Array:
    return reference(without_residual(workload), replace(operands, residual=None))


# ONNX Runtime.


def qlinear_add(own: Array, own_zero_point: int, addend: Addend) -> Array:
    """The sum as ONNX Runtime computes it; a scale of 1 makes the others ratios to it."""
    onnx = pytest.importorskip("onnx", reason="needs the extra `oracle`")
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")
    kind, helper = own.dtype, onnx.helper
    element = helper.np_dtype_to_tensor_dtype(kind)
    constants = {
        "a_scale": addend.ratio[0],
        "a_zero_point": kind.type(own_zero_point),
        "b_scale": addend.ratio[1],
        "b_zero_point": kind.type(addend.zero_point),
        "c_scale": np.float32(1),
        "c_zero_point": kind.type(addend.sum_zero_point),
    }
    inputs = ["a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "c_scale", "c_zero_point"]
    graph = helper.make_graph(
        [helper.make_node("QLinearAdd", inputs, ["out"], domain="com.microsoft")],
        "add",
        [helper.make_tensor_value_info(name, element, own.shape) for name in ("a", "b")],
        [helper.make_tensor_value_info("out", element, None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    out: Array = session.run(None, {"a": own, "b": addend.data})[0]
    return out


@pytest.fixture
def fusing_onnxruntime() -> None:
    """Skips where ONNX Runtime adds by another kernel, whose rounding differs."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    if platform.system() != "Linux" or not flags >= {"avx2", "fma"}:
        pytest.skip("ONNX Runtime fuses multiplications and additions on Linux, x86 with AVX2 and FMA only")


def drawn_ratios(seed: int) -> Array:
    """Decimal fractions, whose sums are nearly ties; powers of two, whose sums are ties; any; and extreme ones."""
    rng = np.random.default_rng(seed)
    match seed % 4:
        case 0:
            ratios = rng.integers(1, 40, 2) / rng.choice([3, 7, 10, 20, 100])
        case 1:
            ratios = 2.0 ** rng.integers(-4, 3, 2)
        case 2:
            ratios = 2.0 ** rng.uniform(-6, 3, 2)
        case _:
            ratios = rng.permutation([2.0 ** rng.uniform(-60, 20), rng.choice([MIN_SCALE, MAX_SCALE, 0.5])])
    return ratios.astype(np.float32)


@pytest.mark.usefixtures("fusing_onnxruntime")
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.matrix(at_most=8)
def test_the_float_rule_is_that_of_onnxruntime(seed: int) -> None:
    kind = ("u8", "s8")[seed // 4 % 2]
    own, residual = every_pair(kind)
    own_zero_point, zero_point, sum_zero_point = zero_points(kind, seed)
    addend = Addend(residual, *RANGES[kind], zero_point, sum_zero_point, ratio=drawn_ratios(seed))
    sums = add_binary32(own.astype(np.int64), residual.astype(np.int64), own_zero_point, addend)
    np.testing.assert_array_equal(sums.clip(*RANGES[kind]), qlinear_add(own, own_zero_point, addend))


@pytest.mark.usefixtures("fusing_onnxruntime")
@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("key", KEYS)
def test_layers_with_a_residual_are_those_of_onnxruntime(key: str, kind: str) -> None:
    workload = parse_workload(key.format(data=kind, rule="float"))
    for name, operands in adversarial_operands(workload, 3):
        assert operands.residual is not None
        own = own_output(workload, operands)
        theirs = qlinear_add(own, operands.output_zero_point, operands.residual)
        expected = theirs.clip(operands.residual.clamp_low, operands.residual.clamp_high)
        np.testing.assert_array_equal(reference(workload, operands), expected, name)


def _fma(left: Array, right: np.float32, addend: Any) -> Array:
    """Exact but where the sum is a tie in binary64 and none in binary32, which none of the tested ones is."""
    return (left.astype(np.float64) * np.float64(right) + addend).astype(np.float32)


OTHER_ARITHMETIC: dict[str, Callable[[Array, Array, int, Addend], Array]] = {
    "products rounded": lambda own, residual, zero_point, addend: (
        own.astype(np.float32) * addend.ratio[0]
        + (residual.astype(np.float32) * addend.ratio[1] + addition_constant(zero_point, addend))
    ),
    "own output first": lambda own, residual, zero_point, addend: _fma(
        residual, addend.ratio[1], _fma(own, addend.ratio[0], addition_constant(zero_point, addend))
    ),
    "dequantized": lambda own, residual, zero_point, addend: (
        (own - zero_point).astype(np.float32) * addend.ratio[0]
        + (residual - addend.zero_point).astype(np.float32) * addend.ratio[1]
        + np.float32(addend.sum_zero_point)
    ),
    "binary64": lambda own, residual, zero_point, addend: (
        (own - zero_point) * np.float64(addend.ratio[0])
        + (residual - addend.zero_point) * np.float64(addend.ratio[1])
        + addend.sum_zero_point
    ),
}


@pytest.mark.parametrize("name", OTHER_ARITHMETIC)
def test_other_arithmetic_gives_other_sums(name: str) -> None:
    """So that the comparison with ONNX Runtime tells them apart."""
    own, residual = (values.astype(np.int64) for values in every_pair("u8"))
    addend = Addend(residual.astype(np.uint8), 0, 255, 7, 133, ratio=np.array([0.6, 0.3], np.float32))
    sums = add_binary32(own, residual, 3, addend)
    fused = _fma(own, addend.ratio[0], _fma(residual, addend.ratio[1], addition_constant(3, addend)))
    np.testing.assert_array_equal(np.rint(fused), sums)
    differences = np.rint(OTHER_ARITHMETIC[name](own, residual, 3, addend)) - sums
    assert set(np.unique(differences).tolist()) - {0} <= {-1, 1}
    assert 100 < np.count_nonzero(differences) < 6554


# LiteRT.


def litert_add(own: Array, own_zero_point: int, addend: Addend, scales: tuple[float, float, float], act: str) -> Array:
    """The sum as TFLite's reference kernel computes it, with a fused activation."""
    flatbuffers = pytest.importorskip("flatbuffers", reason="needs the extra `oracle`")
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs the extra `oracle`")
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="needs the extra `oracle`")
    tensors = []
    points = own_zero_point, addend.zero_point, addend.sum_zero_point
    for name, scale, point in zip("abc", scales, points, strict=True):
        tensor = schema.TensorT()
        tensor.name, tensor.shape = name, list(own.shape)
        tensor.type = schema.TensorType.UINT8 if own.dtype == np.uint8 else schema.TensorType.INT8
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [point]
        tensors.append(tensor)
    operator, options, code = schema.OperatorT(), schema.AddOptionsT(), schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ADD
    code.version = 2
    options.fusedActivationFunction = getattr(schema.ActivationFunctionType, act)
    operator.inputs, operator.outputs = [0, 1], [2]
    operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.AddOptions, options
    graph, model = schema.SubGraphT(), schema.ModelT()
    graph.tensors, graph.operators, graph.inputs, graph.outputs = tensors, [operator], [0, 1], [2]
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], [schema.BufferT()]
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    runner = interpreter.Interpreter(
        model_content=bytes(builder.Output()),
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
        num_threads=1,
    )
    runner.allocate_tensors()
    runner.set_tensor(0, own)
    runner.set_tensor(1, addend.data)
    runner.invoke()
    out: Array = runner.get_tensor(2)
    return out


def drawn_scales(seed: int) -> tuple[float, float, float]:
    rng = np.random.default_rng(seed)
    match seed % 3:
        case 0:
            scales = rng.integers(1, 40, 3) / rng.choice([3, 7, 10, 100])
        case 1:
            scales = 2.0 ** rng.integers(-3, 4, 3)
        case _:
            scales = 2.0 ** rng.uniform(-8, 8, 3)
    own, residual, total = scales.astype(np.float32).tolist()
    return own, residual, total


@pytest.mark.parametrize("seed", range(18))
def test_the_fixed_rule_is_that_of_tflite(seed: int) -> None:
    kind = ("u8", "s8")[seed // 3 % 2]
    own, residual = every_pair(kind)
    own_zero_point, zero_point, sum_zero_point = zero_points(kind, seed)
    scales = drawn_scales(seed)
    multiplier, shift = quantize_addition(*scales)
    addend = Addend(residual, *RANGES[kind], zero_point, sum_zero_point, multiplier=multiplier, shift=shift)
    sums = add_fixed_point(own.astype(np.int64), residual.astype(np.int64), own_zero_point, addend)
    theirs = litert_add(own, own_zero_point, addend, scales, "NONE")
    np.testing.assert_array_equal(sums.clip(*RANGES[kind]), theirs)


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("key", KEYS)
def test_layers_with_a_residual_are_those_of_tflite(key: str, kind: str) -> None:
    workload = parse_workload(key.format(data=kind, rule="fixed"))
    for index, (name, operands) in enumerate(adversarial_operands(workload, 4)):
        assert operands.residual is not None
        assert workload.numerics.residual is not None
        scales = drawn_scales(index)
        multiplier, shift = quantize_addition(*scales)
        bounds, activation = RANGES[kind], "NONE"
        if workload.numerics.residual.clamp:
            bounds, activation = (operands.residual.sum_zero_point, bounds[1]), "RELU"
        low, high = bounds
        addend = replace(operands.residual, multiplier=multiplier, shift=shift, clamp_low=low, clamp_high=high)
        own = own_output(workload, operands)
        theirs = litert_add(own, operands.output_zero_point, addend, scales, activation)
        ours = reference(workload, replace(operands, residual=addend))
        np.testing.assert_array_equal(ours, theirs, f"{workload.key} {name}")


# What is refused.


def operands_of(workload: Workload) -> Operands:
    return adversarial_operands(workload, 0)[0][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.zeros((3, 2), np.uint8)}, "residual must have shape (2, 3): (3, 2)"),
        ({"data": np.zeros((2, 3), np.int8)}, "residual must be of type uint8: int8"),
        ({"zero_point": 256}, "the residual zero point must be within 0 and 255: 256"),
        ({"sum_zero_point": -1}, "the sum zero point must be within 0 and 255: -1"),
        ({"ratio": np.ones(1, np.float32)}, "ratio must have shape (2,): (1,)"),
        ({"ratio": np.ones(2, np.float64)}, "ratio must be of type float32: float64"),
        ({"ratio": np.array([1, 0], np.float32)}, "ratio must be within 2^-60 and 2^20: 0.0"),
        ({"ratio": np.array([np.nan, 1], np.float32)}, "ratio must be within 2^-60 and 2^20: nan"),
        ({"shift": np.zeros(3, np.int32)}, "the addition's shift must have shape (0,): (3,)"),
        ({"clamp_low": 9, "clamp_high": 8}, "the sum's clamp bounds must ascend within 0 and 255: 9 to 8"),
        ({"clamp_high": 5.5}, "the sum's clamp bounds must be integers: 5.5"),
    ],
)
def test_residuals_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    operands = operands_of(LAYER)
    operands.validate(LAYER)
    assert operands.residual is not None
    with pytest.raises(OperandError) as error:
        reference(LAYER, replace(operands, residual=replace(operands.residual, **change)))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"multiplier": np.ones(3, np.int32)}, "the addition's multiplier must be 0 or within 2^30 and 2^31 - 1: 1"),
        ({"shift": np.ones(3, np.int32)}, "the addition's shift must be within -31 and 0: 1"),
        ({"ratio": np.ones(2, np.float32)}, "ratio must have shape (0,): (2,)"),
        ({"clamp_low": 0}, "the sum has no clamp, its bounds are -128 to 127: 0 to 127"),
    ],
)
def test_residuals_of_the_fixed_rule_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    operands = operands_of(FIXED_LAYER)
    operands.validate(FIXED_LAYER)
    assert operands.residual is not None
    with pytest.raises(OperandError) as error:
        replace(operands, residual=replace(operands.residual, **change)).validate(FIXED_LAYER)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"constant": np.zeros(0, np.float32)}, "the addition's constant must have shape (1,): (0,)"),
        ({"constant": np.zeros(1)}, "the addition's constant must be of type float32: float64"),
        (
            {"constant": np.array([-(2.0**31)], np.float32)},
            "the addition's constant's magnitude must be 0 or within 2^-60 and 1073741824: 2147483648.0",
        ),
        ({"constant": np.array([np.nan], np.float32)}, "the addition's constant's magnitude must be 0 or within"),
        ({"constant": np.array([2.0**-61], np.float32)}, "the addition's constant's magnitude must be 0 or within"),
        ({"ratio": np.array([1, 0], np.float32)}, "ratio must be within 2^-60 and 2^20: 0.0"),
        ({"multiplier": np.full(3, 2**30, np.int32)}, "the addition's multiplier must have shape (0,): (3,)"),
    ],
)
def test_residuals_of_the_fused_rule_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    operands = operands_of(FUSED_LAYER)
    operands.validate(FUSED_LAYER)
    assert operands.residual is not None
    with pytest.raises(OperandError) as error:
        replace(operands, residual=replace(operands.residual, **change)).validate(FUSED_LAYER)
    assert message in str(error.value)


def test_the_constant_of_an_addition_is_given_by_the_fused_rule_alone() -> None:
    operands = operands_of(LAYER)
    assert operands.residual is not None
    constant = addition_constant(operands.output_zero_point, operands.residual)
    given = replace(operands.residual, constant=np.array([constant + 6], np.float32))
    with pytest.raises(OperandError, match=r"the addition's constant must have shape \(0,\): \(1,\)"):
        replace(operands, residual=given).validate(LAYER)
    own, residual = (values.astype(np.int64) for values in every_pair("u8"))
    sums = [add_binary32(own, residual, operands.output_zero_point, addend) for addend in (operands.residual, given)]
    # Six steps more; some sums are nearly ties and round another way.
    assert np.abs(sums[1] - sums[0] - 6).max() <= 1
    assert (sums[1] - sums[0] == 6).mean() > 0.9
    # What the zero points are is no matter any more.
    moved = replace(given, zero_point=given.zero_point ^ 1, sum_zero_point=given.sum_zero_point ^ 1)
    assert np.array_equal(add_binary32(own, residual, operands.output_zero_point ^ 1, moved), sums[1])


def test_a_residual_is_given_where_the_workload_has_one_and_nowhere_else() -> None:
    operands = operands_of(LAYER)
    with pytest.raises(OperandError, match="the workload has a residual, but none is given"):
        replace(operands, residual=None).validate(LAYER)
    with pytest.raises(OperandError, match="the workload has no residual, but one is given"):
        operands.validate(without_residual(LAYER))


@pytest.mark.parametrize("sum_scale", [2.0**-19, 2.0**-19 * (1 + 2.0**-40), 2.0**-30])
def test_sums_with_too_fine_a_scale_are_refused(sum_scale: float) -> None:
    with pytest.raises(OperandError, match=r"the sum's scale must be above 2\^-19 of the inputs' larger"):
        quantize_addition(1.0, 0.3, sum_scale)
    quantize_addition(1.0, 0.3, 2.0**-18.9)
