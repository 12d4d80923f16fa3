"""Valid files of every kind that the program reads, small, as their own writers write them."""

from __future__ import annotations

import hashlib
import itertools
import json
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from int8tune.results.bench import summarize_bench
from int8tune.results.best import best_schedules
from int8tune.results.best_log import write_best_log
from int8tune.results.metaschedule import RECORDS, WORKLOADS
from int8tune.results.pytest_benchmark import of_layers, write_benchmarks
from int8tune.results.record import BenchResult, Entrant, Outcome
from int8tune.results.report.bench import bench_as_dict
from int8tune.results.store import SqliteStore
from int8tune.rpc.bundle.manifest import File, Item, Manifest, id_of, manifest_to_json
from int8tune.rpc.farm.entries import (
    Began,
    Booted,
    Calibrated,
    Concluded,
    Entry,
    Issued,
    Opened,
    Returned,
    Submitted,
    Turned,
)
from int8tune.rpc.farm.journal import JournalFile
from int8tune.rpc.farm.status_file import BoardReport, write_report
from int8tune.rpc.farm.values import Campaign, State, Trial, Verdict
from int8tune.rpc.process.status_files import Writer
from int8tune.rpc.protocol import capabilities_to_json, reply_to_json
from int8tune.rpc.request import Case, Program, Reply, Request, Timing
from int8tune.rpc.transports.fake import FAKE_CAPABILITIES
from int8tune.schedules.registry import template_for, template_named
from int8tune.schedules.target import named_target
from int8tune.schedules.workload import parse_workload
from int8tune.tuner.bundles.memory import Asked, AskedDuels, AskedPeak, AskedTrial, BundleMemory, Known, Remembered
from int8tune.tuner.metaschedule.job import Found, found_to_json
from tests.support.program import bench_entries
from tests.support.program.results_samples import campaign, candidate, check, duel, estimated, failed, ok, run

WORKLOAD = "conv2d-u8s8-1x7x7x64-k1x1x48-s1-p0-float.c-u8"
TARGET = "x86-avx512vnni"
WEIGHTS = "weights.bin"
CONTENTS = {"files/a.so": b"code" * 100, "files/x.npy": b"x" * 80, "files/y.npy": b"y" * 80}
PROGRAM = Program(
    "files/a.so", hashlib.sha256(CONTENTS["files/a.so"]).hexdigest(), "main", (Case(("files/x.npy",), "files/y.npy"),)
)
CANARY = "ab" * 32


def records(folder: Path) -> None:
    candidates = [candidate(tile) for tile in (1, 2, 3, 4)]
    entrants = [Entrant(name, "1", WORKLOAD, Outcome.OK, (1e-3, 2e-3)) for name in ("int8tune", "onednn")]
    environment = ok(0).environment
    bench = BenchResult(
        "b", candidates[0], True, "local", 1, entrants[0], (entrants[1],), (1e9, 2e9), environment, "2026"
    )
    with SqliteStore(folder / "records.db") as store:
        store.append([campaign(), replace(campaign("c2"), names={}), run(), check(), bench])
        trials = [ok(n, 1e-3 / (n + 1), chosen=each) for n, each in enumerate(candidates[:2])]
        store.append(
            [*trials, failed(2, chosen=candidates[2]), duel(candidates[0], candidates[1], 1.5), estimated(0, name="c2")]
        )


def best_log(folder: Path) -> None:
    records(folder)
    with SqliteStore(folder / "records.db", readonly=True) as store:
        found = best_schedules(store)
    workload, target = parse_workload(WORKLOAD), named_target(TARGET)
    template = template_for(workload, target)
    space = template.space(workload, target)
    chosen = replace(
        found[0].candidate, workload=WORKLOAD, target=TARGET, template=template.name, template_version=template.version
    )
    default = replace(chosen, config=dict(space.default))
    best = replace(found[0], workload=WORKLOAD, target=TARGET, candidate=default, default_candidate=default.id)
    write_best_log(folder / "best.jsonl", [best, replace(best, device="other")])


def compared_json(folder: Path) -> None:
    """The kinds of JSON that are compared: a bench of layers, one of models, and pytest-benchmark's."""
    results = [bench_entries.result(2e-4, bench_entries.peer("onnxruntime", 2.1e-4))]
    summary = summarize_bench(results, bench_entries.FACTS, bench_entries.CLASSES)
    (folder / "bench.json").write_text(json.dumps({"bench": "2026-03-01T12:00:00", **bench_as_dict(summary)}))
    times_s = results[0].ours.times_s
    runtimes = [{"name": name, "version": "1", "times_s": times_s, "failure": ""} for name in ("int8tune", "openvino")]
    (folder / "models.json").write_text(json.dumps([{"model": "net", "threads": 1, "runtimes": runtimes}]))
    write_benchmarks(folder / "pytest.json", of_layers(results), "AMD EPYC 9B45", "")


