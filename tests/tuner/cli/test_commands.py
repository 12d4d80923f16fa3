"""The commands that show things; they start fast and touch nothing."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from int8tune.compiler.network_file import load_network
from int8tune.schedules.target import PROFILES
from int8tune.tuner.api.layers import layers
from int8tune.tuner.api.templates import templates
from int8tune.tuner.campaign.spec import DEFAULT_STRATEGY, DEFAULT_TRIALS
from int8tune.tuner.cli.layers import layers_table
from int8tune.tuner.cli.plan import cores_in_words, in_words
from int8tune.tuner.cli.templates import folded
from tests.support.models.shared_models import V2, model_path
from tests.support.places import ROOT
from tests.support.program.cli_program import CONV, DEPTHWISE, in_process, int8tune, write_table
from tests.support.run.thinned import one_in

COMMANDS = (
    "tune",
    "plan",
    "watch",
    "networks",
    "layers",
    "compile",
    "accuracy",
    "profile",
    "quantize",
    "sensitivity",
    "compare-schemes",
    "report",
    "bench",
    "templates list",
    "templates show",
    "results list",
    "results show",
    "results best",
    "results suggest",
    "results export",
    "results compare",
    "results merge",
    "results rename",
    "results archive",
    "results prune",
    "lab",
    "simulate",
    "devices check",
    "help",
)
SHOW = ("templates", "show", "generic.direct", "--target", "generic", "--workload", CONV)


def test_every_command_has_a_help_with_an_example_on_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in COMMANDS:
        shown = in_process(*command.split(), "--help")
        assert shown.code == 0
        assert shown.err == ""
        assert f"Example: int8tune {command}" in " ".join(shown.out.split())
        assert len(shown.out.splitlines()) < 40


def test_help_lists_the_commands_whole() -> None:
    shown = int8tune()
    assert shown == int8tune("--help")
    assert shown.code == 0
    assert "..." not in shown.out.replace("[ARGS]...", "")
    for command in COMMANDS:
        assert f"\n  {command.split()[0]} " in shown.out


def test_help_has_the_defaults_of_a_campaign() -> None:
    shown = " ".join(in_process("tune", "--help").out.split())
    assert f"Trials per distinct layer. [default: {DEFAULT_TRIALS}]" in shown
    assert f"[default: {DEFAULT_STRATEGY}]" in shown


def test_a_page_of_the_documentation() -> None:
    topics = [line.split()[0] for line in in_process("help").out.splitlines()]
    assert topics == sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
    assert in_process("help", "farm").out == (ROOT / "docs" / "farm.md").read_text()
    unknown = in_process("help", "fram")
    assert unknown.code == 2
    assert unknown.err == (
        "error: no page of the documentation is called: fram, did you mean farm?\nhint: see the pages: int8tune help\n"
    )


def test_the_version() -> None:
    shown = int8tune("--version")
    assert (shown.code, shown.out, shown.err) == (0, "int8tune 0.1.0\n", "")


@pytest.mark.parametrize("words", one_in(2, ["--help", "templates list", "layers resnet50"]))
def test_commands_that_show_things_start_fast(words: str) -> None:
    started_s = _children_s()
    _start_bare()
    before_s = _children_s()
    shown = int8tune(*words.split(), env={"PYTHONPROFILEIMPORTTIME": "1"})
    ended_s = _children_s()
    _start_bare()
    bare_s = (before_s - started_s + _children_s() - ended_s) / 2
    assert shown.code == 0
    imported = {line.rpartition("|")[2].strip() for line in shown.err.splitlines() if line.startswith("import time:")}
    assert "int8tune.tuner.cli.failures" in imported
    assert not imported & {"tvm", "xgboost", "sqlalchemy", "jinja2", "onnx", "int8tune.rpc.bundle.runner"}
    # Of time on the core, which on a busy machine is more for both.
    assert ended_s - before_s < 5 * bare_s


def _start_bare() -> None:
    """Python with what every command imports."""
    subprocess.run([sys.executable, "-c", "import numpy, rich, typer"], check=True, timeout=60)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_what_makes_pages_and_campaigns_is_loaded_for_these_alone(tmp_path: Path) -> None:
    shown = int8tune("results", "best", "--results", tmp_path, env={"PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in shown.err.splitlines() if line.startswith("import time:")}
    assert "int8tune.tuner.api.schedules" in imported
    assert not imported & {"tvm", "xgboost", "jinja2", "int8tune.tuner.campaign.run"}


def test_layers_and_their_templates() -> None:
    shown = in_process("layers", "mobilenet_v2", "--target", "x86-avx512vnni")
    rows = [line.split() for line in shown.out.splitlines()]
    assert shown.code == 0
    assert rows[0] == ["runs", "MACs", "template", "workload"]
    first = "conv2d-u8s8-1x224x224x3-k3x3x32-s2-p0.0.1.1-float.c-u8"
    assert rows[1] == ["1", "10.8M", "x86.conv", first]
    assert shown.err == "mobilenet_v2 on x86-avx512vnni: 53 layers, 31 distinct, 301M multiply-adds\n"


def test_why_a_template_does_not_take_a_layer(tmp_path: Path) -> None:
    table = write_table(tmp_path / "small.json")
    shown = in_process("layers", table, "--target", "x86-avx512vnni", "--verbose")
    assert shown.code == 0
    reasons = "    generic.depthwise: takes it, too\n    x86.grouped: takes conv2d with "
    assert f"\n{DEPTHWISE}\n    b\n    and 1 more of it\n{reasons}" in shown.out
    found = json.loads(in_process("layers", table, "--target", "generic", "--format", "json").out)
    assert found["layers"][0]["templates"] == ["generic.direct"]
    assert found["layers"][0]["rejections"]["x86.conv"].startswith("needs target x86-amx or x86-avx512vnni")
    assert found["layers"][1] | {"templates": [], "rejections": {}} == {
        "names": ["b"],
        "count": 2,
        "macs": 9 * 9 * 32 * 9,
        "workload": DEPTHWISE,
        "templates": [],
        "rejections": {},
    }


def test_layers_of_a_model_have_its_names() -> None:
    pytest.importorskip("tflite", reason="needs the extra `models`")
    shown = in_process("layers", model_path(V2), "--target", "x86-avx512vnni", "--verbose")
    assert shown.err == f"{V2} on x86-avx512vnni: 53 layers, 31 distinct, 301M multiply-adds\n"
    key = "dwconv2d-u8u8-1x112x112x32-k3x3x1-s1-p1-wz-fused.t-u8"
    assert f"\n{key}\n    MobilenetV2/expanded_conv/depthwise/Relu6; " in shown.out


def test_templates_say_what_they_take() -> None:
    found = {
        template["name"]: template for template in json.loads(in_process("templates", "list", "--format", "json").out)
    }
    assert found["x86.depthwise"]["operators"] == ["dwconv2d"]
    assert found["x86.depthwise"]["targets"] == ["x86-amx", "x86-avx512vnni", "x86-avxvnni", "x86-avx2"]
    assert found["generic.direct"]["operators"] == ["conv2d", "dense"]
    assert found["generic.direct"]["targets"] == [profile.name for profile in PROFILES]
    table = in_process("templates", "list").out.splitlines()
    assert table[0].split() == ["template", "version", "operators", "targets"]
    assert len(table) == 1 + len(found)
    assert max(map(len, table)) <= 80
    assert "x86-*, arm-*, generic" in "\n".join(table)


def test_no_template_takes_nothing() -> None:
    for known in templates():
        assert known.operators, known.name
        assert known.targets, known.name


def test_templates_of_many_rows_take_dense_layers() -> None:
    """Hopper's products of four warps take no layer of a single row."""
    assert {"cuda.wgmma", "cuda.mma", "cuda.dp4a", "x86.conv"} <= {
        known.name for known in templates() if "dense" in known.operators
    }


