"""The kinds of files that the program reads: samples, what may be done to them, what reads them and may refuse them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from int8tune.compiler.errors import CompilerError
from int8tune.compiler.graph import Value
from int8tune.quantize.errors import QuantizeError
from int8tune.results.errors import ResultsError
from int8tune.rpc.errors import RpcError
from int8tune.rpc.wire.npy import CaseError
from int8tune.schedules.errors import ScheduleError
from int8tune.tuner.errors import TunerError
from tests.fuzz import files, samples, texts
from tests.fuzz.texts import Mutation, changed_bytes, many_lines
from tests.support.program.results_samples import campaign

DOCUMENTED = (CompilerError, QuantizeError, ResultsError, RpcError, ScheduleError, TunerError, OSError)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of files.

    Attributes:
        make: writes valid ones into a folder.
        mutations: by the names of those that are changed, such as `*.json`.
        read: reads what is in a folder.
        refusals: the errors by which it may refuse that.
        needs: packages without which it can't be read.
    """

    make: Callable[[Path], object]
    mutations: Mapping[str, tuple[Mutation, ...]]
    read: Callable[[Path], object]
    refusals: tuple[type[Exception], ...] = DOCUMENTED
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """The packages that are not here."""
        return ", ".join(name for name in self.needs if find_spec(name) is None)


def _best_log(folder: Path) -> None:
    from int8tune.compiler.best_log import schedule_faults
    from int8tune.results.best_log import read_best_log

    read_best_log(folder / "best.jsonl", schedule_faults)


def _records(folder: Path) -> None:
    from int8tune.results.best import best_schedules
    from int8tune.results.record import BenchResult, BoardEvent, Campaign, CampaignRun, DeviceCheck, Duel, Trial
    from int8tune.results.store import SqliteStore

    with SqliteStore(folder / "records.db", readonly=True) as store:
        for kind in (Campaign, CampaignRun, BoardEvent, Trial, Duel, DeviceCheck, BenchResult):
            list(store.query(kind))
        best_schedules(store)
    with SqliteStore(folder / "records.db") as store:
        store.append([campaign("another")])


def _compared_records(folder: Path) -> None:
    from int8tune.results.comparison.compare import compare_sides
    from int8tune.results.comparison.reading import read_side
    from int8tune.results.report.comparison import render_comparison

    side = read_side(str(folder / "records.db"), "c1")
    render_comparison(compare_sides(side, side))


def _compared_json(folder: Path) -> None:
    from int8tune.results.comparison.compare import compare_sides
    from int8tune.results.comparison.reading import read_side
    from int8tune.results.report.comparison import render_comparison

    for path in folder.glob("*.json"):
        side = read_side(str(path))
        render_comparison(compare_sides(side, side))


def _layer_table(folder: Path) -> None:
    from int8tune.compiler.network_file import load_network

    load_network(str(folder / "table.json"))


def _farm(folder: Path) -> None:
    from int8tune.rpc.inventory.file import read_inventory

    read_inventory(folder / "farm.toml", ("generic", samples.TARGET))


def _simulation(folder: Path) -> None:
    from int8tune.rpc.farm.simulation.scenario import Work, simulate
    from int8tune.rpc.inventory.file import read_inventory

    simulate(read_inventory(folder / "farm.toml"), Work(trials=20))


def _status(folder: Path) -> None:
    from int8tune.rpc.farm.status_file import read_report

    read_report(folder, "a")


def _journal(folder: Path) -> None:
    from int8tune.rpc.farm.journal import JournalFile
    from int8tune.tuner.campaign.farm_journal import FarmJournal

    copied = shutil.copyfile(folder / "farm.journal", folder / "copied.journal")
    FarmJournal(copied, samples.CANARY, ["a", "b"], lambda _: None).close()
    JournalFile(folder / "farm.journal").close()


def _bundle(folder: Path) -> None:
    from int8tune.rpc.bundle.archive import extract, open_bundle

    with tempfile.TemporaryDirectory(dir=folder) as made:
        extract(open_bundle(folder / "b.pyz"), Path(made))


def _bundle_results(folder: Path) -> None:
    from int8tune.tuner.bundles.merge import merge

    merge(folder, folder / "b.results")


