"""A person's own layer table: what is read, and what each fault is told."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from int8tune.compiler.errors import CompilerError, LayerTableError, UnknownNetworkError
from int8tune.compiler.network import Layer, Network
from int8tune.compiler.network_file import MAX_BYTES, load_network, read_table
from int8tune.schedules.workload import parse_workload

ROW = {"name": "conv1", "count": 2, "workload": "conv2d-u8s8-1x8x8x16-k3x3x16-s1-p1-float.c-u8"}
PUBLISHED = {"macs": 295_000, "tolerance": 0.01, "source": "a paper, table 1", "counts": "multiply-adds"}


def _table(**changes: object) -> dict[str, object]:
    table: dict[str, object] = {
        "format": 1,
        "name": "tiny",
        "description": "two layers",
        "input": "1x8x8x16",
        "layers": [ROW],
    }
    return table | changes


def _without(table: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in table.items() if key != name}


def _write(folder: Path, text: str) -> str:
    path = folder / "tiny.json"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    network = load_network(_write(tmp_path, json.dumps(_table())))
    workload = parse_workload(str(ROW["workload"]))
    assert network == Network("tiny", "two layers", (1, 8, 8, 16), (Layer(("conv1",), 2, workload),))
    assert network.macs == 2 * 8 * 8 * 16 * 3 * 3 * 16


def test_a_table_may_start_with_a_byte_order_mark() -> None:
    assert read_table(b"\xef\xbb\xbf" + json.dumps(_table()).encode(), "tiny.json").name == "tiny"


def test_a_published_figure_that_agrees() -> None:
    network = read_table(json.dumps(_table(published=PUBLISHED)).encode(), "tiny.json")
    assert network.published is not None
    assert network.published.macs_not_in_table == 0
    assert network.published.deviation(network.macs) == pytest.approx(-0.0003, abs=1e-4)


FAULTS: dict[str, tuple[object, str]] = {
    "top-level-list": ([1], "tiny.json: must be an object: a list"),
    "unknown-field": (_table(layer=[]), "tiny.json: layer: unknown field, did you mean `layers`?"),
    "far-unknown-field": (
        _table(zzz=1),
        "tiny.json: zzz: unknown field, known: description, format, input, layers, name, published",
    ),
    "no-format": (_without(_table(), "format"), "tiny.json: format: missing"),
    "no-name": (_without(_table(), "name"), "tiny.json: name: missing"),
    "no-layers": (_without(_table(), "layers"), "tiny.json: layers: missing"),
    "newer-format": (_table(format=2), "tiny.json: format: must be 1: 2"),
    "format-is-true": (_table(format=True), "tiny.json: format: must be 1: true"),
    "name-is-number": (
        _table(name=7),
        "tiny.json: name: must be 1 to 64 letters, digits, `.`, `_`, `-`: 7",
    ),
    "name-with-slash": (
        _table(name="../x"),
        'tiny.json: name: must be 1 to 64 letters, digits, `.`, `_`, `-`: "../x"',
    ),
    "description-with-escape": (
        _table(description="\x1b[2J"),
        'tiny.json: description: must be a text of 1 to 1000 printable characters: "\\u001b[2J"',
    ),
    "description-of-surrogate": (
        _table(description="\ud800"),
        'tiny.json: description: must be a text of 1 to 1000 printable characters: "\\ud800"',
    ),
    "input": (_table(input="8 x 8"), 'tiny.json: input: must be a shape such as `1x224x224x3`: "8 x 8"'),
    "layers-is-object": (_table(layers={}), "tiny.json: layers: must be a list: an object"),
    "empty-layers": (_table(layers=[]), "tiny.json: layers: must have 1 to 10000 items: 0"),
    "too-many-layers": (_table(layers=[0] * 10_001), "tiny.json: layers: must have 1 to 10000 items: 10001"),
    "row-is-text": (_table(layers=["conv1"]), 'tiny.json: layers[0]: must be an object: "conv1"'),
    "row-without-count": (_table(layers=[_without(ROW, "count")]), "tiny.json: layers[0].count: missing"),
    "unknown-column": (
        _table(layers=[ROW | {"cout": 1}]),
        "tiny.json: layers[0].cout: unknown field, did you mean `count`?",
    ),
    "count-of-zero": (
        _table(layers=[ROW | {"count": 0}]),
        "tiny.json: layers[0].count: must be an integer of 1 to 1000000: 0",
    ),
    "count-is-true": (
        _table(layers=[ROW | {"count": True}]),
        "tiny.json: layers[0].count: must be an integer of 1 to 1000000: true",
    ),
    "count-is-float": (
        _table(layers=[ROW | {"count": 2.0}]),
        "tiny.json: layers[0].count: must be an integer of 1 to 1000000: 2.0",
    ),
    "count-is-nan": (
        _table(layers=[ROW | {"count": math.nan}]),
        "tiny.json: layers[0].count: must be an integer of 1 to 1000000: NaN",
    ),
    "count-is-null": (
        _table(layers=[ROW | {"count": None}]),
        "tiny.json: layers[0].count: must be an integer of 1 to 1000000: null",
    ),
    "count-too-large": (
        _table(layers=[ROW | {"count": 10**9}]),
        "tiny.json: layers[0].count: must be an integer of 1 to 1000000: 1000000000",
    ),
    "workload-unknown": (
        _table(layers=[ROW | {"workload": "pool-u8"}]),
        "tiny.json: layers[0].workload: unknown operator `pool`, known: conv2d, dwconv2d, dense",
    ),
    "workload-impossible": (
        _table(layers=[ROW | {"workload": "conv2d-u8s8-1x2x2x4-k5x5x4-s1-p0-float.c-u8"}]),
        "tiny.json: layers[0].workload: conv2d-u8s8-1x2x2x4-k5x5x4-s1-p0-float.c-u8: "
        "the window spans 5 rows, the padded image has only 2",
    ),
    "workload-is-list": (
        _table(layers=[ROW | {"workload": []}]),
        "tiny.json: layers[0].workload: must be a text of 1 to 200 printable characters: a list",
    ),
    "workload-twice": (
        _table(layers=[ROW, ROW | {"name": "conv2"}]),
        f"tiny.json: layers[1].workload: already in layers[0]: {ROW['workload']}",
    ),
    "published-is-null": (_table(published=None), "tiny.json: published: must be an object: null"),
    "published-is-number": (_table(published=5), "tiny.json: published: must be an object: 5"),
    "published-without-source": (
        _table(published=_without(PUBLISHED, "source")),
        "tiny.json: published.source: missing",
    ),
    "published-nan": (
        _table(published=PUBLISHED | {"macs": math.nan}),
        "tiny.json: published.macs: must be a number over 0, at most 1e+18: NaN",
    ),
    "published-true": (
        _table(published=PUBLISHED | {"macs": True}),
        "tiny.json: published.macs: must be a number over 0, at most 1e+18: true",
    ),
    "published-infinite": (
        _table(published=PUBLISHED | {"tolerance": math.inf}),
        "tiny.json: published.tolerance: must be a number over 0, at most 1: Infinity",
    ),
    "published-disagrees": (
        _table(published=PUBLISHED | {"macs": 400_000}),
        "tiny.json: published.macs: the layers have 294912 multiply-adds, -26.27% from the published figure, "
        "the tolerance is 1.00%: 400000",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_says_where_it_is(case: str) -> None:
    table, message = FAULTS[case]
    with pytest.raises(LayerTableError) as caught:
        read_table(json.dumps(table).encode(), "tiny.json")
    assert caught.value.faults == (message,)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"format": 1,\n  "name": }', "tiny.json:2:11: not JSON: Expecting value"),
        (b"", "tiny.json:1:1: not JSON: Expecting value"),
        (b'{"name": "\xff"}', "tiny.json: not UTF-8 text: byte 10 is 0xff"),
        (b"[" * 100_000, "tiny.json: lists and objects are nested too deeply"),
        (b"1" * 5000, "tiny.json: a number has too many digits, at most 4300: 5000"),
    ],
    ids=["syntax", "empty", "not-utf-8", "deep", "digits"],
)
def test_text_that_is_no_json(data: bytes, message: str) -> None:
    with pytest.raises(LayerTableError) as caught:
        read_table(data, "tiny.json")
    assert caught.value.faults == (message,)


def test_a_member_given_twice() -> None:
    text = json.dumps(_table()).replace('"count": 2', '"count": 2, "count": 3')
    with pytest.raises(LayerTableError) as caught:
        read_table(text.encode(), "tiny.json")
    assert caught.value.faults == ("tiny.json: layers[0].count: given more than once",)


def test_all_faults_of_a_file_come_at_once() -> None:
    rows = [ROW | {"count": 0}, ROW | {"workload": "x", "nmae": ""}]
    with pytest.raises(LayerTableError) as caught:
        read_table(json.dumps(_table(name="", layers=rows, published={})).encode(), "tiny.json")
    places = [fault.split(": ")[1] for fault in caught.value.faults]
    assert places == [
        "name",
        "layers[0].count",
        "layers[1].nmae",
        "layers[1].workload",
        "published.macs",
        "published.tolerance",
        "published.source",
        "published.counts",
    ]


def test_a_message_stops_after_twenty_faults() -> None:
    with pytest.raises(LayerTableError) as caught:
        read_table(json.dumps(_table(layers=[0] * 25)).encode(), "tiny.json")
    lines = str(caught.value).splitlines()
    assert len(caught.value.faults) == 25
    assert len(lines) == 21
    assert lines[-1] == "and 5 more"


def test_a_field_name_can_not_write_to_the_terminal() -> None:
    with pytest.raises(LayerTableError) as caught:
        read_table(json.dumps(_table(**{"\x1b[2J\n" + "x" * 500: 1})).encode(), "tiny.json")
    message = str(caught.value)
    assert "\\x1b[2J\\n" in message
    assert message.isprintable()
    assert len(message) < 300


def test_a_table_over_the_size_limit(tmp_path: Path) -> None:
    path = _write(tmp_path, json.dumps(_table()) + " " * MAX_BYTES)
    with pytest.raises(LayerTableError, match=f"a layer table has at most {MAX_BYTES} bytes"):
        load_network(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mobilenetv2", "unknown network `mobilenetv2`, did you mean `mobilenet_v2`? known: bert_base, "),
        ("ResNet-50", "unknown network `ResNet-50`, did you mean `resnet50`? known: "),
        ("vgg16", "unknown network `vgg16`, known: bert_base, inception_v1, "),
        ("", "unknown network ``, known: "),
        ("x" * 5000, "unknown network `" + "x" * 80 + "...`, known: "),
        ("a\0b", "unknown network `a\\x00b`, known: "),
    ],
)
def test_an_unknown_network(name: str, message: str) -> None:
    with pytest.raises(UnknownNetworkError) as caught:
        load_network(name)
    assert str(caught.value).startswith(message)


def test_a_layer_is_a_network_by_its_key() -> None:
    key = "dwconv2d-u8s8-1x28x28x120-k5x5x1-s1-p2-float.c-u8"
    network = load_network(key)
    (layer,) = network.layers
    assert (network.name, layer.names, layer.count, layer.workload.key) == (key, (key,), 1, key)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "dense-u8s8-1x56-o64",
            "`dense-u8s8-1x56-o64` is not a dense key, which look like `dense-u8s8-1x1024-o",
        ),
        ("conv2d-u8s8-1x5x5x3-k9x9x3-s1-p0-float.c-u8", "the window spans 9 rows, the padded image has only 5"),
    ],
)
def test_a_key_of_no_layer_says_why(key: str, message: str) -> None:
    with pytest.raises(UnknownNetworkError) as error:
        load_network(key)
    assert message in str(error.value)


def test_paths_that_are_no_layer_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.json").mkdir()
    Path("folder").mkdir()
    Path("notes.txt").write_text("{}")
    os.mkfifo("pipe.json")
    accepted = "give a layer table (.json), a model (.tflite or .onnx), or one of bert_base, "
    for path, message in (
        ("nowhere.json", "a layer table must be a file, this is no such file: nowhere.json"),
        ("folder.json", "a layer table must be a file, this is a folder: folder.json"),
        ("pipe.json", "a layer table must be a file, this is no regular file: pipe.json"),
        ("a" * 300 + ".json", "File name too long"),
        ("folder", accepted),
        ("notes.txt", accepted),
    ):
        with pytest.raises(LayerTableError) as caught:
            load_network(path)
        assert message in str(caught.value)
        assert len(caught.value.faults) == 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(ROW["workload"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*_table(), *ROW]), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*_table(), "published", "row"]), JSON_VALUES)
@pytest.mark.thorough
def test_any_value_anywhere_is_a_network_or_a_fault(field: str, value: object) -> None:
    table = _table(layers=[value, ROW]) if field == "row" else _table(**{field: value})
    message = ""
    try:
        read_table(json.dumps(table).encode(), "tiny.json")
    except CompilerError as error:
        message = str(error)
    assert all(line.isprintable() for line in message.splitlines())


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_network_or_a_fault(data: bytes) -> None:
    with pytest.raises(LayerTableError):
        read_table(data, "tiny.json")