def layer_table(folder: Path) -> None:
    layers = [{"name": f"l{n}", "count": n, "workload": f"dense-u8s8-{n}x64-o64-float.c-u8"} for n in (1, 2, 3)]
    table = {"format": 1, "name": "tiny", "description": "a table", "input": "1x8x8x3", "layers": layers}
    (folder / "table.json").write_text(json.dumps(table))


def farm(folder: Path) -> None:
    boards = [
        f'[[boards]]\nname = "b{n}"\ntransport = "simulated"\ntarget = "generic"\ntags = ["a", "b"]\ncores = [{n}]\n'
        f'canary_every = 20\ncooldown_s = 0.5\npower_cycle = "switch off"\n\n[boards.limits]\nrun_s = 5.0\n'
        f'memory = "512 MiB"\n\n[boards.simulation]\nspeed = 1.5\nrestart_per_h = 2\nnoise = 0.01\n'
        for n in range(2)
    ]
    (folder / "farm.toml").write_text("\n".join(boards))


def status(folder: Path) -> None:
    moments = {"since": 1e9, "until": 1e9, "canary_at": 1e9, "canary_s": 1e-5, "per_minute": 4.5, "written_at": 1e9}
    texts = {"campaign": "c", "target": "t", "waits_for": "trial", "cause": "", "canary_fault": ""}
    write_report(folder, BoardReport("a", state=State.BUSY, trials=7, writer=Writer.this(), **moments, **texts))  # type: ignore[arg-type]


def journal(folder: Path) -> None:
    reply = Reply(Outcome.OK, ((1e-3, 2e-3),), (3,), {"timings": 1.0}, run_s=0.1)
    began: list[Entry] = [Began("host", CANARY), Opened(Campaign("c")), Calibrated("a", 1e-3), Booted("a", "x")]
    lines: list[list[Entry]] = [
        began,
        [Submitted(Trial("1:k", "c", "t", frozenset({"x"}))), Submitted(Trial("2:k", "c", "t"))],
        [Issued(1, "a", "1:k", 1), Turned("a", State.BUSY, "")],
        [Returned(1, "a", "1:k", Verdict.OK, "", False)],
        [Concluded("2:k", Verdict.OK, 2, "a", ""), Turned("a", State.QUARANTINED, "hot")],
    ]
    file = JournalFile(folder / "farm.journal")
    for entries in lines:
        file.write(entries, {"1:k": {1: reply}} if isinstance(entries[0], Returned) else None)
    file.close()


def bundle(folder: Path) -> str:
    request = Request((PROGRAM,), Timing(), 5.0, PROGRAM)
    manifest = Manifest(
        kind="cpu",
        version="1",
        campaign="c1",
        started_at="2026",
        device="local",
        target="any",
        architecture="x86_64",
        needs=frozenset(),
        threads=1,
        suite="s",
        canary=PROGRAM,
        agent="a",
        items=(
            *(Item(each, "layer", ({"a": 1},), request) for each in (candidate().id, "peak")),
            Item("duels", "layer", ({"a": 1},), replace(request, programs=(PROGRAM, PROGRAM))),
        ),
        files={name: File(len(data), hashlib.sha256(data).hexdigest()) for name, data in CONTENTS.items()},
    )
    content = manifest_to_json(manifest)
    with zipfile.ZipFile(folder / "b.pyz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = id_of(content).encode()
        for name, data in {**CONTENTS, "manifest.json": content}.items():
            archive.writestr(name, data)
    return id_of(content)


def bundle_results(folder: Path) -> None:
    """A results folder that made a bundle, and results of it."""
    name = bundle(folder)
    records(folder)
    with zipfile.ZipFile(folder / "b.pyz") as archive:
        manifest = archive.read("manifest.json")
    asked: dict[str, Asked] = {
        candidate().id: AskedTrial(9, candidate(9), 0.5, "0" * 64),
        "peak": AskedPeak(10**6),
        "duels": AskedDuels((candidate(1), candidate(2))),
    }
    memory = BundleMemory(folder, "c1")
    memory.remember(name, manifest, Remembered(1, "int8tune bundle make x", {"cache": "warm"}, asked))
    device = replace(FAKE_CAPABILITIES, environment={"cpu": "fake", "timing": "measured"})
    memory.learn(Known(device, frozenset({("a", "b")})))
    one = Reply(Outcome.OK, ((1e-3,) * 5,), (3,), {"timings": 1.0}, run_s=0.1)
    two = replace(one, times_s=one.times_s * 2, calls_per_repeat=(3, 3))
    lines: list[dict[str, Any]] = [{"bundle": name, "campaign": "c1", "device": capabilities_to_json(device)}]
    lines += [{"bundle": name, "item": item, "reply": reply_to_json(two if item == "duels" else one)} for item in asked]
    texts = [json.dumps(line).encode() for line in lines]
    (folder / "b.results").write_bytes(b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts))


