"""GroupQueryAttention of ONNX Runtime, compiled, beside ONNX Runtime: prompts, tokens behind a cache, and options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from int8tune.compiler.errors import ModelError
from int8tune.compiler.onnx_reader.model import read_onnx
from tests.support.models.onnx_islands import assert_close, compiled, outputs_of
from tests.support.models.onnx_models import FILE_VERSION, values_of
from tests.support.run.thinned import chosen

onnx = pytest.importorskip("onnx", reason="needs the extra `models`")
pytest.importorskip("onnxruntime", reason="needs onnxruntime, which they are compared with")

HEADS, GROUPS, SIZE, ROWS = 4, 2, 32, 32
LOWEST = float(np.finfo(np.float32).min)

# Extents and inputs: earlier tokens' room, new tokens, and which of the optional inputs there are.
Forms = dict[str, Any]
DECODING: Forms = {"batch": 2, "past": 5, "total": 6, "lengths": [5, 3]}
CHUNK: Forms = {"new": 3, "past": 5, "total": 8}
PROMPT: Forms = {"batch": 2, "new": 5, "total": 5, "lengths": [4, 4]}
# More rows of scores than a key has values.
LONG: Forms = {"batch": 2, "new": 9, "total": 9, "groups": 1}
# In a cache that keeps its length.
ROOM: Forms = {"new": 3, "past": 8, "total": 7, "lengths": [5]}

CASES: dict[str, Forms] = {
    "long prompt of one group, packed": {**LONG, "packed": True, "rotary": SIZE // 2, "rotary_interleaved": 1},
    "room, rotated in part, at places": {**ROOM, "rotary": SIZE // 4, "positions": True, "rotary_interleaved": 1},
    "chunk, all options": {**CHUNK, "bias": (1, HEADS), "sink": True, "softcap": 0.7, "scale": 0.4},
    "room, total computed": {**ROOM, "total_computed": True, "local_window_size": 2},
    "lengths, both ways": {"batch": 2, "new": 1, "past": 8, "total": 6, "lengths": [5, 2], "causal": 0},
    "prompt, masked rows": {**PROMPT, "bias": (2, 1), "masked": LOWEST},
    "decoding, rotated": {**DECODING, "rotary": SIZE // 2},
    "decoding": DECODING,
    "chunk": CHUNK,
    "prompt": PROMPT,
    "prompt of other lengths": {**PROMPT, "lengths": [4, 2], "rotary": SIZE // 2},
    "prompt in room": {"new": 5, "past": 8, "total": 5},
    "prompt at places": {**PROMPT, "rotary": SIZE // 2, "positions": True, "computed_angles": True},
    "prompt both ways": {**PROMPT, "lengths": [4, 1], "causal": 0},
    "prompt, infinite mask": {**PROMPT, "bias": (1, HEADS), "masked": -np.inf},
    "prompt, total computed": {**PROMPT, "past": 8, "total_computed": True, "rotary": SIZE // 2, "positions": True},
    "prompt without a cache, total computed": {**PROMPT, "total_computed": True},
    "decoding at places": {**DECODING, "rotary": SIZE // 2, "positions": True},
    "decoding, total computed": {**DECODING, "past": 8, "total_computed": True, "rotary": SIZE // 2},
    "window of one": {**CHUNK, "local_window_size": 1},
    "window": {**CHUNK, "local_window_size": 3, "smooth_softmax": 1},
    "smooth": {**DECODING, "smooth_softmax": 1},
    "sink in a window": {**CHUNK, "sink": True, "smooth_softmax": 1, "local_window_size": 4},
    "bias in room": {**ROOM, "bias": (1, 1), "softcap": 2.0},
    "one group": {**CHUNK, "groups": 1},
    "heads by themselves": {**CHUNK, "groups": HEADS},
    "lengths beyond the total": {"batch": 2, "past": 8, "total": 6, "lengths": [7, 5], "rotary": SIZE // 2},
    "other flags": {**DECODING, "rotary": SIZE // 2, "do_rotary": 2, "smooth_softmax": 2},
    "lengths in a column": {**DECODING, "lengths": [[5], [3]]},
}


class _Model:
    """Writes a model of one node behind a quantized input."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.constants: list[Any] = []
        self.feeds: dict[str, Any] = {}
        self.rng = np.random.default_rng(3)

    def given(self, name: str, values: Any) -> str:
        self.feeds[name] = values
        element = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        self.inputs.append(onnx.helper.make_tensor_value_info(name, element, values.shape))
        return name

    def constant(self, name: str, values: Any) -> str:
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def numbers(self, name: str, *shape: int) -> str:
        return self.given(name, self.rng.normal(0, 1, shape).astype(np.float32))

    def written(self, inputs: list[str], present: tuple[int, ...] | None, opset: int = 17, **attributes: Any) -> bytes:
        parameters = [self.constant("s", np.float32(0.03)), self.constant("z", np.uint8(120))]
        nodes = [
            onnx.helper.make_node("QuantizeLinear", ["x", *parameters], ["q"]),
            onnx.helper.make_node("DequantizeLinear", ["q", *parameters], ["d"]),
            onnx.helper.make_node(
                "GroupQueryAttention", inputs, ["y", "keys", "values"], "node", domain="com.microsoft", **attributes
            ),
        ]
        shapes = {"y": None, "keys": present, "values": present}
        outputs = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
        graph = onnx.helper.make_graph(nodes, "g", self.inputs, outputs, self.constants)
        imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
        data: bytes = onnx.helper.make_model(graph, opset_imports=imports, ir_version=FILE_VERSION).SerializeToString()
        return data


