"""What a GroupQueryAttention of ONNX Runtime has: its sizes, and the forms of what it makes.

Source: ONNX Runtime's docs/ContribOperators.md and its kernel for CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from int8tune.compiler.graph import ElementType
from int8tune.compiler.onnx_reader.nodes import Node, UnsupportedNodeError, is_of_microsoft
from int8tune.compiler.onnx_reader.tensors import Array
from int8tune.results.text import clipped

GROUP_QUERY = "GroupQueryAttention"
QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COSINES, SINES, POSITIONS, BIAS, SINK = range(12)
_NAMES = (
    *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"),
    *("cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink"),
)
# Of earlier and new tokens together, and of scores: places of both are constants of the library.
_MOST_TOKENS, _MOST_SCORES = 1 << 22, 1 << 27
# Attributes that are not computed, with the values that mean nothing.
_PLAIN: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("qk_output", "kv_cache_bit_width", "sliding_window_cache"), (0,)),
    "causal": (0, 1),
    **dict.fromkeys(("k_quant_type", "v_quant_type"), ("NONE",)),
}

Form = tuple[ElementType, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Extents of a node's values.

    Attributes:
        length: of new tokens, S.
        heads, groups: how many heads queries have, and keys and values.
        size: of a head.
        past: tokens that the cache of earlier ones has room for; 0 without one.
        present: tokens that the cache which is made has room for.
        total: earlier and new tokens of the longest sequence; None where that is known at run time only.
        has_bias: whether scores have something added, which there is for tokens of the total alone.
    """

    batch: int
    length: int
    heads: int
    groups: int
    size: int
    past: int
    present: int
    total: int | None
    has_bias: bool

    @property
    def is_prompt(self) -> bool:
        """Whether no token is an earlier one, as ONNX Runtime tells it."""
        return self.total == self.length

    @property
    def attended(self) -> int:
        """How many tokens of the present cache a query may look at: ONNX Runtime goes by lengths, not by the total."""
        return self.total if self.total is not None and (self.is_prompt or self.has_bias) else self.present


def is_group_query(node: Node) -> bool:
    return is_of_microsoft(node, (GROUP_QUERY,))


def stand_ins(node: Node) -> list[Any]:
    """NodeProtos of which inference knows the shape of the first output."""
    import onnx

    made, query = node.outputs[0], node.input(QUERY)
    if node.input(KEY):
        return [onnx.helper.make_node("Identity", [query], [made])]
    heads, groups = _count(node, "num_heads"), _count(node, "kv_num_heads")
    forms = {"heads": [0, 0, heads + 2 * groups, -1], "joined": [0, 0, -1]}
    bounds = {"begin": [0], "end": [heads], "axis": [2]}
    name, constants = f"{made}/{GROUP_QUERY}", []
    for label, values in (forms | bounds).items():
        tensor = onnx.numpy_helper.from_array(np.array(values, np.int64))
        constants.append(onnx.helper.make_node("Constant", [], [f"{name} {label}"], value=tensor))
    split, own = f"{name} split", f"{name} own"
    return [
        *constants,
        onnx.helper.make_node("Reshape", [query, f"{name} heads"], [split]),
        onnx.helper.make_node("Slice", [split, *(f"{name} {label}" for label in bounds)], [own]),
        onnx.helper.make_node("Reshape", [own, f"{name} joined"], [made]),
    ]


def rooms_of(graph: Any) -> dict[str, int]:
    """The third extents of values of four axes, as far as a graph says them."""
    infos = [info for info in (*graph.output, *graph.value_info) if info.type.HasField("tensor_type")]
    extents = {info.name: info.type.tensor_type.shape.dim for info in infos}
    return {name: dims[2].dim_value for name, dims in extents.items() if len(dims) == 4 and dims[2].dim_value > 0}


