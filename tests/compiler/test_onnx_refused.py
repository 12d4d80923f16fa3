"""Every operator of ONNX, and each quantized one of ONNX Runtime, is computed, or refused for a reason of its own."""

from __future__ import annotations

import re
from typing import Any

import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.islands.supported import MICROSOFT, STANDARD
from int8tune.compiler.obstacles import obstacles
from int8tune.compiler.onnx_reader import blocked, dynamic, qlinear
from int8tune.compiler.onnx_reader.expansions import EXPANSIONS
from int8tune.compiler.onnx_reader.expansions import OF_MICROSOFT as EXPANSIONS_OF_MICROSOFT
from int8tune.compiler.onnx_reader.functions import WRITTEN_BY_ONNX
from int8tune.compiler.onnx_reader.integer_products import PRODUCTS
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.onnx_reader.others import READ
from int8tune.compiler.onnx_reader.refused import OF_MICROSOFT, REFUSED
from int8tune.compiler.onnx_reader.transformers import TRANSFORMERS
from tests.support.places import ROOT

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")

COMPUTED = {*STANDARD, *EXPANSIONS, *WRITTEN_BY_ONNX, *READ, *PRODUCTS, *qlinear.FORMS, "Constant"}
QUANTIZED = re.compile(r"Q[A-Z]|Quantize|Integer|NBits|Bnb4|Q4|Fp[48]|Float8")
"""Names of ONNX Runtime's operators on quantized values."""


def test_every_operator_of_onnx_is_computed_or_refused() -> None:
    words = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert sorted(words - COMPUTED - REFUSED.keys()) == []
    assert sorted(COMPUTED & REFUSED.keys()) == []


def test_every_quantized_operator_of_onnx_runtime_is_computed_or_refused() -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state", reason="needs onnxruntime")
    words = {schema.name for schema in state.get_all_operator_schema() if schema.domain == "com.microsoft"}
    computed = {
        *MICROSOFT,
        *TRANSFORMERS,
        *EXPANSIONS_OF_MICROSOFT,
        *qlinear.FORMS,
        *dynamic.FUSED,
        dynamic.LSTM,
        *blocked.PRODUCTS,
        blocked.GATHER,
        "QLinearConcat",
        "QLinearWhere",
    }
    words = {word for word in words if QUANTIZED.search(word)} - {"QuantizeLinear", "DequantizeLinear"}
    assert len(words) > 30
    assert sorted(words - computed - OF_MICROSOFT.keys()) == []
    assert sorted(computed & OF_MICROSOFT.keys()) == []


@pytest.mark.parametrize(("word", "domain"), [("Scatter", ""), ("NhwcConv", "com.microsoft")])
def test_the_reason_is_said(word: str, domain: str) -> None:
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
            onnx.helper.make_node(word, ["d"], ["y"], domain=domain),
        ],
        "g",
        [onnx.helper.make_tensor_value_info("x", 2, [4])],
        [onnx.helper.make_tensor_value_info("y", 1, [4])],
        [onnx.helper.make_tensor("s", 1, [], [0.5]), onnx.helper.make_tensor("z", 2, [], [3])],
    )
    imports = [onnx.helper.make_opsetid("", 10), onnx.helper.make_opsetid("com.microsoft", 1)]
    model: Any = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    (found,) = obstacles(read_onnx(model.SerializeToString(), "one"))
    assert found.reason == (OF_MICROSOFT if domain else REFUSED)[word]


@pytest.mark.parametrize("is_known", [True, False])
def test_operators_of_others_are_named_with_their_counts(is_known: bool) -> None:
    """Whether or not the file says the shapes of some of them, or imports their domain."""
    nodes = [
        onnx.helper.make_node("Learned", ["x"], ["a"], domain="theirs"),
        onnx.helper.make_node("Relu", ["a"], ["b"]),
        onnx.helper.make_node("Learned", ["b"], ["c"], domain="theirs"),
        onnx.helper.make_node("Own", ["c"], ["y"], domain="mine"),
    ]
    infos = [onnx.helper.make_tensor_value_info(name, 1, [2, 3]) for name in ("x", "y", "a")]
    graph = onnx.helper.make_graph(nodes, "g", infos[:1], infos[1:2], value_info=infos[2:])
    domains = ("", "theirs", "mine") if is_known else ("",)
    imports = [onnx.helper.make_opsetid(domain, 17 if not domain else 1) for domain in domains]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    with pytest.raises(
        ModelError, match=r"neither ONNX nor ONNX Runtime defines: 2 Learned of `theirs`, 1 Own of `mine`"
    ):
        read_onnx(model.SerializeToString(), "one")


def test_the_documentation_names_every_operator_that_is_refused() -> None:
    named = set(re.findall(r"[A-Z]\w+", (ROOT / "docs" / "models.md").read_text()))
    assert sorted((REFUSED.keys() | OF_MICROSOFT.keys()) - named) == []