def written(
    batch: int = 1,
    new: int = 1,
    past: int = 0,
    total: int = 1,
    lengths: Any = None,
    groups: int = GROUPS,
    packed: bool = False,
    rotary: int = 0,
    positions: bool = False,
    computed_angles: bool = False,
    bias: tuple[int, int] | None = None,
    masked: float | None = None,
    sink: bool = False,
    total_computed: bool = False,
    **attributes: Any,
) -> tuple[bytes, dict[str, Any]]:
    """A file, and what it is given.

    Args:
        lengths: the last place of each sequence; that of the total by default.
        rotary: pairs of values that are turned.
        bias: the first extents of what is added to scores; with `masked`, which takes out a key, and a row's all.
    """
    m = _Model()
    m.numbers("x", batch, new, (HEADS + (2 * groups if packed else 0)) * SIZE)
    inputs = ["d", *(("", "") if packed else (m.numbers(name, batch, new, groups * SIZE) for name in ("k", "v")))]
    inputs += [m.numbers(name, batch, groups, past, SIZE) if past else "" for name in ("past_k", "past_v")]
    inputs.append(m.given("lengths", np.array([total - 1] * batch if lengths is None else lengths, np.int32)))
    inputs.append((m.given if total_computed else m.constant)("total", np.array([total], np.int32)))
    angles = m.rng.uniform(0, 6, (ROWS, rotary)).astype(np.float32)
    put = m.given if computed_angles else m.constant
    inputs += [put("cosines", np.cos(angles)), put("sines", np.sin(angles))] if rotary else ["", ""]
    inputs.append(m.given("places", m.rng.integers(0, ROWS - new, (batch, new))) if positions else "")
    inputs.append(m.numbers("bias", *bias, new, total) if bias else "")
    inputs.append(m.numbers("sink", HEADS) if sink else "")
    if masked is not None:
        m.feeds["bias"][..., 0], m.feeds["bias"][..., 2, :] = masked, masked
    while not inputs[-1]:
        inputs.pop()
    own = {"num_heads": HEADS, "kv_num_heads": groups, "do_rotary": int(bool(rotary))}
    present = (batch, groups, past or new, SIZE) if total_computed else None
    return m.written(inputs, present, **(own | attributes)), m.feeds