def test_families_of_targets_are_folded_where_they_are_whole() -> None:
    assert folded(["x86-amx", "generic"]) == ["x86-amx", "generic"]
    assert folded([profile.name for profile in PROFILES]) == ["x86-*", "arm-*", "generic"]


@pytest.mark.parametrize("group", ["results", "templates", "devices", "bundle"])
def test_a_group_alone_shows_its_help(group: str) -> None:
    assert in_process(group) == in_process(group, "--help") == in_process(group, "-h")
    assert in_process(group).code == 0
    assert "\nCommands:\n" in in_process(group).out


def test_h_is_help() -> None:
    for words in ((), ("tune",), ("devices", "list")):
        assert in_process(*words, "-h") == in_process(*words, "--help")


def test_the_networks() -> None:
    table = in_process("networks").out.splitlines()
    assert table[0].split() == ["network", "layers", "distinct", "GMACs"]
    assert "mobilenet_v2      53        31  0.301" in table
    found = json.loads(in_process("networks", "--format", "json").out)
    assert {"network": "mobilenet_v2", "layers": 53, "distinct": 31, "macs": load_network("mobilenet_v2").macs} in found
    assert len(found) == len(table) - 1


def test_layers_that_do_not_fit_have_their_shapes() -> None:
    found = layers("mobilenet_v2", target="x86-avx512vnni").layers
    for columns in (80, 40):
        lines = layers_table(found, columns).splitlines()
        assert lines[0].split() == ["runs", "MACs", "template", "layer"]
        assert lines[1].endswith("conv2d 3x3 s2 224x224x3->32")
    assert "conv2d-u8s8-1x224x224x3" in layers_table(found, 100)


