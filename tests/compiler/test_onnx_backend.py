"""ONNX's own tests of its operators, compiled: each gives what ONNX says, or is refused in one line."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.compiled_model import CompiledModel
from int8tune.compiler.errors import ModelError
from int8tune.compiler.given import Given
from int8tune.compiler.graph import Graph
from int8tune.compiler.obstacles import refuse_obstacles
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.onnx_reader.specialized import specialized
from tests.support.models.compiled import compile_once
from tests.support.places import TESTS
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

RIGHT = (TESTS / "data" / "onnx_backend_right.txt").read_text().split()
QUANTIZED = ("qlinear", "quantizelinear", "convinteger", "matmulinteger")
SHARES = 300


@cache
def cases() -> dict[str, Any]:
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name.removeprefix("test_"): case for case in load_model_tests(kind="node")}


def case_of(name: str) -> Any:
    """A case, or None. Modules make cases when they are imported, which takes seconds: first those that may have it."""
    from onnx.backend.test.case import node

    modules = [module.name for module in pkgutil.iter_modules(node.__path__)]
    for may_have in (str.startswith, str.__contains__):
        for module in modules:
            if may_have(name.replace("_", ""), module.replace("_", "")):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    importlib.import_module(f"{node.__name__}.{module}")
        made = {case.name.removeprefix("test_"): case for case in node._NodeTestCases}
        if name in made:
            return made[name]
    return cases().get(name)


def said_of(case: Any, folder: Path) -> str:
    """Why a case is refused; nothing if it is compiled and all of its outputs are right.

    Where its inputs say shapes, or must be known, all but the first are given as constants.
    """
    model, ((inputs, _), *_) = with_something_quantized(case.model), case.data_sets
    values = {info.name: array_of(value) for info, value in zip(case.model.graph.input, inputs, strict=False)}
    given = dict(list(values.items())[1:])
    try:
        library, target = folder / f"{case.name}.so", host_target()
        compile_once(graph_of(model.SerializeToString(), given), target, library)
    except ModelError as fault:
        return str(fault)
    compiled = CompiledModel(library)
    for inputs, outputs in case.data_sets:
        named = dict(zip([info.name for info in model.graph.input], map(array_of, inputs), strict=False))
        named["quantized input"] = np.zeros(1, np.float32)
        made = compiled.run([named[form["name"]] for form in compiled.about.inputs])
        for form, ours, expected in zip(compiled.about.outputs, made, outputs, strict=False):
            expected = array_of(expected)
            assert ours.dtype == expected.dtype, form["name"]
            # One unit in the last place of binary16 is more than the cases allow.
            relative = max(case.rtol, 2**-9 if expected.dtype == np.float16 else 0)
            np.testing.assert_allclose(ours, expected, relative, max(case.atol, 1e-6), err_msg=form["name"])
    return ""


def graph_of(data: bytes, given: dict[str, Any]) -> Graph:
    """The graph of a file; with constants in place of inputs if there is none without.

    Raises:
        ModelError: there is none in either way.
    """
    try:
        graph = read_onnx(data, "case")
        refuse_obstacles(graph)
    except ModelError:
        if not given:
            raise
        graph = read_onnx(specialized(data, "case", Given(given)), "case")
        refuse_obstacles(graph)
    return graph


def array_of(value: Any) -> Any:
    return np.asarray(onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)


def with_something_quantized(source: Any) -> Any:
    """The model with one more output, as nothing that is all float is compiled."""
    model = onnx.ModelProto.FromString(source.SerializeToString())
    graph = model.graph
    graph.initializer.append(onnx.numpy_helper.from_array(np.ones((), np.float32), "quantized scale"))
    graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((), np.uint8), "quantized zero"))
    graph.input.append(onnx.helper.make_tensor_value_info("quantized input", 1, (1,)))
    taken = ["quantized input", "quantized scale", "quantized zero"]
    graph.node.append(onnx.helper.make_node("QuantizeLinear", taken, ["quantized output"]))
    graph.output.append(onnx.helper.make_tensor_value_info("quantized output", 2, (1,)))
    return model


@pytest.mark.parametrize("share", one_in(32, range(32)))
def test_quantized_operators_are_what_onnx_says(share: int, tmp_path: Path) -> None:
    names = [name for name in RIGHT if any(each in name for each in QUANTIZED)]
    assert len(names) > 20
    for name in names[share::32]:
        assert said_of(case_of(name), tmp_path) == "", name


@pytest.mark.parametrize("share", [0, *(pytest.param(share, marks=pytest.mark.thorough) for share in range(1, SHARES))])
def test_operators_are_what_onnx_says(share: int, tmp_path: Path) -> None:
    """A newer onnx may lack some of them."""
    for name in RIGHT[share::SHARES]:
        if case := case_of(name):
            assert said_of(case, tmp_path) == "", name


@pytest.mark.thorough
@pytest.mark.parametrize("share", range(SHARES))
def test_no_operator_is_wrong(share: int, tmp_path: Path) -> None:
    """All others are right, or refused in lines that say where."""
    others = [name for name, case in cases().items() if name not in RIGHT and case.model is not None]
    others = [name for name in others if "sequence_" not in name]
    for name in others[share::SHARES]:
        said = said_of(cases()[name], tmp_path)
        assert said == "" or said.startswith(("case: ", "ONNX")), name
