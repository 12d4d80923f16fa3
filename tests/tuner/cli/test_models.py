"""Models from the command line: compiled, compared with their own runtime, raced, and what is said when that fails."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from int8tune.compiler.compiled_model import CompiledModel
from tests.support.models.onnx_models import MODELS, quantized, quantized_layer
from tests.support.program.cli_program import end, int8tune, start
from tests.tuner.cli.test_errors import assert_failed

pytest.importorskip("onnxruntime", reason="needs the extra `oracle`")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    quantized(MODELS["head"](), folder, "u8", "s8", True)
    return folder / "quantized.onnx"


@pytest.mark.thorough
def test_a_model_is_compiled(model: Path, tmp_path: Path) -> None:
    ended = int8tune("compile", model, "-o", tmp_path / "model.so", "--results", tmp_path / "none", "--verbose")
    assert ended.code == 0, ended.err
    assert "quantized: 4 layers (4 by default)" in ended.err
    assert "softmax" in ended.out
    assert CompiledModel(tmp_path / "model.so").about.model == "quantized"
    found = int8tune("compile", model, "-o", tmp_path / "two.so", "--format", "json", "--target", "generic")
    told = json.loads(found.out)
    assert {call["schedule"].get("source") for call in told["calls"]} == {"default", None}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.so", "two.so"]


@pytest.mark.thorough
def test_outputs_are_those_of_the_models_own_runtime(model: Path, tmp_path: Path) -> None:
    ended = int8tune("accuracy", model, "--count", "20", "--format", "json", cwd=tmp_path)
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["against"].startswith("onnxruntime ")
    (difference,) = told["outputs"]
    assert (difference["differing"], difference["samples"], difference["same_first"]) == (0, 20, 20)


@pytest.mark.thorough
def test_layer_by_layer(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", x=np.random.default_rng(1).standard_normal((2, 3, 4, 6, 6), np.float32))
    ended = int8tune("accuracy", model, "--layers", "--samples", tmp_path / "samples.npz", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "all equal to this library's reference" in ended.err
    assert len(ended.out.splitlines()) > 6


@pytest.mark.thorough
def test_runtimes_take_turns(model: Path, tmp_path: Path) -> None:
    options = ("--against", "tvm,onnxruntime", "--runs", "5", "--run-ms", "2", "--format", "json")
    ended = int8tune("bench", model, *options, cwd=tmp_path)
    assert ended.code == 0, ended.err
    ((told,),) = [json.loads(ended.out)]
    names = [runtime["name"] for runtime in told["runtimes"]]
    assert names == ["int8tune", "onnxruntime", "tvm"]
    assert all(len(runtime["times_s"]) == 5 for runtime in told["runtimes"])
    assert told["runtimes"][1]["times_ours"]["low"] > 0
    assert told["differences"][0]["differing"] == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("compile {model} -o {folder}/no/model.so", r"the file can't be written \(No such file or directory\): .*"),
        ("compile {folder}/no.onnx -o x.so", "a model must be a file, this is no such file: .*"),
        ("compile {folder}/no.txt -o x.so", "a model's name must end with .onnx or .tflite: .*no.txt"),
        ("accuracy {folder}/no.txt", "a model's name must end with .onnx or .tflite: .*no.txt"),
        ("compile {model} -o x.so --log {folder}/no.jsonl", "no such best log: .*no.jsonl"),
        ("accuracy {model} --samples {folder}/no.npz", ".*no.npz: No such file or directory"),
        ("accuracy {model} --samples {model}", ".*quantized.onnx: no array of NumPy's: File is not a zip file"),
        (
            "bench {model} --against tensorflow",
            "unknown runtime `tensorflow`, known: onnxruntime, openvino, litert, tvm",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line(model: Path, tmp_path: Path, options: str, message: str) -> None:
    ended = int8tune(*options.format(model=model, folder=tmp_path).split(), cwd=tmp_path)
    assert_failed(ended, 2 if "bench" in options else 1, message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_samples_must_fit(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", np.zeros((2, 4, 9, 10), np.float32))
    ended = int8tune("accuracy", model, "--samples", tmp_path / "small.npy", cwd=tmp_path)
    assert_failed(ended, 1, r".*input `x` needs float32 \(samples, 3, 4, 6, 6\): float32 \(2, 4, 9, 10\)")


@pytest.mark.thorough
def test_samples_are_described_and_may_lack_a_batch_of_one(tmp_path: Path) -> None:
    path = tmp_path / "one.onnx"
    path.write_bytes(quantized_layer(shape=(1, 4, 5, 6)).SerializeToString())
    told = json.loads(int8tune("accuracy", path, "--seed", "3", "--count", "10", "--format", "json", cwd=tmp_path).out)
    assert told["drawn"]["seed"] == 3
    assert sum(told["drawn"]["samples"].values()) == told["outputs"][0]["samples"] == 10
    assert "6 samples drawn with seed 0: 1 noise" in int8tune("accuracy", path, "--count", "6", cwd=tmp_path).err
    samples = np.random.default_rng(1).standard_normal((3, 1, 4, 5, 6), np.float32)
    for name, array in (("whole", samples), ("short", samples[:, 0])):
        np.save(tmp_path / f"{name}.npy", array)
        ended = int8tune("accuracy", path, "--samples", tmp_path / f"{name}.npy", "--format", "json", cwd=tmp_path)
        assert ended.code == 0, ended.err
        told = json.loads(ended.out)
        assert (told["drawn"], told["outputs"][0]["samples"], told["outputs"][0]["differing"]) == (None, 3, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["compile {model} -o {folder}/model.so", "accuracy {model}", "bench {model}"])
def test_ctrl_c_ends_at_once_and_leaves_nothing(model: Path, tmp_path: Path, command: str) -> None:
    words = command.format(model=model, folder=tmp_path).split()
    process = start(*words, "--results", tmp_path / "results")
    ended = end(process, signal.SIGINT, limit_s=5)
    assert (ended.code, ended.out, ended.err.split()) == (130, "", ["interrupted"])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
