"""Finds networks: those of the package (`networks/*.json`), tables that a person wrote, and models."""

from __future__ import annotations

import difflib
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from int8tune.compiler.errors import LayerTableError, UnknownNetworkError
from int8tune.compiler.files import read_file
from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.network import Layer, Network, Published
from int8tune.compiler.strict_json import Faults, Fields, clipped, decode_json
from int8tune.results.text import printable
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.workload import Workload, parse_workload

FORMAT = 1
MAX_BYTES = 1_000_000
MAX_LAYERS = 10_000
MAX_COUNT = 1_000_000
MAX_MACS = 10**18
MAX_NAME = 200
MAX_TEXT = 1000
MODEL_SUFFIXES = (".tflite", ".onnx")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SHAPE = re.compile(r"[1-9][0-9]{0,8}(?:x[1-9][0-9]{0,8}){0,7}")


def network_names() -> tuple[str, ...]:
    """The networks that come with the package."""
    names = (entry.name for entry in _tables().iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def load_network(name_or_path: str, given: Given = NOTHING_GIVEN) -> Network:
    """A network that comes with the package, by its name, or that of a layer table (`.json`) or a quantized model.

    Args:
        name_or_path: such as `resnet50` or `table.json`.
        given: what the user says of a model's inputs.

    Raises:
        UnknownNetworkError: no network has this name; the message has the nearest one.
        ModelError: the model can't be read, or has something that is not supported.
        LayerTableError: the file can't be read, or has faults; the message has a line for each.
    """
    if name_or_path in network_names():
        return read_table((_tables() / f"{name_or_path}.json").read_bytes(), f"{name_or_path}.json")
    path = Path(name_or_path)
    if path.suffix.lower() == ".json":
        data = read_file(path, "a layer table", MAX_BYTES, lambda text: LayerTableError([text]))
        return read_table(data, name_or_path)
    if is_model(path):
        from int8tune.compiler.model import read_model  # its readers need packages that tables don't
        from int8tune.compiler.obstacles import obstructed_network_of

        return obstructed_network_of(read_model(path, given))
    if _exists(name_or_path):
        accepted = f"a layer table (.json), a model (.tflite or .onnx), or one of {', '.join(network_names())}"
        raise LayerTableError([printable(f"neither a layer table nor a model, give {accepted}: {path}")])
    raise UnknownNetworkError(_unknown_network(name_or_path))


def read_table(data: bytes, source: str) -> Network:
    """The network of a layer table in JSON; `source` names the file in messages.

    Raises:
        LayerTableError: with every fault of the table.
    """
    faults = Faults(source)
    required = ("format", "name", "description", "layers")
    fields = Fields(decode_json(data, source), "", faults, required, optional=("input", "published"))
    fields.integer("format", FORMAT, FORMAT)
    name = fields.matching("name", _NAME, "1 to 64 letters, digits, `.`, `_`, `-`")
    description = fields.text("description", MAX_TEXT)
    shape = fields.matching("input", _SHAPE, "a shape such as `1x224x224x3`") if "input" in fields else ""
    layers = _read_layers(fields, faults)
    published = _read_published(fields, faults)
    faults.check()
    extents = tuple(int(extent) for extent in shape.split("x")) if shape else None
    network = Network(name, description, extents, layers, published)
    _check_published(network, faults)
    faults.check()
    return network


def _read_layers(fields: Fields, faults: Faults) -> tuple[Layer, ...]:
    places: dict[str, str] = {}
    layers = []
    for index, row in enumerate(fields.items("layers", MAX_LAYERS)):
        place = f"layers[{index}]"
        columns = Fields(row, place, faults, required=("name", "count", "workload"))
        name = columns.text("name", MAX_NAME)
        count = columns.integer("count", 1, MAX_COUNT)
        workload = _read_workload(columns)
        if workload is None:
            continue
        if workload.key in places:
            columns.fault("workload", f"already in {places[workload.key]}: {workload.key}")
        places.setdefault(workload.key, place)
        layers.append(Layer((name,), count, workload))
    return tuple(layers)


def _read_workload(columns: Fields) -> Workload | None:
    key = columns.text("workload", MAX_NAME)
    if not key:
        return None
    try:
        return parse_workload(key)
    except WorkloadError as error:
        columns.fault("workload", str(error))
        return None


def _read_published(fields: Fields, faults: Faults) -> Published | None:
    if "published" not in fields:
        return None
    required = ("macs", "tolerance", "source", "counts")
    block = Fields(fields.value("published"), "published", faults, required, optional=("macs_not_in_table",))
    return Published(
        macs=block.number("macs", 0, MAX_MACS),
        tolerance=block.number("tolerance", 0, 1),
        source=block.text("source", MAX_TEXT),
        counts=block.text("counts", MAX_TEXT),
        macs_not_in_table=block.integer("macs_not_in_table", 0, MAX_MACS),
    )


def _check_published(network: Network, faults: Faults) -> None:
    published = network.published
    if published is None:
        return
    deviation = published.deviation(network.macs)
    if abs(deviation) > published.tolerance:
        faults.add(
            "published.macs",
            f"the layers have {network.macs:.6g} multiply-adds, {deviation:+.2%} from the published figure, "
            f"the tolerance is {published.tolerance:.2%}: {published.macs:.6g}",
        )


def is_model(name: str | Path) -> bool:
    """Whether a name is that of a file with a model."""
    return Path(name).suffix.lower() in MODEL_SUFFIXES


def _exists(path: str) -> bool:
    try:
        return path != "" and Path(path).exists()
    except OSError:
        return False


def _unknown_network(name: str) -> str:
    names = network_names()
    near = difflib.get_close_matches(_folded(name), [_folded(known) for known in names], n=1, cutoff=0.65)
    hint = "".join(f", did you mean `{known}`?" for known in names if _folded(known) in near) or ","
    return printable(f"unknown network `{clipped(name)}`{hint} known: {', '.join(names)}")


def _folded(name: str) -> str:
    return re.sub(r"[-_ .]", "", name[:64].lower())


def _tables() -> Traversable:
    return files("int8tune.compiler") / "networks"