def recording(folder: Path) -> None:
    from int8tune.tuner.lab.recorded_layer import RecordedLayer, canonical
    from int8tune.tuner.lab.recording import write_recording

    template, target = template_named("x86.conv"), named_target(TARGET)
    space = template.space(parse_workload(WORKLOAD), target)
    kept = [canonical(config) for config in itertools.islice(space, 20)]
    times: dict[str, float | None] = {text: 1e-3 / number for number, text in enumerate(kept, 1)}
    other: dict[str, float | None] = {f'{{"tile":{number}}}': 1e-3 for number in range(1, 20)}
    layers = [
        RecordedLayer(TARGET, key, template.name, template.version, {**found, next(iter(found)): None})
        for key, found in ((WORKLOAD, times), ("other", other))
    ]
    write_recording(layers, folder / "lab.parquet")


def database(folder: Path) -> None:
    line = [0, [[[["a", [], [], []]], [[0, 4], [1, [2, 3]]]], [1e-3, 2e-3], {"kind": "llvm", "mcpu": "x"}, []]]
    (folder / WORKLOADS).write_text('["123", "key"]\n["456", "more"]\n')
    (folder / RECORDS).write_text("".join(json.dumps([n % 2, line[1]]) + "\n" for n in range(4)))


def found(folder: Path) -> None:
    (folder / "found.json").write_text(found_to_json(Found(3, 1, 2.5, PROGRAM, "0.27")))


def tflite(folder: Path) -> None:
    from tests.support.models.tflite_models import network

    (folder / "m.tflite").write_bytes(network())


def tflite_open_batch(folder: Path) -> None:
    from tests.support.models.tflite_open_batch import OpenWriter, dense_of_rows

    w = OpenWriter()
    (folder / "m.tflite").write_bytes(w.model(dense_of_rows(w)))


def tflite_packed(folder: Path) -> None:
    from tests.support.models.tflite_packed import PackedWriter

    (folder / "m.tflite").write_bytes(PackedWriter().both())


def tflite_words(folder: Path) -> None:
    from tests.support.models.tflite_words import network

    (folder / "m.tflite").write_bytes(network())


def onnx_frames(folder: Path) -> None:
    import numpy as np

    from tests.support.models.onnx_models import quantized_layer

    weight, pads = np.ones((6, 4, 3, 3, 3)), [1, 0, 1, 2, 1, 0]
    model = quantized_layer(weight=weight, shape=(1, 4, 5, 6, 7), strides=[2, 1, 1], pads=pads)
    (folder / "m.onnx").write_bytes(model.SerializeToString())


def onnx(folder: Path) -> None:
    from tests.support.models.onnx_models import quantized_layer

    (folder / "m.onnx").write_bytes(quantized_layer(activation="Clip").SerializeToString())


def onnx_words(folder: Path) -> None:
    from tests.support.models.onnx_words import FORMS, U16, Layer

    (folder / "m.onnx").write_bytes(Layer(FORMS["transposed"], U16, U16, np.int32).file())