@pytest.mark.parametrize("name", chosen(CASES, lambda name: name in [*CASES][:3:2]))
@pytest.mark.matrix(at_most=1)
def test_attention_of_groups_is_onnx_runtimes(name: str, tmp_path: Path) -> None:
    forms = CASES[name]
    file, feeds = written(**forms)
    ours, theirs = outputs_of(file, tmp_path, feeds)
    if forms.get("causal", 1) and forms["total"] == forms.get("new", 1):
        # Of queries behind a shorter sequence, ONNX Runtime's scores are what was in memory.
        for at, last in enumerate(feeds["lengths"].ravel()):
            ours["y"][at, last + 1 :] = theirs["y"][at, last + 1 :] = 0
    assert_close(ours, theirs)


def test_lengths_beyond_the_cache_read_nothing_else(tmp_path: Path) -> None:
    """ONNX Runtime stops there; places nearest to them are taken. Those that are in the cache are as there."""
    file, feeds = written(batch=2, past=5, total=6, lengths=[5, 0], rotary=SIZE // 2)
    model = compiled(file, tmp_path)
    names = [form["name"] for form in model.about.outputs]
    made, theirs = [], values_of(file, names, feeds)
    for lengths in ([5, 0], [2**31 - 1, -(2**31)], [6, -1]):
        feeds["lengths"][:] = lengths
        made.append(model.run([feeds[form["name"]] for form in model.about.inputs]))
    assert_close(dict(zip(names, made[0], strict=True)), theirs)
    for others in made[1:]:
        assert all(np.array_equal(one, other) for one, other in zip(made[0], others, strict=True))


REFUSED: dict[str, tuple[Forms, str]] = {
    "total": ({**CHUNK, "total": 9}, "must be 8, or 3 to 5: 9"),
    "between": ({**CHUNK, "total": 7}, "must be 8, or 3 to 5: 7"),
    "short past": ({**CHUNK, "new": 6, "total": 6}, "must be 11: 6"),
    "negative total": ({**CHUNK, "total": -(2**31), "lengths": [0]}, "must be 8, or 3 to 5: -"),
    "no cache": ({"total": 3}, "must be 1: 3"),
    "chunks of two": ({**CHUNK, "batch": 2}, "2 sequences must have one new one each"),
    "heads": ({**CHUNK, "num_heads": 5}, "multiple of its kv_num_heads: 5, 2"),
    "no heads": ({**CHUNK, "num_heads": 0}, "multiple of its kv_num_heads: 0, 2"),
    "many heads": ({**CHUNK, "num_heads": 2**40}, "multiple of its kv_num_heads: 0, 2"),
    "text": ({**CHUNK, "kv_num_heads": "2"}, "multiple of its kv_num_heads: 4, 0"),
    "packed heads": ({**CHUNK, "packed": True, "num_heads": 6}, "f32 of 10 heads"),
    "groups": ({**CHUNK, "kv_num_heads": 1}, "its key must be f32 of shape"),
    "lengths": ({**CHUNK, "lengths": [1, 2]}, "its seqlens_k must be s32, one for each of 1"),
    "window": ({**CHUNK, "local_window_size": 0}, "its local_window_size must be -1"),
    "window both ways": ({**CHUNK, "local_window_size": 2, "causal": 0}, "its local_window_size must be -1"),
    "scale": ({**CHUNK, "scale": float("nan")}, "its scale must be a finite number"),
    "softcap": ({**CHUNK, "softcap": 3}, "its softcap must be a finite number: 3"),
    "pairs": ({**CHUNK, "rotary": SIZE}, "rows of up to 16: [32, 32]"),
    "rows": ({**CHUNK, "past": 60, "total": 60, "rotary": 8}, "must have 60 rows"),
    "no angles": ({**CHUNK, "do_rotary": 1}, "must have 8 rows of up to 16: []"),
    "bias": ({**CHUNK, "bias": (2, 1)}, "its attention_bias must fit scores"),
    "scores of queries": ({**CHUNK, "qk_output": 1}, "its qk_output must be 0: 1"),
    "neither way": ({**CHUNK, "causal": 2}, "its causal must be 0 or 1: 2"),
    "quantized cache": ({**CHUNK, "k_quant_type": "PER_TENSOR"}, "its k_quant_type must be NONE: PER_TENSOR"),
    "open room": ({**ROOM, "total_computed": True, "past": 2}, "must be known"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_computed_is_named(name: str) -> None:
    forms, message = REFUSED[name]
    file, _ = written(**forms)
    with pytest.raises(ModelError, match=rf"^[^\n]*`node` \(GroupQueryAttention\): [^\n]*{re.escape(message)}[^\n]*$"):
        read_onnx(file, "groups")


@pytest.mark.parametrize("place", range(7, 17))
def test_further_inputs_of_other_forms_are_refused(place: int) -> None:
    m = _Model()
    m.numbers("x", 1, 1, HEADS * SIZE)
    inputs = ["d", *(m.numbers(name, 1, 1, GROUPS * SIZE) for name in ("k", "v")), "", ""]
    inputs += [m.given("lengths", np.zeros(1, np.int32)), m.constant("total", np.int32(1))]
    inputs += [""] * (place - 7) + [m.numbers("more", 3)]
    file = m.written(inputs, None, num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1)
    with pytest.raises(ModelError, match=r"^[^\n]*`node` \(GroupQueryAttention\): [^\n]*$"):
        read_onnx(file, "groups")


@pytest.mark.thorough
def test_total_follows_from_a_mask_as_exporters_write(tmp_path: Path) -> None:
    """Two layers, whose lengths are sums of a mask and whose total is its extent."""
    m = _Model()
    m.numbers("x", 1, 1, HEADS * SIZE)
    m.given("mask", np.array([[1, 1, 1, 1, 0]], np.int64))
    parameters = [m.constant("s", np.float32(0.03)), m.constant("z", np.uint8(120))]
    numbers = {"one": [1], "place": 1}
    for name, values in numbers.items():
        m.constant(name, np.array(values, np.int64))
    node = onnx.helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", *parameters], ["q"]),
        node("DequantizeLinear", ["q", *parameters], ["d"]),
        node("ReduceSum", ["mask", "one"], ["sums"]),
        node("Sub", ["sums", "one"], ["last"]),
        node("Cast", ["last"], ["lengths"], to=6),
        node("Shape", ["mask"], ["shape"]),
        node("Gather", ["shape", "place"], ["extent"], axis=0),
        node("Cast", ["extent"], ["total"], to=6),
    ]
    data = "d"
    for layer in "01":
        weights = m.constant(f"w{layer}", m.rng.normal(0, 0.2, (HEADS * SIZE, 2 * HEADS * SIZE)).astype(np.float32))
        past = [m.numbers(f"past_{name}{layer}", 1, GROUPS, 4, SIZE) for name in "kv"]
        nodes.append(node("MatMul", [data, weights], [f"qkv{layer}"]))
        inputs, outputs = [f"qkv{layer}", "", "", *past, "lengths", "total"], [f"{name}{layer}" for name in "ykv"]
        own = {"num_heads": HEADS, "kv_num_heads": GROUPS, "domain": "com.microsoft"}
        nodes.append(node("GroupQueryAttention", inputs, outputs, **own))
        data = f"y{layer}"
    outputs = [onnx.helper.make_tensor_value_info(name, 1, None) for name in ("y1", "k0", "v0", "k1", "v1")]
    graph = onnx.helper.make_graph(nodes, "g", m.inputs, outputs, m.constants)
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    file = onnx.helper.make_model(graph, opset_imports=imports, ir_version=FILE_VERSION).SerializeToString()
    assert_close(*outputs_of(file, tmp_path, m.feeds))