def test_a_template_and_its_space() -> None:
    text = in_process(*SHOW).out
    assert text.startswith("generic.direct, version 1: conv2d, dense on ")
    assert "\nconv2d and dense by widening multiply-adds, on any CPU.\n" in text
    space = json.loads(in_process(*SHOW, "--format", "json").out)["space"]
    assert set(space["knobs"]) == {"tile_columns", "tile_blocks", "outer", "unroll"}
    for name, choices in space["knobs"].items():
        assert f"\n{name} " in text
        assert space["default"][name] in choices
    assert f"\n{space['size']:,} configs on generic, where {space['constraints'][0]}\n" in text


def test_a_plan_runs_nothing(tmp_path: Path) -> None:
    table = write_table(tmp_path / "small.json")
    shown = int8tune("plan", table, "--trials", "5", "--format", "json", env={"PATH": ""}, cwd=tmp_path)
    found = json.loads(shown.out)
    assert shown.code == 0
    assert [(task["count"], task["trials"]) for task in found["tasks"]] == [(1, 5), (2, 5)]
    assert all(task["space"] > 5 for task in found["tasks"])
    assert found["trials"] == 10
    assert found["predicted_s"] == pytest.approx(2.0)
    assert set(found["device"]["measuring_cores"]) <= os.sched_getaffinity(0)
    assert list(tmp_path.iterdir()) == [table]


def test_a_plan_for_people(tmp_path: Path) -> None:
    shown = in_process("plan", write_table(tmp_path / "small.json"), "--target", "generic")
    lines = shown.out.splitlines()
    assert lines[0].startswith("small on ")
    assert ", target generic-" in lines[0]
    assert "core " in lines[1]
    assert lines[4].split()[:5] == ["1", "conv2d", "1x1", "8x8x16->32", "generic.direct"]
    assert re.fullmatch(r"2 layers, at most \d+ trials, about \d+ s \(an estimate\)", lines[-1])


def test_cores_in_words() -> None:
    assert cores_in_words([0], []) == "core 0 measures, core 0 builds in between"
    assert cores_in_words([1], [0]) == "core 0 builds, core 1 measures, core 1 builds in between"
    assert cores_in_words([6, 7], [0, 1, 2, 4]) == "cores 0-2, 4 build, cores 6-7 measure, core 7 builds in between"


def test_durations_in_words() -> None:
    assert [in_words(seconds) for seconds in (0.3, 16, 119, 300, 7199, 7200)] == [
        "1 s",
        "16 s",
        "119 s",
        "5 min",
        "120 min",
        "2 h",
    ]


@pytest.mark.thorough
@pytest.mark.alone
def test_what_the_device_can_do() -> None:
    shown = int8tune("devices", "check", "--target", "generic", "--format", "json")
    found = json.loads(shown.out)
    assert shown.code == 0
    assert found["target"].startswith("generic-")
    assert found["peak_ops_per_s"] > 1e9
    assert set(found["bandwidth_bytes_per_s"]) == {"L1", "L2", "L3", "memory"}
    assert found["noise"] >= 0
    assert found["environment"]["tvm"]
    assert not set(found["building_cores"]) - os.sched_getaffinity(0)


@pytest.mark.thorough
def test_a_plan_of_a_batch_says_so_and_has_larger_layers(tmp_path: Path) -> None:
    table = write_table(tmp_path / "small.json")
    found = json.loads(int8tune("plan", table, "--batch", "16", "--trials", "5", "--format", "json").out)
    assert found["network"] == "small-batch16"
    assert [task["workload"].split("-")[2].split("x")[0] for task in found["tasks"]] == ["16", "16"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [
        ("plan",),
        ("tune",),
        ("bundle", "make", "--device", "there", "--target", "generic"),
        ("bench",),
    ],
)
@pytest.mark.parametrize("batch", ["0", "1025"])
def test_a_batch_of_nothing_or_of_too_much_is_refused_in_a_line(command: tuple[str, ...], batch: str) -> None:
    refused = int8tune(*command, "resnet18", "--batch", batch)
    assert refused.code == 2
    assert refused.err.splitlines()[0] == f"error: a batch must be 1 to 1024: {batch}"
    assert refused.err.splitlines()[1].startswith("hint: ")
