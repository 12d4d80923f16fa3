"""The int8 layers of a network, and which templates take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from int8tune.compiler.islands.island import exact_operators
from int8tune.compiler.network import Network
from int8tune.compiler.network_file import is_model
from int8tune.compiler.obstacles import (
    Obstacle,
    exactness,
    float_lines,
    float_parts,
    int8_share,
    obstacle_lines,
    obstacles,
)
from int8tune.compiler.quantized_layers import layer_table, quantized_layers
from int8tune.results.label import layer_label
from int8tune.schedules.registry import all_templates, templates_for
from int8tune.schedules.target import Target
from int8tune.schedules.workload import Workload
from int8tune.tuner.api.frames import frame_of, listed
from int8tune.tuner.api.networks import NetworkLike, as_network
from int8tune.tuner.given_network import require_model
from int8tune.tuner.local_target import target_to_look_at
from int8tune.tuner.models.given import BindLike, ShapeLike, given_of

if TYPE_CHECKING:
    import pandas

    from int8tune.compiler.given import Given
    from int8tune.compiler.graph import Graph


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """A distinct layer.

    Attributes:
        names: of the network's layers that are this one, as far as it names them.
        count: how often the network runs it.
        macs: multiply-adds of one run.
        workload: its key.
        templates: those that take it, the preferred one first.
        rejections: why the others do not.
    """

    names: tuple[str, ...]
    count: int
    macs: int
    workload: str
    templates: tuple[str, ...]
    rejections: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Compilability:
    """What keeps a model from being compiled, and what of it is computed in float.

    Attributes:
        int8_share: of its multiply-adds, that of int8 layers; None where it has none at all.
        exact: how many of its operators are integers, bit for bit.
        obstacles: kinds of operators that nothing computes.
        floats: kinds of operators that are computed in float.
        lines: the same for a person; none where it has layers, and all of it is exact integers.
    """

    int8_share: float | None
    exact: int
    obstacles: tuple[Obstacle, ...]
    floats: tuple[Obstacle, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Layers:
    """The int8 layers of a network.

    Attributes:
        target: the profile that templates were asked for.
        macs: multiply-adds of all runs; of a layer of 16-bit data, which is two of bytes, its own.
        layers: the distinct ones, in the order of their first use.
        model: what keeps it from being compiled, where the network is a model's; else None.
    """

    network: str
    target: str
    macs: int
    layers: tuple[LayerInfo, ...]
    model: Compilability | None

    @property
    def runs(self) -> int:
        """How many layers the network has, equal ones counted each time."""
        return sum(layer.count for layer in self.layers)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each distinct layer."""
        about = {"network": self.network, "target": self.target}
        return frame_of([about | {"label": layer_label(layer.workload)} | asdict(layer) for layer in self.layers])

    def __repr__(self) -> str:
        distinct = f"{listed(self.runs, 'layer')}, {len(self.layers)} distinct, {self.macs:,} multiply-adds"
        return f"<Layers of {self.network} on {self.target}: {distinct}>"


def layers(
    network: NetworkLike,
    *,
    target: str | None = None,
    bind: BindLike | None = None,
    shape: ShapeLike | None = None,
    until: Sequence[str] | None = None,
) -> Layers:
    """The int8 layers of a network, and which templates take them.

    Of a model, those are the layers that it computes on 8-bit integers.

    Args:
        network: a name such as `mobilenet_v2`, a model, a layer table, or a network.
        target: any profile, whether or not this machine can run it; the best of this CPU if None.
        bind: values of a model's inputs that become constants, by name: numbers, arrays, or names of `.npy` files.
        shape: shapes of its inputs, by name, where the file leaves extents open.
        until: values at which a model ends, in place of its own outputs.

    Raises:
        SpecError: values or shapes are given for what is no model.
        UnknownNetworkError, ModelError, LayerTableError: the network can't be read.
        UnknownTargetError: nobody registered the profile.
    """
    found, graph = _loaded(network, given_of(bind, shape, until))
    chosen = target_to_look_at(target)
    rows = tuple(
        LayerInfo(
            layer.names, layer.count, layer.workload.macs, layer.workload.key, *_templates(layer.workload, chosen)
        )
        for layer in found.layers
    )
    model = None if graph is None else _compilability(graph)
    macs = found.macs if graph is None else sum(layer.file_macs for layer in quantized_layers(graph))
    return Layers(found.name, chosen.profile, macs, rows, model)


def _compilability(graph: Graph) -> Compilability:
    lines = (*obstacle_lines(graph), *float_lines(graph))
    exact, share = exact_operators(graph), int8_share(graph)
    if not lines and not quantized_layers(graph):
        lines = (f"{graph.name}: {exactness(exact, {}, share)}",)
    return Compilability(share, exact, obstacles(graph), float_parts(graph), lines)


def _loaded(network: NetworkLike, given: Given) -> tuple[Network, Graph | None]:
    """A network; with the graph that it was read from, if it is a model."""
    require_model(network, [given])
    if isinstance(network, Network) or not is_model(network):
        return as_network(network), None
    from int8tune.compiler.model import read_model

    graph = read_model(Path(network), given)
    return layer_table(graph), graph


def _templates(workload: Workload, target: Target) -> tuple[tuple[str, ...], dict[str, str]]:
    """The templates that take a workload, the preferred one first, and why the others do not."""
    taking = tuple(template.name for template in templates_for(workload, target))
    return taking, {t.name: why.reason for t in all_templates() if (why := t.rejects(workload, target))}
