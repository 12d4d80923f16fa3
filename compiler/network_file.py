"""Finds networks: those of the package (`networks/*.json`), tables that a person wrote, and models."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

from int8tune.compiler.errors import LayerTableError, UnknownNetworkError
from int8tune.compiler.files import read_file
from int8tune.compiler.given import NOTHING_GIVEN, Given
from int8tune.compiler.network import MAX_TEXT, Layer, Network, Published
from int8tune.results.bounded_json import all_names, parse_json
from int8tune.results.json_forms import Form, Length, Made, matching, printable_text, whole_number
from int8tune.results.text import clipped, printable
from int8tune.results.typed_json import TypedJsonError, from_json
from int8tune.schedules.errors import WorkloadError
from int8tune.schedules.workload import Workload, parse_workload

FORMAT = 1
MAX_BYTES = 1_000_000
MAX_LAYERS = 10_000
MAX_COUNT = 1_000_000
MAX_NAME = 200
MODEL_SUFFIXES = (".tflite", ".onnx")

_KEY_HEAD = re.compile("(conv2d|dwconv2d|dense)-")
# What keys of workloads begin with, and no network's name.

_NAME = matching(r"[A-Za-z0-9._-]{1,64}", "1 to 64 letters, digits, `.`, `_`, `-`")
_SHAPE = matching(r"[1-9][0-9]{0,8}(?:x[1-9][0-9]{0,8}){0,7}", "a shape such as `1x224x224x3`")
_GIVEN = Form("an object", lambda value: value is not None)
_Key = Annotated[str, printable_text(MAX_NAME)]


@dataclass(frozen=True, slots=True)
class _Row:
    """A layer, as a table has it."""

    name: Annotated[str, printable_text(MAX_NAME)]
    count: Annotated[int, whole_number(1, MAX_COUNT)]
    workload: Annotated[Workload, Made(_Key, parse_workload, WorkloadError)]


@dataclass(frozen=True, slots=True)
class _Table:
    """A layer table, as its file has it."""

    format: Annotated[int, whole_number(FORMAT, FORMAT)]
    name: Annotated[str, _NAME]
    description: Annotated[str, printable_text(MAX_TEXT)]
    layers: Annotated[tuple[_Row, ...], Length(1, MAX_LAYERS)]
    input: Annotated[str, _SHAPE] = ""
    published: Annotated[Published | None, _GIVEN] = None


def network_names() -> tuple[str, ...]:
    """The networks that come with the package."""
    names = (entry.name for entry in _tables().iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def load_network(name_or_path: str, given: Given = NOTHING_GIVEN) -> Network:
    """A network that comes with the package, or that of a layer table (`.json`), of a quantized model, or of one layer.

    Args:
        name_or_path: such as `resnet50`, `table.json`, or a workload's key.
        given: what the user says of a model's inputs.

    Raises:
        UnknownNetworkError: no network has this name; the message has the nearest one, or why it is no layer's key.
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
    if _KEY_HEAD.match(name_or_path):
        return _of_one_layer(name_or_path)
    raise UnknownNetworkError(_unknown_network(name_or_path))


def _of_one_layer(key: str) -> Network:
    try:
        workload = parse_workload(key)
    except WorkloadError as error:
        raise UnknownNetworkError(printable(str(error))) from error
    return Network(key, "a layer", None, (Layer((key,), 1, workload),))


def read_table(data: bytes, source: str) -> Network:
    """The network of a layer table in JSON; `source` names the file in messages.

    Raises:
        LayerTableError: with every fault of the table.
    """
    try:
        table = from_json(_Table, _decoded(data, source))
    except TypedJsonError as error:
        raise _faulty(source, error.lines) from error
    extents = tuple(int(extent) for extent in table.input.split("x")) if table.input else None
    layers = tuple(Layer((row.name,), row.count, row.workload) for row in table.layers)
    network = Network(table.name, table.description, extents, layers, table.published)
    if faults := [*_repeated(network), *_disagreements(network)]:
        raise _faulty(source, faults)
    return network


def _decoded(data: bytes, source: str) -> object:
    try:
        return parse_json(data, objects=all_names, is_finite=False)
    except UnicodeDecodeError as error:
        fault = f"not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
    except json.JSONDecodeError as error:
        raise LayerTableError([printable(f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}")]) from error
    except ValueError as error:
        fault = str(error)
    raise _faulty(source, [fault])


def _faulty(source: str, faults: Iterable[str]) -> LayerTableError:
    return LayerTableError([printable(f"{source}: {fault}") for fault in faults])


def _repeated(network: Network) -> Iterator[str]:
    places: dict[str, int] = {}
    for index, layer in enumerate(network.layers):
        first = places.setdefault(layer.workload.key, index)
        if first != index:
            yield f"layers[{index}].workload: already in layers[{first}]: {layer.workload.key}"


def _disagreements(network: Network) -> Iterator[str]:
    published = network.published
    if published is None:
        return
    deviation = published.deviation(network.macs)
    if abs(deviation) > published.tolerance:
        yield (
            f"published.macs: the layers have {network.macs:.6g} multiply-adds, {deviation:+.2%} from the published "
            f"figure, the tolerance is {published.tolerance:.2%}: {published.macs:.6g}"
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
