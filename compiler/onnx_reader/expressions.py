"""What ONNX Runtime computes element by element in binary32 between DequantizeLinear and QuantizeLinear nodes.

Of one 8-bit value with numbers besides it is a table of 256. Of several values, or with a number for each channel, it
is one operator that computes step by step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from int8tune.compiler.onnx_reader.file import OnnxFile
from int8tune.compiler.onnx_reader.float_nodes import NODES, Applied
from int8tune.compiler.onnx_reader.fused import ACTIVATIONS, Fusion
from int8tune.compiler.onnx_reader.gelus import with_gelu
from int8tune.compiler.onnx_reader.nodes import Node
from int8tune.compiler.onnx_reader.quantization import DEQUANTIZE, QUANTIZE, Constant, Quantizations
from int8tune.compiler.onnx_reader.tensors import TYPES
from int8tune.compiler.onnx_reader.trees import Apply, Leaf, Number, Tree
from int8tune.compiler.operators.base import BYTES, STORED_RANGES
from int8tune.compiler.operators.functions import FUNCTIONS

SUMS = ("Add", "Mul")
# What is read alone, where it is between stored values.
TABLES = (*FUNCTIONS, "Clip")
# A tree that grows further is none.
MOST_APPLIED = 64


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """What a QuantizeLinear stores.

    Attributes:
        nodes: all that is computed, the last one behind the others.
    """

    tree: Apply
    nodes: tuple[Node, ...]


class Expressions:
    """The expressions of a file.

    Attributes:
        stored: by the QuantizeLinear behind them.
        inner: nodes whose numbers nothing else reads.
    """

    def __init__(self, file: OnnxFile, quantizations: Quantizations, fusion: Fusion) -> None:
        self._file, self._quantizations, self._fusion = file, quantizations, fusion
        self._uses = Counter(name for node in file.nodes for name in node.inputs) + Counter(file.outputs)
        self._made_by = {name: node for node in file.nodes for name in node.outputs}
        self._trees = self._trees_of()
        self.stored: Mapping[Node, Expression] = dict(self._found())
        self.inner = self._inner()

    def _trees_of(self) -> dict[str, Tree]:
        trees: dict[str, Tree] = {
            name: Number(name, constant)
            for name, constant in self._quantizations.constants.items()
            if _is_number(constant)
        }
        for node in self._file.nodes:
            if node.outputs[0] in trees:
                continue
            if node in self._quantizations.computed:
                continue
            if node.computes == DEQUANTIZE and self._is_byte(node.input(0)):
                trees[node.outputs[0]] = Leaf(node.outputs[0], self._file.forms[node.outputs[0]][1])
            elif node.computes in NODES and all(not name or name in trees for name in node.inputs):
                own = tuple(self._uses[name] == 1 for name in node.inputs)
                found = NODES[node.computes](Applied(self._file, node, tuple(map(trees.get, node.inputs)), own))
                if isinstance(found, Apply) and found.count <= MOST_APPLIED:
                    trees[node.outputs[0]] = found
        return trees

    def _is_byte(self, name: str) -> bool:
        quantization = self._quantizations.stored.get(name)
        is_one = quantization is not None and not quantization.per_channel
        return is_one and self._file.forms[name][0] in BYTES

    def _found(self) -> Iterator[tuple[Node, Expression]]:
        for node in self._file.nodes:
            tree = self._trees.get(node.input(0))
            if node in self._quantizations.computed:
                continue
            if node.computes != QUANTIZE or not isinstance(tree, Apply) or not self._is_byte(node.outputs[0]):
                continue
            last = self._made_by[node.input(0)]
            if not tree.leaves or not tree.is_computable or self._is_read_otherwise(last, node):
                continue
            if tree.shape == self._file.forms[node.input(0)][1]:
                yield node, Expression(with_gelu(tree), tuple(self._nodes(last)))

    def _is_read_otherwise(self, last: Node, quantizer: Node) -> bool:
        """Whether it is one function of a value, or what ONNX Runtime computes as QLinearAdd or QLinearMul.

        These are of one type alone, and have no activation: one whose bounds a QuantizeLinear has anyway is left out
        (`IsClipMadeRedundantByQ` of its qdq_util.cc), behind another one numbers are added.
        """
        if last.computes in TABLES and isinstance(self._trees[last.input(0)], Leaf):
            return True
        activations: list[Node] = []
        while last.computes in ACTIVATIONS and last.input(0) in self._made_by:
            activations.append(last)
            last = self._made_by[last.input(0)]
        made = quantizer.outputs[0]
        type_ = self._file.forms[made][0]
        is_one = len(last.inputs) == 2 and {self._stored_type(name) for name in last.inputs} == {type_}
        if last.computes not in SUMS or not is_one:
            return False
        return self._fusion.stored_bounds(made, activations) == STORED_RANGES[type_]

    def _stored_type(self, name: str) -> str | None:
        """The type of an 8-bit value, constant or not; None of all else."""
        tree = self._trees.get(name)
        if isinstance(tree, Leaf):
            return self._file.forms[self._made_by[tree.name].input(0)][0]
        form = tree.constant.quantization if isinstance(tree, Number) else None
        if form is None or form.per_channel:
            return None
        return TYPES.get(tree.constant.array.dtype)  # type: ignore[union-attr]

    def _nodes(self, last: Node) -> list[Node]:
        """What computes a tree, in the file's order."""
        found, left = set[Node](), [last]
        while left:
            node = left.pop()
            if node not in found and node.computes != DEQUANTIZE and node.outputs[0] not in self._constants:
                found.add(node)
                left += [self._made_by[name] for name in node.inputs if name in self._made_by]
        return [node for node in self._file.nodes if node in found]

    @property
    def _constants(self) -> Mapping[str, Constant]:
        return self._quantizations.constants

    def _inner(self) -> frozenset[Node]:
        readers: dict[str, list[Node]] = defaultdict(list)
        for node in self._file.nodes:
            for name in node.inputs:
                readers[name].append(node)
        computed = {node for expression in self.stored.values() for node in expression.nodes}
        inner, ends = set[Node](), set(self._file.outputs)
        for node in reversed(self._file.nodes):
            if node in computed and not ends.intersection(node.outputs):
                taken = [reader for name in node.outputs for reader in readers[name]]
                if all(reader in self.stored or reader in inner for reader in taken):
                    inner.add(node)
        return frozenset(inner)


def _is_number(constant: Constant) -> bool:
    if constant.quantization is None and constant.array.dtype != np.float32:
        return False
    with np.errstate(all="ignore"):
        return _is_surely_finite(constant) or bool(np.isfinite(constant.real).all())


def _is_surely_finite(constant: Constant) -> bool:
    """Whether no stored value of its type and scales is beyond binary32; nothing is computed of a model's weights."""
    if constant.quantization is None or constant.array.dtype.kind not in "iu":
        return False
    most = np.float32(2.0 ** (8 * constant.array.itemsize))
    return bool(np.isfinite(most * constant.quantization.scale.astype(np.float32).max(initial=0)))
