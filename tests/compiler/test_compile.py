"""Compiled models: every value is the reference's bit for bit, and the outputs are those of the model's own runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from int8tune.compiler.about import About, read_about
from int8tune.compiler.compile import compile_model
from int8tune.compiler.compiled_model import BoundKernel, BoundModel, CompiledModel
from int8tune.compiler.errors import CompiledModelError, ModelError
from int8tune.compiler.model import read_model
from int8tune.compiler.onnx_reader.model import read_onnx
from int8tune.compiler.schedule_choice import Schedules, Source
from int8tune.compiler.tflite_reader.model import read_tflite
from int8tune.results.best import BestSchedule
from int8tune.results.errors import ExportError
from int8tune.results.record import Candidate
from int8tune.results.stats import ITSELF
from int8tune.schedules.registry import template_for
from int8tune.schedules.target import Target
from int8tune.schedules.workload import parse_workload
from tests.compiler.test_interpreter import NAMES
from tests.compiler.test_tflite import tensors_of
from tests.compiler.test_tflite_operators import LOWEST
from tests.support.models.compiled import assert_bound_is_same, assert_exact, compile_once
from tests.support.models.onnx_models import MODELS, input_data, quantized, values_of
from tests.support.models.onnx_operators import every_operator, feeds_of, operator_model
from tests.support.models.shared_models import PICTURES, V1, V1_SMALL, V2, V2_INT8, labels, model_path, picture
from tests.support.models.tflite_models import DTYPES, Writer
from tests.support.run.probes import host_target
from tests.support.run.thinned import one_in

Array = npt.NDArray[Any]
FORMS = {
    "u8s8.c": ("u8", "s8", True, "QDQ", False),
    "s8s8.c": ("s8", "s8", True, "QDQ", False),
    "u8u8.t": ("u8", "u8", False, "QDQ", False),
    "u8s8.c nodes": ("u8", "s8", True, "QOperator", False),
}


@pytest.mark.parametrize("form", one_in(4, FORMS))
def test_every_operator(form: str, native: Target, tmp_path: Path) -> None:
    model = every_operator()
    file = quantized(model, tmp_path, *FORMS[form])
    feed = input_data(model, 9)
    ours = assert_exact(read_onnx(file, "net"), native, {"x": feed}, tmp_path)
    np.testing.assert_array_equal(ours["y"], values_of(file, ["y"], feed)["y"])


@pytest.mark.parametrize("name", one_in(6, MODELS))
def test_networks_of_layers(name: str, native: Target, tmp_path: Path) -> None:
    model = MODELS[name]()
    file = quantized(model, tmp_path, *FORMS["u8s8.c"])
    assert_exact(read_onnx(file, "net"), native, {"x": input_data(model, 3)}, tmp_path)


@pytest.mark.parametrize(
    "name", [V1_SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in (V1, V2, V2_INT8))]
)
@pytest.mark.thorough
def test_real_models(name: str, native: Target, tmp_path: Path) -> None:
    """The cat is a cat, and every output is that of LiteRT's reference kernels."""
    path = model_path(name)
    graph, library = read_model(path), tmp_path / "model.so"
    compile_once(graph, native, library)
    model = CompiledModel(library)
    for subject in PICTURES:
        data = picture(subject, *graph.values[graph.inputs[0]].shape[1:3])
        (ours,) = model.run([data])
        np.testing.assert_array_equal(ours, tensors_of(path, data)[graph.outputs[0]], subject)
        assert labels()[int(ours.argmax())].split(",")[0] in NAMES[subject]


@pytest.mark.parametrize("target", one_in(3, ["generic", "x86-avx512vnni", "x86-avx2"]))
def test_other_targets(target: str, tmp_path: Path) -> None:
    model = MODELS["separable"]()
    file = quantized(model, tmp_path, *FORMS["u8s8.c"])
    assert_exact(read_onnx(file, "net"), host_target(target), {"x": input_data(model, 3)}, tmp_path)


@pytest.mark.alone
def test_two_threads(native: Target, tmp_path: Path) -> None:
    model = every_operator()
    file = quantized(model, tmp_path, *FORMS["u8s8.c"])
    threads, cores = replace(native, name=f"{native.name}-t2", threads=2), os.sched_getaffinity(0)
    assert_exact(read_onnx(file, "net"), threads, {"x": input_data(model, 9)}, tmp_path)
    assert os.sched_getaffinity(0) == cores


# Of a program that loads a model: two seconds, and two minutes where twenty others want the cores.
LIMIT_S = 300