def forms_of_attention(
    node: Node, forms: Mapping[str, Form], known: Mapping[str, Array], rooms: Mapping[str, int], is_settled: bool
) -> dict[str, Form]:
    """Forms of what a node makes; none where it is not known yet.

    Args:
        rooms: how many tokens caches have room for, as the file says.
        is_settled: whether nothing more will be known, so that a total which is not is one of run time.

    Raises:
        UnsupportedNodeError: it has something that is not computed.
    """
    sizes = sizes_of(node, forms, known, rooms) if is_settled or node.input(TOTAL) in known else None
    if sizes is None:
        return {}
    cache: Form = "f32", (sizes.batch, sizes.groups, sizes.present, sizes.size)
    made: list[Form] = [("f32", (sizes.batch, sizes.length, sizes.heads * sizes.size)), cache, cache]
    return {name: form for name, form in zip(node.outputs, made, strict=False) if name}


def sizes_of(
    node: Node, forms: Mapping[str, Form], known: Mapping[str, Array], rooms: Mapping[str, int]
) -> Sizes | None:
    """The sizes of a node whose values fit each other; None where a form is not known.

    Raises:
        UnsupportedNodeError: they don't, or it has something that is not computed.
    """
    _require_computed(node)
    if any(name and name not in forms for name in node.inputs):
        return None
    batch, length, heads, groups, size = _of_tokens(node, forms)
    past = 0
    if node.input(PAST_KEY):
        past = forms[node.input(PAST_KEY)][1][2] if len(forms[node.input(PAST_KEY)][1]) == 4 else 0
        for index in (PAST_KEY, PAST_VALUE):
            _require_form(node, forms, index, "f32", (batch, groups, past, size))
    element, shape = forms[node.input(LENGTHS)]
    if element != "s32" or math.prod(shape) != batch:
        raise UnsupportedNodeError(f"its seqlens_k must be s32, one for each of {batch}: {element}, {list(shape)}")
    total = _total(node, forms, known)
    if total is None:
        _require_room(node, length, past, rooms)
    else:
        _require_total(total, batch, length, past)
    present = max(past, total or length)
    scores = (batch, heads, length, present)
    if present > _MOST_TOKENS or math.prod(scores) > _MOST_SCORES or 0 in (*scores, size):
        raise UnsupportedNodeError(f"its scores must be 1 to {_MOST_SCORES:,}: {list(scores)}")
    sizes = Sizes(batch, length, heads, groups, size, past, present, total, bool(node.input(BIAS)))
    _require_rotation(node, forms, sizes)
    _require_additions(node, forms, sizes)
    return sizes


def _require_computed(node: Node) -> None:
    """Raise where a node has more than is written."""
    for name, allowed in _PLAIN.items():
        if (found := node.attributes.get(name, allowed[0])) not in allowed:
            raise UnsupportedNodeError(f"its {name} must be {' or '.join(map(str, allowed))}: {clipped(str(found))}")
    if any(node.inputs[SINK + 1 :]) or any(node.outputs[3:]):
        raise UnsupportedNodeError("caches and outputs of other kinds, norms and lengths of queries are not supported")
    if not (node.input(QUERY) and node.input(LENGTHS) and node.input(TOTAL)):
        raise UnsupportedNodeError("it must have queries, seqlens_k and total_sequence_length")
    for one, other in ((KEY, VALUE), (PAST_KEY, PAST_VALUE), (COSINES, SINES)):
        if bool(node.input(one)) != bool(node.input(other)):
            raise UnsupportedNodeError(f"it must have both {_NAMES[one]} and {_NAMES[other]}, or neither")


def _count(node: Node, name: str) -> int:
    count = node.attributes.get(name)
    return count if isinstance(count, int) and 0 < count < 1 << 16 else 0


def _of_tokens(node: Node, forms: Mapping[str, Form]) -> tuple[int, int, int, int, int]:
    """Batch, length, heads, groups and the size of a head, by the queries."""
    heads, groups = _count(node, "num_heads"), _count(node, "kv_num_heads")
    if not heads or not groups or heads % groups:
        raise UnsupportedNodeError(f"its num_heads must be a multiple of its kv_num_heads: {heads}, {groups}")
    element, shape = forms[node.input(QUERY)]
    packed = 0 if node.input(KEY) else 2 * groups
    if element != "f32" or len(shape) != 3 or shape[2] % (heads + packed):
        raise UnsupportedNodeError(f"its queries must be f32 of {heads + packed} heads: {element}, {list(shape)}")
    size = shape[2] // (heads + packed)
    for index in (KEY, VALUE) if node.input(KEY) else ():
        _require_form(node, forms, index, "f32", (*shape[:2], groups * size))
    return shape[0], shape[1], heads, groups, size