def _recording(folder: Path) -> None:
    from int8tune.tuner.lab.recording import read_recording

    for layer in read_recording(folder / "lab.parquet"):
        _ = layer.space


def _database(folder: Path) -> None:
    from int8tune.tuner.lab.metaschedule import read_database

    read_database(folder)


def _found(folder: Path) -> None:
    from int8tune.tuner.metaschedule.job import found_from_json

    found_from_json((folder / "found.json").read_text(encoding="utf-8"))


def _model(folder: Path) -> None:
    from int8tune.compiler.model import read_model
    from int8tune.compiler.quantized_layers import network_of

    (path,) = folder.glob("m.*")
    network_of(read_model(path))


def _compiled(folder: Path) -> None:
    from int8tune.compiler.compile import compile_model
    from int8tune.compiler.model import read_model
    from int8tune.compiler.schedule_choice import Schedules
    from int8tune.schedules.target import named_target

    (path,) = folder.glob("m.*")
    target = named_target(samples.TARGET)
    compile_model(read_model(path), target, Schedules(target), folder / "made.so")


def _samples(folder: Path) -> None:
    from int8tune.tuner.errors import SamplesError
    from int8tune.tuner.models.arrays import read_samples

    inputs = [Value("x", (4,), "u8"), Value("y", (4,), "f32")]
    for name in ("s.npz", "s.npy", "f.npy"):
        try:
            read_samples(folder / name, inputs[: 2 if name == "s.npz" else 1])
        except SamplesError:
            continue


def _ranges(folder: Path) -> None:
    from int8tune.quantize.ranges_file import read_ranges

    read_ranges(folder / "m.ranges.json")


def _calibration(folder: Path) -> None:
    import numpy as np

    from int8tune.quantize.float_model import FloatInput
    from int8tune.quantize.samples.given import samples_of

    inputs = [FloatInput(name, np.dtype(np.float32), (None, 4)) for name in "xy"]
    for name in ("s.npz", "s.npy", "f.npy"):
        try:
            for _ in samples_of(folder / name).batches(inputs[: 2 if name == "s.npz" else 1]):
                continue
        except QuantizeError:
            continue


def _float_model(folder: Path) -> None:
    from int8tune.quantize.float_model import read_float_model

    read_float_model(folder / "m.onnx")


def _float_tflite(folder: Path) -> None:
    from int8tune.quantize.tflite_models import read_float_tflite

    read_float_tflite(folder / "m.tflite")


def _case(folder: Path) -> None:
    from int8tune.rpc.wire.npy import read_npy

    for name in ("s.npy", "f.npy"):
        read_npy(str(folder / name))


_JSON = (texts.changed_json, changed_bytes)
_LINES = (texts.json_line, texts.json_line, changed_bytes, many_lines)
_CHECKED = (texts.checked_line, texts.checked_line, changed_bytes, many_lines)
_TOML = (texts.changed_toml, texts.changed_toml, changed_bytes)
_ARRAYS = {"*.np?": (files.changed_array, files.changed_array, changed_bytes)}

