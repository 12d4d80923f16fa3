"""What nodes make of constants and of shapes, which are all known: computed once, when a file is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from int8tune.compiler.graph import DTYPES, ElementType
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.tensors import TYPES, Array

# Longer ones are no shapes, and a small file could ask for very many of them.
MOST_VALUES = 1 << 16
# What gives the same values wherever it is computed: integers, and what IEEE 754 rounds correctly.
FOLDED = (
    *("Add", "Sub", "Mul", "Div", "Sqrt", "Neg", "Floor", "Ceil", "Cast", "Min", "Max", "Mod"),
    *("Concat", "Gather", "Identity", "Slice", "Reshape", "Squeeze", "Unsqueeze", "Transpose"),
    *("ConstantOfShape", "Expand", "Range", "Tile"),
    *("Where", "Equal", "Less", "Greater", "Not", "And", "Or"),
)
# Tables of numbers of which onnx infers no shape; they are as good constants as those that a file has.
WINDOWS, FILTERS = ("BlackmanWindow", "HammingWindow", "HannWindow"), "MelWeightMatrix"

_NONE = np.zeros(0)

Form = tuple[ElementType, tuple[int, ...]]


def folded(
    nodes: Sequence[Node], constants: Mapping[str, Array], forms: Mapping[str, Form], outputs: Sequence[str], opset: int
) -> dict[str, Array]:
    """The constants, and what nodes make of them and of shapes alone; what the model itself makes is left out."""
    known = dict(constants)
    for node in nodes:
        made = node.outputs[0]
        if made in known or made in outputs or node.proto.domain not in ("", "ai.onnx"):
            continue
        if node.computes == "Shape" and node.input(0) in forms:
            shape = np.array(forms[node.input(0)][1], np.int64)
            known[made] = shape[node.attributes.get("start", 0) : node.attributes.get("end", len(shape))]
        elif node.computes == "Size" and node.input(0) in forms:
            known[made] = np.array(math.prod(forms[node.input(0)][1]), np.int64)
        elif node.computes == "CastLike" and _is_number(node, known, forms):
            known[made] = known[node.input(0)].astype(DTYPES[forms[made][0]])
        elif 0 < _table_size(node, known) <= MOST_VALUES:
            found = _computed(node, known, opset)
            if found is not None and found.dtype in TYPES:
                known[made] = found
        elif _is_clipped(node, known) or (node.computes in FOLDED and _is_short(node, known, forms)):
            found = _computed(node, known, opset)
            if found is not None and (TYPES.get(found.dtype), found.shape) == forms.get(made):
                known[made] = found
    return known


def _table_size(node: Node, known: Mapping[str, Array]) -> int:
    """The values of a window or of a bank of filters whose sizes are known; 0 of anything else."""
    count = 1 if node.computes in WINDOWS else 2 if node.computes == FILTERS else 0
    if not count or not all(known.get(name, _NONE).size == 1 for name in node.inputs):
        return 0
    sizes = [known[name].ravel()[0] for name in node.inputs[:count]]
    if not all(isinstance(size, np.integer) and size > 0 for size in sizes):
        return 0
    return int(sizes[0]) * (int(sizes[1]) // 2 + 1 if count == 2 else 1)


def _is_number(node: Node, known: Mapping[str, Array], forms: Mapping[str, Form]) -> bool:
    """Whether a node makes a short known value one of another type of numbers, which need not be known."""
    source, form = known.get(node.input(0)), forms.get(node.outputs[0])
    return source is not None and form is not None and form[0][0] == "f" and source.size <= MOST_VALUES


def _is_clipped(node: Node, known: Mapping[str, Array]) -> bool:
    """Whether a node bounds known integers, as tools write it for weights of few bits, however many these are."""
    data = known.get(node.input(0))
    is_whole = node.computes == "Clip" and data is not None and data.dtype.kind in "iu"
    return is_whole and all(name in known for name in filter(None, node.inputs))


def _is_short(node: Node, known: Mapping[str, Array], forms: Mapping[str, Form]) -> bool:
    """Whether all that a node reads is known, and nothing of it or of what it makes is long."""
    read = [known[name].size for name in node.inputs if name in known]
    form = forms.get(node.outputs[0])
    if form is None or len(read) < sum(map(bool, node.inputs)) or len(node.outputs) > 1:
        return False
    return max([*read, math.prod(form[1])]) <= MOST_VALUES


@np.errstate(all="ignore")
def _computed(node: Node, known: Mapping[str, Array], opset: int) -> Array | None:
    """The output of a node, by ONNX's own reference; None where that can't compute it."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    names = dict.fromkeys(filter(None, node.inputs))
    inputs = [onnx.helper.make_tensor_value_info(name, 0, None) for name in names]
    graph = onnx.helper.make_graph([node.proto], "g", inputs, [onnx.ValueInfoProto(name=node.outputs[0])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        (made,) = ReferenceEvaluator(model).run(None, {name: known[name] for name in names})
    except Exception:  # of its operators, which check little; the node is computed where the model runs
        return None
    return np.asarray(made)