def _require_form(node: Node, forms: Mapping[str, Form], index: int, type_: str, shape: tuple[int, ...]) -> None:
    found = forms[node.input(index)]
    if found != (type_, shape):
        what = f"its {_NAMES[index]} must be {type_} of shape {list(shape)}"
        raise UnsupportedNodeError(f"{what}: {found[0]}, {list(found[1])}")


def _total(node: Node, forms: Mapping[str, Form], known: Mapping[str, Array]) -> int | None:
    element, shape = forms[node.input(TOTAL)]
    if element != "s32" or math.prod(shape) != 1:
        raise UnsupportedNodeError(f"its total_sequence_length must be one s32: {element}, {list(shape)}")
    return int(known[node.input(TOTAL)].reshape(-1)[0]) if node.input(TOTAL) in known else None


def _require_total(total: int, batch: int, length: int, past: int) -> None:
    """Raise where a total is neither within the cache of earlier tokens nor that of them all and the new ones."""
    if total != past + length and not length <= total <= past:
        what = f"{past + length}, or {length} to {past}" if length <= past else str(past + length)
        raise UnsupportedNodeError(f"its total_sequence_length must be {what}: {total}")
    if total > length > 1 < batch:
        raise UnsupportedNodeError(f"behind earlier tokens, {batch} sequences must have one new one each: {length}")


def _require_room(node: Node, length: int, past: int, rooms: Mapping[str, int]) -> None:
    """Raise where a total that is computed may make a cache of any length."""
    room = rooms.get(node.outputs[1]) if len(node.outputs) > 1 else None
    if past and not (room == past >= length):
        what = "its total_sequence_length must be known (bind it), or the file must say that caches keep their length"
        raise UnsupportedNodeError(f"{what}: {past} before, {room or 'unknown'} after {length} new tokens")


def _require_rotation(node: Node, forms: Mapping[str, Form], sizes: Sizes) -> None:
    if node.attributes.get("do_rotary", 0) != 1:
        return
    rows, pairs = sizes.total or sizes.length, sizes.size // 2
    shape = forms[node.input(COSINES)][1] if node.input(COSINES) else ()
    if len(shape) != 2 or not 0 < shape[1] <= pairs or shape[0] < rows:
        raise UnsupportedNodeError(f"its cos_cache must have {rows} rows of up to {pairs}: {list(shape)}")
    for index in (COSINES, SINES):
        _require_form(node, forms, index, "f32", shape)
    if node.input(POSITIONS):
        _require_form(node, forms, POSITIONS, "s64", (sizes.batch, sizes.length))


def _require_additions(node: Node, forms: Mapping[str, Form], sizes: Sizes) -> None:
    """What is done to scores, and added to them or to their sum."""
    window, is_causal = node.attributes.get("local_window_size", -1), node.attributes.get("causal", 1)
    if not isinstance(window, int) or (window != -1 and not (is_causal and 0 < window < 1 << 31)):
        raise UnsupportedNodeError(f"its local_window_size must be -1, or positive where it is causal: {window}")
    for name in ("scale", "softcap"):
        value = node.attributes.get(name, 0.0)
        if not isinstance(value, float) or not math.isfinite(value):
            raise UnsupportedNodeError(f"its {name} must be a finite number: {clipped(str(value))}")
    if node.input(BIAS):
        (element, shape), wanted = forms[node.input(BIAS)], (sizes.batch, sizes.heads, sizes.length, sizes.attended)
        fits = len(shape) == 4 and all(found in (1, own) for found, own in zip(shape[:2], wanted[:2], strict=True))
        if element != "f32" or not fits or shape[2:] != wanted[2:]:
            raise UnsupportedNodeError(f"its attention_bias must fit scores {list(wanted)}: {element}, {list(shape)}")
    if node.input(SINK):
        _require_form(node, forms, SINK, "f32", (sizes.heads,))