_ONNX = {"m.onnx": (files.changed_onnx, changed_bytes)}
_TFLITE = {"m.tflite": (changed_bytes,)}
_ONNX_TOOLS, _TFLITE_TOOLS = ("onnx", "onnxruntime", "tvm"), ("tflite", "ai_edge_litert", "tvm")
# Models as tools write them, which are compiled, too, as a user would; that takes longer than to read them.
COMPILED: Mapping[str, Kind] = {
    **{
        f"compiled-{form}": Kind(samples.tool_form(form), _ONNX, _compiled, needs=_ONNX_TOOLS)
        for form in ("u8s8", "qoperator", "dynamic", "nncf", "pytorch", "qcdq", "numbered", "halves")
    },
    "compiled-onnx-words": Kind(samples.onnx_words, _ONNX, _compiled, needs=_ONNX_TOOLS),
    "compiled-tflite": Kind(samples.tflite, _TFLITE, _compiled, needs=_TFLITE_TOOLS),
    "compiled-tflite-words": Kind(samples.tflite_words, _TFLITE, _compiled, needs=_TFLITE_TOOLS),
    "compiled-recurrent": Kind(samples.tflite_recurrent, _TFLITE, _compiled, needs=_TFLITE_TOOLS),
}
KINDS: Mapping[str, Kind] = {
    "best-log": Kind(samples.best_log, {"best.jsonl": _LINES}, _best_log),
    "records": Kind(
        samples.records,
        {"records.db": (files.changed_row, files.changed_row, files.changed_schema, changed_bytes)},
        _records,
    ),
    "compared-records": Kind(
        samples.records, {"records.db": (files.changed_row, files.changed_row, changed_bytes)}, _compared_records
    ),
    "compared-json": Kind(samples.compared_json, {"*.json": _JSON}, _compared_json),
    "layer-table": Kind(samples.layer_table, {"table.json": _JSON}, _layer_table),
    "farm": Kind(samples.farm, {"farm.toml": _TOML}, _farm),
    "simulation": Kind(samples.farm, {"farm.toml": _TOML}, _simulation),
    "status": Kind(samples.status, {"a.json": _JSON}, _status),
    "journal": Kind(samples.journal, {"farm.journal": _CHECKED}, _journal),
    "bundle": Kind(samples.bundle, {"b.pyz": (files.changed_archive, changed_bytes)}, _bundle),
    "bundle-results": Kind(
        samples.bundle_results, {"b.results": _CHECKED, "c1.bundles/[!.]*[0-9a-e].json": _JSON}, _bundle_results
    ),
    "recording": Kind(
        samples.recording,
        {"lab.parquet": (files.changed_parquet, changed_bytes)},
        _recording,
        needs=("pyarrow", "pandas"),
    ),
    "metaschedule": Kind(samples.database, {"database_*.json": _LINES}, _database),
    "found": Kind(samples.found, {"found.json": _JSON}, _found, (*DOCUMENTED, ValueError)),
    "tflite": Kind(samples.tflite, _TFLITE, _model, needs=("tflite", "ai_edge_litert")),
    "onnx": Kind(samples.onnx, _ONNX, _model, needs=("onnx",)),
    "onnx-frames": Kind(samples.onnx_frames, _ONNX, _model, needs=("onnx",)),
    "tflite-packed": Kind(samples.tflite_packed, _TFLITE, _model, needs=("tflite", "ai_edge_litert")),
    "tflite-open-batch": Kind(samples.tflite_open_batch, _TFLITE, _model, needs=("tflite", "ai_edge_litert")),
    "tflite-words": Kind(samples.tflite_words, _TFLITE, _model, needs=("tflite", "ai_edge_litert")),
    "onnx-words": Kind(samples.onnx_words, _ONNX, _model, needs=("onnx",)),
    "tflite-floats": Kind(samples.tflite_floats, _TFLITE, _model, needs=("tflite", "ai_edge_litert")),
    "onnx-external": Kind(
        samples.onnx_external,
        {**_ONNX, samples.WEIGHTS: (changed_bytes,)},
        _model,
        needs=("onnx",),
    ),
    "onnx-islands": Kind(samples.onnx_islands, _ONNX, _compiled, needs=("onnx", "tvm")),
    "tflite-islands": Kind(samples.tflite_floats, _TFLITE, _compiled, needs=("tflite", "ai_edge_litert", "tvm")),
    "onnx-functions": Kind(samples.onnx_functions, _ONNX, _model, needs=("onnx",)),
    "onnx-graphs": Kind(samples.onnx_graphs, _ONNX, _model, needs=("onnx",)),
    "ranges": Kind(samples.ranges, {"m.ranges.json": _JSON}, _ranges),
    "calibration": Kind(samples.samples, _ARRAYS, _calibration),
    "float-model": Kind(samples.float_onnx, _ONNX, _float_model, needs=("onnx", "onnxruntime")),
    "float-tflite": Kind(samples.float_tflite, _TFLITE, _float_tflite, needs=("onnx", "ai_edge_litert")),
    "samples": Kind(samples.samples, _ARRAYS, _samples),
    "case": Kind(samples.samples, {"[sf].npy": _ARRAYS["*.np?"]}, _case, (*DOCUMENTED, CaseError)),
    **COMPILED,
}