def tflite_floats(folder: Path) -> None:
    """A layer, and operators in float whose places and shapes a file says."""
    from tests.support.models.tflite_islands import SHAPE, IslandWriter

    w = IslandWriter()
    layer = w.tensor("layer", "s8", (*SHAPE[:3], 4), 0.5, 3)
    weight = w.constant("w", "s8", np.ones((4, 1, 1, 6)), 0.01)
    bias = w.constant("b", "s32", np.zeros(4), 0.0003125)
    w.operator("CONV_2D", [w.stored, weight, bias], [layer], "Conv2D", strideH=1, strideW=1)
    places = np.array([[0, 1], [1, 4]], np.int32)
    made = [
        w.apply("SCATTER_ND", [places, np.ones((2, 8)), np.array([2, 5, 8], np.int32)], (2, 5, 8)),
        w.apply("REVERSE_SEQUENCE", [w.data, np.array([3, 5], np.int32)], SHAPE, "ReverseSequence", seqDim=1),
        w.apply("DILATE", [w.data, np.array([1, 2, 1, 1], np.int32), np.array(0.5)], (2, 9, 8, 6)),
        w.apply("MATRIX_DIAG", [w.data], (*SHAPE, 6)),
        w.apply("BUCKETIZE", [w.data], SHAPE, "Bucketize", kind="s32", boundaries=[-1.0, 0.5]),
    ]
    (folder / "m.tflite").write_bytes(w.model(layer, *made))


def onnx_external(folder: Path) -> None:
    """A layer, whose constants are in a file beside it."""
    import onnx

    from tests.support.models.onnx_models import quantized_layer

    model = quantized_layer(activation="Clip")
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    path = str(folder / "m.onnx")
    onnx.save_model(model, path, save_as_external_data=True, location=WEIGHTS, size_threshold=0)


def onnx_islands(folder: Path) -> None:
    """Layers that are quantized at run time, and what else is computed in float between integers."""
    from tests.support.models.onnx_islands import IslandWriter

    w = IslandWriter((1, 4, 6, 16))
    normal = w.apply("LayerNormalization", w.data, np.ones(16), np.zeros(16))
    scores = w.apply("Softmax", w.apply("MatMul", normal, w.apply("Transpose", normal, perm=[0, 1, 3, 2])), axis=-1)
    stored = w.apply("DynamicQuantizeLinear", normal, outputs=3)
    weight = w.constant("stored weight", np.arange(128).reshape(16, 8) - 64, np.int8)
    sums = w.apply("MatMulInteger", stored, weight, f"{stored}.2")
    numbers = w.apply("Mul", w.apply("Cast", sums, to=1), w.apply("Mul", f"{stored}.1", 0.01))
    rows = w.apply(
        "Gather", w.apply("Einsum", normal, np.ones((16, 3)), equation="abcd,de->abce"), np.array([1, 0]), axis=1
    )
    window = w.apply("MaxPool", w.apply("Exp", w.data), kernel_shape=[3, 3], pads=[1] * 4)
    (folder / "m.onnx").write_bytes(w.file(scores, w.quantized(numbers), rows, window))


def tool_form(name: str) -> Callable[[Path], None]:
    """A small network as a tool writes it when it quantizes."""

    def make(folder: Path) -> None:
        from tests.support.models.onnx_tool_forms import TOOL_FORMS

        (folder / "m.onnx").write_bytes(TOOL_FORMS[name]())

    return make


def tflite_recurrent(folder: Path) -> None:
    from tests.support.models.tflite_recurrent import file_with_recurrent

    (folder / "m.tflite").write_bytes(file_with_recurrent())


def onnx_functions(folder: Path) -> None:
    from tests.support.models.onnx_functions import with_attention

    (folder / "m.onnx").write_bytes(with_attention())


def onnx_graphs(folder: Path) -> None:
    from tests.support.models.onnx_inner_graphs import loop_and_layer

    (folder / "m.onnx").write_bytes(loop_and_layer())


def float_onnx(folder: Path) -> None:
    from tests.support.models.float_models import saved, small

    saved(small(), folder)


def float_tflite(folder: Path) -> None:
    from tests.support.models.tflite_models import float_network

    (folder / "m.tflite").write_bytes(float_network())


def ranges(folder: Path) -> None:
    from int8tune.quantize.ranges import BINS, Ranges, TensorRange
    from int8tune.quantize.ranges_file import write_ranges

    counts = (5, *[0] * (BINS - 2), 3)
    each = TensorRange("x", "input", "", (1, 2, 4), -1.0, 2.0, 0.5, 1.0, (-1.0, 0.0), (1.0, 2.0), counts, 8, 1, 0, 0)
    write_ranges(folder / "m.ranges.json", Ranges("m.onnx", "0" * 64, "s.npz", "1" * 64, 1, {"x": each}))


def samples(folder: Path) -> None:
    array = np.zeros((5, 4), np.uint8)
    np.savez_compressed(folder / "s.npz", allow_pickle=False, x=array, y=array.astype(np.float32))
    np.save(folder / "s.npy", array)
    np.save(folder / "f.npy", np.asfortranarray(array))