HAS_THREADS = """
import sys
from pathlib import Path
from tvm_ffi import get_global_func
from int8tune.compiler.compiled_model import CompiledModel

model = CompiledModel(Path(sys.argv[1]))
print(get_global_func("runtime.NumThreads")())
"""


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process has one core")
@pytest.mark.parametrize(("others", "threads"), [({}, 2), ({"OMP_NUM_THREADS": "1"}, 1), ({"TVM_NUM_THREADS": "1"}, 1)])
@pytest.mark.matrix(at_most=1)
def test_a_program_has_the_threads_that_a_model_was_compiled_for(
    others: dict[str, str], threads: int, native: Target, tmp_path: Path
) -> None:
    """TVM has one for two processors, where nobody says how many there are."""
    file, library = quantized(MODELS["separable"](), tmp_path, *FORMS["u8s8.c"]), tmp_path / "net.so"
    compile_once(read_onnx(file, "net"), replace(native, name=f"{native.name}-t2", threads=2), library)
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", HAS_THREADS, str(library)]
    done = subprocess.run(command, env={**kept, **others}, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.split() == [str(threads)]


LOADS = """
import sys
from pathlib import Path
import numpy as np
from int8tune.compiler.compiled_model import BoundKernel, BoundModel, CompiledModel

library, feed, made = sys.argv[1:]
inputs, tasks = [np.load(feed)], Path("/proc/self/task")
threads = len(list(tasks.iterdir()))
before = CompiledModel(Path(library))
first = before.run(inputs)
assert before.profile(inputs, 1)
assert "tvm" not in sys.modules
assert len(list(tasks.iterdir())) == threads, "an idle thread keeps the program from ending on a busy machine"
if made.endswith(".later.npy"):
    import tvm
    for model in (before, CompiledModel(Path(library))):
        assert all(np.array_equal(*pair) for pair in zip(first, model.run(inputs), strict=True))
    assert tvm.runtime.load_module(library)
np.save(made, first[0])
"""


@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("made", ["made.npy", pytest.param("made.later.npy", marks=pytest.mark.thorough)])
def test_a_program_that_runs_a_model_loads_no_more_than_tvm_s_runtime(
    made: str, native: Target, tmp_path: Path
) -> None:
    """Its Python package takes a second to load; a program may have it before or later all the same."""
    model = MODELS["separable"]()
    graph, feed = read_onnx(quantized(model, tmp_path, *FORMS["u8s8.c"]), "net"), input_data(model, 3)
    library, inputs, outputs = (tmp_path / name for name in ("net.so", "feed.npy", made))
    compile_once(graph, native, library)
    np.save(inputs, feed)
    subprocess.run([sys.executable, "-c", LOADS, library, inputs, outputs], timeout=LIMIT_S, check=True)
    np.testing.assert_array_equal(np.load(outputs), CompiledModel(library).run([feed])[0])


def test_a_best_log_decides(native: Target) -> None:
    """The layer's own schedule, then that of the same form, then the default; of other targets none."""
    workload = parse_workload("conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-u8")
    template = template_for(workload, native)
    space = template.space(workload, native)
    other = next(config for config in space if config != dict(space.default))
    chosen_one = Candidate(workload.key, native.name, template.name, template.version, other)
    best = BestSchedule(workload.key, native.name, "local", chosen_one, 1e-6, chosen_one.id, ITSELF, "c", 0)
    schedules = Schedules(native, [best])
    clamped = parse_workload("conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-float.c-clamp-u8")
    larger = parse_workload("conv2d-u8s8-1x9x8x16-k1x1x32-s1-p0-float.c-u8")
    chosen = [schedules.choose(each) for each in (workload, clamped, larger)]
    assert [choice.source for choice in chosen] == [Source.LOG, Source.SAME_FORM, Source.DEFAULT]
    assert [choice.config == other for choice in chosen] == [True, True, False]
    elsewhere = Schedules(native, [replace(best, target="generic-other")])
    assert elsewhere.choose(workload).source is Source.DEFAULT


@pytest.mark.parametrize(
    ("rule", "known", "asked"),
    [
        ("float", "addu8", "addu8.first"),
        ("float", "addu8.first", "addu8"),
        ("fixed", "addu8", "addu8.fused"),
        ("fixed", "addu8.fused", "addu8"),
    ],
)
def test_the_same_sum_in_the_other_order_or_by_the_other_rule_is_the_nearest_layer(
    rule: str, known: str, asked: str, native: Target
) -> None:
    keys = [f"conv2d-u8s8-1x8x8x16-k1x1x32-s1-p0-{rule}.c{end}-u8" for end in ("", f"-{known}", f"-{asked}")]
    plain, one, other = (parse_workload(key) for key in keys)
    template = template_for(plain, native)
    space = template.space(one, native)
    configs = [config for config in space if config != dict(space.default)][:2]
    log = []
    for workload, config in zip((plain, one), configs, strict=True):
        candidate = Candidate(workload.key, native.name, template.name, template.version, config)
        log.append(BestSchedule(workload.key, native.name, "local", candidate, 1e-6, candidate.id, ITSELF, "c", 0))
    chosen = Schedules(native, log).choose(other)
    assert (chosen.source, chosen.config) == (Source.SAME_FORM, configs[1])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled model with an input [1, 3, 8, 8] of numbers."""
    folder, target = tmp_path_factory.mktemp("small"), host_target("generic")
    graph = read_onnx(quantized(MODELS["concat"](), folder, *FORMS["u8s8.c"]), "small")
    compile_model(graph, target, Schedules(target), folder / "small.so")
    return folder / "small.so"


@pytest.mark.thorough
def test_a_compiled_model_says_what_it_is(small: Path) -> None:
    about = CompiledModel(small).about
    assert [form["name"] for form in about.inputs] == ["x"]
    assert about.inputs[0]["shape"] == [1, 3, 8, 8]
    assert about.model == "small"
    assert about.threads == 1
    names = {name for call in about.calls for name in call["layers"]}
    assert {"left", "right", "mixed", "concat", "pool"} <= names


def test_a_profile_has_every_call(small: Path) -> None:
    model = CompiledModel(small)
    times = model.profile([np.zeros((1, 3, 8, 8), np.float32)], 3)
    assert [time.layers for time in times] == [tuple(call["layers"]) for call in model.about.calls if call["kernel"]]
    assert all(len(time.times_s) == 3 and min(time.times_s) > 0 for time in times)


@pytest.mark.parametrize("channels", one_in(2, [1, 3, 70, 64]))
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.matrix
def test_averages_of_many_channels_at_a_time(channels: int, dtype: Any, native: Target, tmp_path: Path) -> None:
    form, window = ((2, channels, 9, 7), 0.0213, 3), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]}
    model = operator_model("AveragePool", [form], (0.0171, 5), dtype, count_include_pad=channels % 2, **window)
    feeds = feeds_of([form], dtype)
    ours = assert_exact(read_onnx(model.SerializeToString(), "pool"), native, feeds, tmp_path)
    # Were stored values no outputs, ONNX Runtime would make u8 of s8 on x86-64: zero points 128 higher, to which it
    # rounds sums that are ties by a hair.
    theirs = values_of(model.SerializeToString(), ["q0", "yq", "y"], feeds)
    np.testing.assert_array_equal(ours["y"], theirs["y"])


@pytest.mark.parametrize("kind", ["u8", "s8"])
def test_fixed_averages_of_many_channels(kind: str, native: Target, tmp_path: Path) -> None:
    writer = Writer()
    data, made = writer.input("x", kind, (2, 8, 8, 70), 0.1, 3), writer.tensor("y", kind, (2, 8, 8, 70), 0.1, 3)
    window = {"filterHeight": 3, "filterWidth": 2, "strideH": 1, "strideW": 1}
    writer.operator("AVERAGE_POOL_2D", [data], [made], "Pool2D", 2, **window)
    low = LOWEST[kind]
    image = np.random.default_rng(0).integers(low, low + 256, (2, 8, 8, 70)).astype(DTYPES[kind])
    assert_exact(read_tflite(writer.model(made), "pool"), native, {"x": image}, tmp_path)


def test_outputs_are_copies_of_what_a_run_computed(small: Path) -> None:
    model = CompiledModel(small)
    shape = model.about.inputs[0]["shape"]
    rng, dtype = np.random.default_rng(0), DTYPES[model.about.inputs[0]["type"]]
    one, other = (model.bind([(rng.normal(0, 60, shape)).astype(dtype)]) for _ in range(2))
    for bound in (one, other):
        bound.run()
    first = one.outputs()[0]
    first_again, second = one.outputs()[0], other.outputs()[0]
    first[...] = 0
    one.run()
    np.testing.assert_array_equal(one.outputs()[0], first_again)
    assert (first_again != second).any()


def test_a_library_in_this_folder_is_loaded_by_its_bare_name(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)
    assert CompiledModel(Path(small.name)).about == CompiledModel(small).about


def test_a_library_of_an_older_version_is_bound_to_tvm_s_machine(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = CompiledModel(small)
    inputs = [np.zeros(form["shape"], DTYPES[form["type"]]) for form in model.about.inputs]
    made = model.run(inputs)
    assert isinstance(model.bind(inputs), BoundKernel)

    def older(text: str) -> About:
        fields = json.loads(text)
        del fields["kernel"], fields["memory_bytes"]
        return read_about(json.dumps(fields))

    monkeypatch.setattr("int8tune.compiler.compiled_model.read_about", older)
    old = CompiledModel(small)
    assert isinstance(old.bind(inputs), BoundModel)
    assert_bound_is_same(old, inputs, made)


def test_a_model_without_kernels(tmp_path: Path) -> None:
    target, writer = host_target("generic"), Writer()
    data, made = writer.input("x", "s8", (2, 6), 0.1, 0), writer.tensor("y", "s8", (3, 4), 0.1, 0)
    writer.operator("RESHAPE", [data], [made], "Reshape", 1)
    graph = read_tflite(writer.model(made), "shapes")
    assert_exact(graph, target, {"x": np.arange(12, dtype=np.int8).reshape(2, 6)}, tmp_path)


def test_a_model_without_outputs_is_refused(tmp_path: Path) -> None:
    writer = Writer()
    writer.input("x", "s8", (2, 6), 0.1, 0)
    (tmp_path / "nothing.tflite").write_bytes(writer.model())
    with pytest.raises(ModelError, match="nothing: the model has no outputs"):
        read_model(tmp_path / "nothing.tflite")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "it takes 1 inputs: 0"),
        ([np.zeros((1, 3, 8, 8))], r"input `x` must be float32 \(1, 3, 8, 8\): float64"),
        ([np.zeros((3, 8, 8), np.float32)], r"input `x` must be float32 \(1, 3, 8, 8\): float32 \(3, 8, 8\)"),
    ],
)
def test_other_inputs_are_refused_at_the_door(small: Path, inputs: list[Array], message: str) -> None:
    with pytest.raises(CompiledModelError, match=message):
        CompiledModel(small).run(inputs)


def test_inputs_may_lie_anywhere(small: Path) -> None:
    """Kernels read whole vectors, which must not begin anywhere: inputs are copied to where they may."""
    model, memory = CompiledModel(small), np.zeros(3 * 8 * 8 + 1, np.float32)
    shifted = memory[1:].reshape(1, 3, 8, 8)
    shifted[:] = np.random.default_rng(0).standard_normal(shifted.shape)
    np.testing.assert_array_equal(model.run([shifted])[0], model.run([shifted.copy()])[0])
    backwards = np.ascontiguousarray(shifted[..., ::-1])[..., ::-1]
    np.testing.assert_array_equal(model.run([shifted])[0], model.run([backwards])[0])


def test_what_is_no_compiled_model_is_refused(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.so"
    text.write_text("no library")
    for path, message in ((text, "no compiled model"), (tmp_path, "must be a file")):
        with pytest.raises(CompiledModelError, match=message):
            CompiledModel(path)
    monkeypatch.setattr(
        "int8tune.compiler.compiled_model.read_about", lambda text: replace(read_about(text), needs=("amx_x",))
    )
    with pytest.raises(CompiledModelError, match="this CPU lacks: amx_x"):
        CompiledModel(small)


@pytest.mark.thorough
def test_a_library_that_cant_be_written(tmp_path: Path) -> None:
    target = host_target("generic")
    graph = read_onnx(quantized(MODELS["concat"](), tmp_path, *FORMS["u8s8.c"]), "small")
    with pytest.raises(ExportError, match="No such file or directory"):
        compile_model(graph, target, Schedules(target), tmp_path / "missing" / "model.so")
    with pytest.raises(ExportError, match="Is a directory"):
        compile_model(graph, target, Schedules(target), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quantized.onnx"]


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize(("scale", "beta"), one_in(2, [(0.004, 1.0), (0.13, 1.0), (9.0, 2.0), (1.7, 0.7)]))
@pytest.mark.matrix
def test_softmax_in_integers(native: Target, kind: str, scale: float, beta: float, tmp_path: Path) -> None:
    writer, shape = Writer(), (3, 500, 37)
    data = writer.input("x", kind, shape, scale, LOWEST[kind] + 100)
    made = writer.tensor("y", kind, shape, 1 / 256, LOWEST[kind])
    writer.operator("SOFTMAX", [data], [made], "Softmax", beta=beta)
    rows = np.random.default_rng(0).normal(LOWEST[kind] + 120, 20, shape)
    values = np.clip(rows, LOWEST[kind], LOWEST[kind] + 255).astype(DTYPES[kind])
    assert_exact(read_tflite(writer.model(made), "softmax"), native, {"x": values}, tmp_path)
